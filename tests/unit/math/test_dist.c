/* The distributed matrix against the local one, on every possible grid of the ranks. NP: 1 2 3 4 */
#include "math/dist_internal.h"
#include "math/linalg.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int rank, ranks;

static void *room(int64_t n, size_t size)
{
    void *p;
    assert_int_equal(mem_zero(&p, n, size, "test", NULL), OK);
    return p;
}

/* The same tokens everywhere; a channel's size grows with its number. */
static float *tokens_make(int64_t T, int64_t n)
{
    float *x = room(T * n, sizeof *x);
    uint64_t s = 1;
    for (int64_t i = 0; i < T * n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(((double)(s >> 40) / (1 << 23) - 1.0) * (1 + (double)(i % n % 7)));
    }
    return x;
}

/* Sequences of uneven length; rank r has those of [first(r), first(r + 1)). */
enum { SEQUENCES = 7 };
static const int64_t share[SEQUENCES] = {40, 1, 300, 0, 17, 90, 260};

static int64_t first_sequence(int r)
{
    return (int64_t)SEQUENCES * r / ranks;
}

struct problem {
    int64_t n, T;
    float *x;
    int64_t offset[SEQUENCES + 1];
    int64_t *order;
    double *gram, *diagonal; /* serial sums; H's diagonal in the order */
    double scale;
};

static void problem_free(struct problem *p)
{
    free(p->x);
    free(p->order);
    free(p->gram);
    free(p->diagonal);
}

/* A pseudorandom permutation, or none. */
static void problem_make(struct problem *p, int64_t n, bool permuted, const double *bound)
{
    *p = (struct problem){.n = n, .scale = 0.37};
    for (int i = 0; i < SEQUENCES; i++) p->offset[i + 1] = p->offset[i] + share[i];
    p->T = p->offset[SEQUENCES];
    p->x = tokens_make(p->T, n);
    p->gram = room(n * n, sizeof *p->gram);
    p->diagonal = room(n, sizeof *p->diagonal);
    assert_int_equal(gram_add(p->gram, p->x, n, p->offset, SEQUENCES, bound, PRODUCTS_F32, NULL),
                     OK);
    if (permuted) p->order = room(n, sizeof *p->order);
    for (int64_t i = 0; permuted && i < n; i++) p->order[i] = i;
    uint64_t s = 5;
    for (int64_t i = n - 1; permuted && i > 0; i--) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        int64_t k = (int64_t)(s >> 33) % (i + 1), kept = p->order[i];
        p->order[i] = p->order[k];
        p->order[k] = kept;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t a = p->order ? p->order[i] : i;
        p->diagonal[i] = p->scale * p->gram[a * n + a] * 1.01 + 0.5;
    }
}

/* Each rank adds its own sequences, in two calls. */
static void add_own(struct dist *d, const struct problem *p, const double *bound)
{
    int64_t a = first_sequence(rank), b = first_sequence(rank + 1), middle = (a + b) / 2;
    const int64_t parts[3] = {a, middle, b};
    for (int k = 0; k < 2; k++) {
        int64_t offset[SEQUENCES + 1], m = parts[k + 1] - parts[k];
        for (int64_t i = 0; i <= m; i++) offset[i] = p->offset[parts[k] + i] - p->offset[parts[k]];
        struct err e = {0};
        assert_int_equal(dist_gram_add(d, p->x + p->offset[parts[k]] * p->n, offset, m, bound, &e),
                         OK);
    }
}

/* R of the serial path. */
static double *serial_factor(const struct problem *p)
{
    int64_t n = p->n;
    double *h = room(n * n, sizeof *h);
    for (int64_t i = 0; i < n; i++) {
        h[i * n + i] = p->diagonal[i];
        for (int64_t j = i + 1; j < n; j++) {
            int64_t a = p->order ? p->order[i] : i, b = p->order ? p->order[j] : j;
            h[i * n + j] = (double)(float)(p->scale * p->gram[a < b ? a * n + b : b * n + a]);
        }
    }
    assert_int_equal(chol_upper(h, n, NULL), OK);
    return h;
}

static void panels_compare(const struct dist *d, const double *want, int64_t n, int64_t width)
{
    struct dist_panel p = {0};
    float *r = room(n * width, sizeof *r);
    double *corner = room(width * width, sizeof *corner), worst = 0, most = 0;
    assert_int_equal(dist_panel_make(d, width, &p, NULL), OK);
    for (int64_t begin = 0; begin < n; begin += width) {
        int64_t end = begin + width < n ? begin + width : n;
        assert_int_equal(dist_panel_start(d, begin, end, &p, NULL), OK);
        dist_panel_progress(&p);
        assert_int_equal(dist_panel_finish(d, &p, r, corner, NULL), OK);
        for (int64_t i = 0; i < end; i++)
            for (int64_t j = begin; j < end; j++) {
                double w = want[i * n + j];
                most = fmax(most, fabs(w));
                if (i < begin) {
                    worst = fmax(worst, fabs((double)r[(j - begin) * begin + i] - w));
                    continue;
                }
                double fine = corner[(i - begin) * (end - begin) + j - begin];
                assert_true(fabs(fine - w) <= 1e-10 * most + (i > j ? -1e-10 * most : 0));
            }
    }
    dist_panel_free(&p);
    assert_true(worst <= 1e-6 * most);
    free(r), free(corner);
}

static void try_shape(int64_t n, bool permuted, struct dist_shape shape)
{
    struct problem p;
    struct dist *d;
    struct err e = {0};
    problem_make(&p, n, permuted, NULL);
    assert_int_equal(dist_make(MPI_COMM_WORLD, n, shape, &d, &e), OK);
    add_own(d, &p, NULL);
    double *diagonal = room(n, sizeof *diagonal);
    assert_int_equal(dist_diagonal(d, diagonal, &e), OK);
    for (int64_t i = 0; i < n; i++)
        assert_true(fabs(diagonal[i] - p.gram[i * n + i]) <= 1e-12 * p.gram[i * n + i]);
    double *want = serial_factor(&p);
    /* A factorization that must fail, then one from the remaining sums, twice. */
    if (n > 3) {
        double kept = p.diagonal[n / 2];
        p.diagonal[n / 2] = -1;
        assert_int_equal(dist_factor(d, p.order, p.scale, p.diagonal, &e), ERR_NUMERIC);
        assert_non_null(strstr(e.text, "not positive definite"));
        err_clear(&e);
        p.diagonal[n / 2] = NAN;
        assert_int_equal(dist_factor(d, p.order, p.scale, p.diagonal, &e), ERR_NUMERIC);
        err_clear(&e);
        p.diagonal[n / 2] = kept;
    }
    for (int k = 0; k < 1 + (n < 100); k++) {
        assert_int_equal(dist_factor(d, p.order, p.scale, p.diagonal, &e), OK);
        panels_compare(d, want, n, k ? 33 : n / 5 + 1);
    }
    dist_free(d);
    free(want), free(diagonal);
    problem_free(&p);
}

static void any_grid_factors_the_matrix(void **state)
{
    (void)state;
    const int64_t orders[] = {1, 3, 64, 130, 257};
    for (int64_t rows = 1; rows <= ranks; rows++) {
        if (ranks % rows) continue;
        for (int o = 0; o < 5; o++)
            try_shape(orders[o], o & 1, (struct dist_shape){rows, ranks / rows, o < 3 ? 8 : 48});
    }
    try_shape(1100, true, (struct dist_shape){0}); /* several panels of sums */
    struct dist *d;
    struct err e = {0};
    assert_int_equal(dist_make(MPI_COMM_WORLD, 8, (struct dist_shape){ranks + 1, 1, 4}, &d, &e),
                     ERR_USAGE);
    assert_null(d);
}

/* With a bound the sums, and hence the diagonal, equal the serial ones bit for bit. */
static void bounded_sums_are_the_serial_ones(void **state)
{
    (void)state;
    const int64_t n = 300;
    struct problem p;
    struct dist *d;
    problem_make(&p, n, false, NULL);
    float *most = room(n, sizeof *most);
    double *bound = room(n, sizeof *bound), *got = room(n, sizeof *got);
    gram_bound_raise(most, p.x, n, p.T);
    gram_bound_make(bound, most, n, p.T);
    problem_free(&p);
    problem_make(&p, n, false, bound);
    assert_int_equal(dist_make(MPI_COMM_WORLD, n, (struct dist_shape){0}, &d, NULL), OK);
    add_own(d, &p, bound);
    assert_int_equal(dist_diagonal(d, got, NULL), OK);
    for (int64_t i = 0; i < n; i++) assert_true(got[i] == p.gram[i * n + i]);
    dist_free(d);
    free(most), free(bound), free(got);
    problem_free(&p);
}

/* Off-diagonal sums (n, n) of all ranks together. */
static double *sums_of(const struct dist *d)
{
    int64_t n = d->n;
    double *all = room(n * n, sizeof *all);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < j; i++)
            if (dist_rank(d, i, j) == rank) all[i * n + j] = *dist_at(d, i, j);
    MPI_Allreduce(MPI_IN_PLACE, all, (int)(n * n), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Neither the pieces in which a panel is exchanged nor the grid change any bit of the sums. */
static void pieces_and_grids_change_no_bit(void **state)
{
    (void)state;
    const int64_t n = 257, blocks[] = {8, 48, 128};
    struct problem p;
    double *want = NULL, *diagonal[2] = {room(n, sizeof(double)), room(n, sizeof(double))};
    problem_make(&p, n, false, NULL);
    for (int k = 0; k < 3; k++) {
        struct dist *d;
        struct dist_shape shape = {1, ranks, blocks[k]};
        assert_int_equal(dist_make(MPI_COMM_WORLD, n, shape, &d, NULL), OK);
        if (ranks == 4) assert_int_equal(dist_pieces(&d->rows, &d->cols, 128), 1 << k);
        add_own(d, &p, NULL);
        double *got = sums_of(d);
        assert_int_equal(dist_diagonal(d, diagonal[k > 0], NULL), OK);
        if (want) {
            assert_memory_equal(got, want, (size_t)(n * n) * sizeof *got);
            assert_memory_equal(diagonal[1], diagonal[0], (size_t)n * sizeof *got);
            free(got);
        } else {
            want = got;
        }
        dist_free(d);
    }
    free(want), free(diagonal[0]), free(diagonal[1]);
    problem_free(&p);
}

/* Maximum number of elements that one process of the grid receives at a time. */
static int64_t arriving(const struct cyclic *rows, const struct cyclic *cols, int64_t width,
                        int64_t pieces)
{
    int64_t most = 0, *got = room(cols->procs, sizeof *got);
    for (int64_t end = cols->n; end > 0; end -= width)
        for (int64_t piece = 0; piece < pieces; piece++) {
            int64_t first = end > width ? end - width : 0;
            for (int64_t r = 0; r < rows->procs; r++) {
                memset(got, 0, (size_t)cols->procs * sizeof *got);
                for (int64_t j = first + piece; j < end; j += pieces) {
                    int64_t c = cyclic_owner(cols, j);
                    got[c] += cyclic_count(rows, j + 1, r);
                    if (got[c] > most) most = got[c];
                }
            }
        }
    free(got);
    return (rows->procs * cols->procs - 1) * most;
}

/* The receive buffer that dist_summing_bytes counts, for any number of ranks. */
static void the_receive_buffer_is_as_counted(void **state)
{
    (void)state;
    const int64_t orders[] = {1000, 5000, 8192, 43000, 43008};
    const struct {
        int64_t rows, cols, pieces; /* of the last two orders */
    } grids[] = {{1, 2, 1},   {2, 2, 1},  {1, 5, 1},   {2, 3, 2},   {1, 7, 2},
                 {4, 4, 1},   {1, 13, 4}, {4, 8, 2},   {1, 31, 8},  {8, 8, 2},
                 {1, 97, 32}, {8, 16, 4}, {16, 16, 4}, {1, 127, 32}};
    if (ranks > 1) return;
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        for (int o = 0; o < 5; o++) {
            int64_t n = orders[o], width = gram_panel_rows(n), block = n < 8192 ? 64 : 128;
            struct cyclic rows = {n, block, grids[g].rows}, cols = {n, block, grids[g].cols};
            int64_t pieces = dist_pieces(&rows, &cols, width);
            if (o > 2) assert_int_equal(pieces, grids[g].pieces);
            assert_true(arriving(&rows, &cols, width, pieces) <= width * n);
            assert_true(dist_summing_bytes(n) == 3 * width * n * 8);
        }
}

/* A bad number on one rank is an error on every rank. */
static void a_bad_number_fails_all_ranks(void **state)
{
    (void)state;
    const int64_t n = 100;
    struct problem p;
    struct dist *d;
    struct err e = {0};
    double *diagonal = room(n, sizeof *diagonal);
    problem_make(&p, n, false, NULL);
    if (rank == ranks - 1) p.x[(p.T - 1) * n + 7] = NAN;
    assert_int_equal(dist_make(MPI_COMM_WORLD, n, (struct dist_shape){0}, &d, &e), OK);
    add_own(d, &p, NULL);
    enum status st = dist_diagonal(d, diagonal, &e);
    assert_int_equal(st, ERR_NUMERIC);
    assert_non_null(strstr(e.text, "not finite"));
    dist_free(d);
    free(diagonal);
    problem_free(&p);
}

static void sizes_do_not_overflow(void **state)
{
    (void)state;
    struct dist *d;
    struct err e = {0};
    /* Apertus 70B on two ranks: 7.4 GB each, and no 32-bit overflow. */
    assert_true(dist_summing_bytes(43008) == (int64_t)3 * 512 * 43008 * 8);
    assert_true(dist_bytes(43008, 2) > (int64_t)43008 * 43008 * 4);
    assert_true(dist_bytes(43008, 2) < (int64_t)43008 * 43008 * 4 + ((int64_t)1 << 29));
    /* 2 x 2: panels of 128 columns, half of the rows and half of the columns per rank. */
    assert_true(dist_factor_bytes(43008, 4) == (int64_t)2 * 128 * 43008 * 8);
    assert_true(dist_factor_bytes(43008, 32) < dist_factor_bytes(43008, 31) / 2);
    if (ranks > 1) return;
    assert_int_equal(dist_make(MPI_COMM_WORLD, 60000, (struct dist_shape){0}, &d, &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, "more ranks"));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    linalg_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_grid_factors_the_matrix),
        cmocka_unit_test(bounded_sums_are_the_serial_ones),
        cmocka_unit_test(pieces_and_grids_change_no_bit),
        cmocka_unit_test(the_receive_buffer_is_as_counted),
        cmocka_unit_test(a_bad_number_fails_all_ranks),
        cmocka_unit_test(sizes_do_not_overflow),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
