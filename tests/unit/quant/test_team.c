/* Ranks that share a matrix: the same codes and report as a single rank, bit for bit if one rank
 * has the Hessian, approximately if it is distributed. NP: 1 3 4 */
#include "layer.h"
#include "quant/gptq.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct quant_team team;

/* Value of the other ranks' rows of q before a run. */
static const float UNTOUCHED = 1e30f;

/* Whether gptq and gptaq sweep as matrices of many columns: bands of two tiles, panels of four
 * blocks; with products of strips, if this CPU has them, or with general ones. */
static bool wide, general;

struct outcome {
    enum status st;
    struct err err;
    float *q; // (rows, cols) all ranks' rows together
    struct quant_report report;
};

static void outcome_free(struct outcome *o)
{
    free(o->q);
}

/* Gathers all rows from the ranks that made them; fails if a rank wrote another rank's row. */
static void gather(const struct layer *l, float *q)
{
    for (int r = 0; r < team.size; r++) {
        int64_t first, end;
        team_rows(&team, r, l->rows, &first, &end);
        for (int64_t i = first * l->cols; r != team.rank && i < end * l->cols; i++)
            assert_true(q[i] == UNTOUCHED);
        MPI_Bcast(q + first * l->cols, (int)((end - first) * l->cols), MPI_FLOAT, r, team.comm);
    }
}

/* Lets a small matrix be swept as a wide one. */
static enum status shape_wide(struct gptq_prepared *p, struct err *e)
{
    enum status st = OK;
    double *r = NULL;
    if (p->factor) {
        TRY(mem_alloc(&r, p->cols * p->cols, sizeof *r, "the Hessian's factor", e));
        gptq_factor_unpack(p, r);
        free(p->factor);
        p->factor = NULL;
    }
    gptq_shape(p, 2, 4);
    if (!r) goto done;
    TRY(mem_alloc(&p->factor, gptq_factor_floats(p), sizeof *p->factor, "the Hessian's factor", e));
    gptq_factor_pack(p, r);
done:
    free(r);
    return st;
}

static struct outcome run(const struct layer *l, const struct quant_method *m, int64_t bits,
                          const struct quant_options *o, const struct quant_input *in)
{
    struct outcome out = {0};
    void *prepared = NULL;
    assert_int_equal(mem_alloc(&out.q, l->rows * l->cols, sizeof *out.q, "result", NULL), OK);
    for (int64_t i = 0; i < l->rows * l->cols; i++) out.q[i] = UNTOUCHED;
    out.st = layer_prepare(l, m, bits, o, in, &prepared, &out.err);
    if (m->share) out.st = m->share(in, prepared, out.st, &out.err);
    if (out.st == OK && wide) out.st = shape_wide(prepared, &out.err);
    if (out.st == OK && wide && general) ((struct gptq_prepared *)prepared)->strips = false;
    struct quant_job job = {.team = &team,
                            .bits = bits,
                            .options = o,
                            .rows = l->rows,
                            .cols = l->cols,
                            .w = l->w,
                            .q = out.q,
                            .input = in,
                            .prepared = prepared};
    if (out.st == OK) out.st = m->run(&job, &out.report, &out.err);
    if (prepared) m->release(prepared);
    if (out.st == OK) gather(l, out.q);
    return out;
}

static struct outcome alone(const struct layer *l, const struct quant_method *m, int64_t bits,
                            const struct quant_options *o)
{
    struct outcome out = {0};
    out.st = layer_quantize(l, m, bits, o, &out.q, &out.report, &out.err);
    return out;
}

/* What a single rank computes is computed by one rank, and given to all. */
static void outcome_share(struct outcome *o, const struct layer *l, int from)
{
    const int64_t n = l->rows * l->cols;
    int st = o->st;
    MPI_Bcast(&st, 1, MPI_INT, from, team.comm);
    assert_int_equal(st, OK);
    if (team.rank != from) assert_int_equal(mem_alloc(&o->q, n, sizeof *o->q, "result", NULL), OK);
    MPI_Bcast(o->q, (int)n, MPI_FLOAT, from, team.comm);
    MPI_Bcast(&o->report, (int)sizeof o->report, MPI_BYTE, from, team.comm);
}

enum { CASES = 6 };

/* Sanitizers look at memory, not at numbers: of each method, every other case. */
#ifdef __SANITIZE_ADDRESS__
enum { CASE_STEP = 2 };
#else
enum { CASE_STEP = 1 };
#endif

/* mixes: whether the method has that option and the Hessian is whole. */
static struct quant_options case_options(int i, bool mixes)
{
    struct quant_options o = options_make(i == 1 ? -1 : i == 2 ? 96 : 64);
    if (i == 2) o.order = ORDER_ACTIVATION; /* groups of 96 reach beyond blocks of 128 */
    if (i == 3) o.order = ORDER_GROUP;
    if (i == 4) o.static_groups = true;
    if (i == 5) o.scale_dtype = SCALE_F16;
    if (i == 4 || i == 5) option_set(&o, "--scaled", "free");
    if (i == 5) option_set(&o, "--duo-scaling", NULL);
    if (i == 2 && mixes) {
        option_set(&o, "--mixing", "hadamard");
        option_set(&o, "--scaled", "free");
    }
    return o;
}

/* One rank has the Hessian, a different one each time. 272 rows: several tiles and a part of one,
 * and a small Hadamard matrix (300 would have one of order 300). */
static void one_rank_with_the_hessian_gives_the_same_codes(void **state)
{
    (void)state;
    struct layer l = layer_make(272, 288, 700);
    const struct quant_method *m;
    for (int k = 0; (m = quant_at(k)) != NULL; k++) {
        struct outcome expected[CASES] = {0};
        for (int i = team.rank * CASE_STEP; i < CASES; i += team.size * CASE_STEP) {
            struct quant_options o = case_options(i, quant_concerns(m, "mixing"));
            expected[i] = alone(&l, m, m->bits_min, &o);
        }
        for (int i = 0; i < CASES; i += CASE_STEP) {
            struct quant_options o = case_options(i, quant_concerns(m, "mixing"));
            struct quant_input in = l.input;
            in.team = &team;
            in.owner = i % team.size;
            for (int s = 0; s < STATISTIC_N; s++)
                if (team.rank != in.owner && !statistic_at(s)->everywhere) in.statistic[s] = NULL;
            struct outcome *a = &expected[i], b = run(&l, m, m->bits_min, &o, &in);
            if (b.st != OK) fail_msg("%s: %s", m->name, b.err.text);
            outcome_share(a, &l, i / CASE_STEP % team.size);
            assert_memory_equal(a->q, b.q, (size_t)(l.rows * l.cols) * sizeof *a->q);
            assert_memory_equal(&a->report, &b.report, sizeof b.report);
            outcome_free(a), outcome_free(&b);
        }
    }
    layer_free(&l);
}

/* The layer's inputs as sequences, which stay whole on whichever rank sums them. */
enum { SEQUENCES = 5 };

static void sequences_make(const struct layer *l, int64_t *offset)
{
    for (int64_t i = 0; i <= SEQUENCES; i++) offset[i] = l->input.tokens * i / SEQUENCES;
}

static void gram_again(struct layer *l)
{
    int64_t offset[SEQUENCES + 1];
    sequences_make(l, offset);
    memset(l->gram, 0, (size_t)(l->cols * l->cols) * sizeof *l->gram);
    assert_int_equal(gram_add(l->gram, l->x, l->cols, offset, SEQUENCES, NULL, PRODUCTS_F32, NULL),
                     OK);
}

/* Each rank sums some sequences. */
static struct dist *spread(const struct layer *l)
{
    struct dist *d;
    int64_t offset[SEQUENCES + 1], i0 = SEQUENCES * team.rank / team.size;
    int64_t n = SEQUENCES * (team.rank + 1) / team.size - i0;
    sequences_make(l, offset);
    int64_t a = offset[i0];
    for (int64_t i = 0; i <= n; i++) offset[i] = offset[i0 + i] - a;
    assert_int_equal(dist_make(team.comm, l->cols, (struct dist_shape){.block = 32}, &d, NULL), OK);
    assert_int_equal(dist_gram_add(d, l->x + a * l->cols, offset, n, NULL, NULL), OK);
    return d;
}

static void near(double a, double b, double share)
{
    assert_true(fabs(a - b) <= share * fabs(a));
}

static void a_distributed_hessian_gives_nearly_the_same(void **state)
{
    (void)state;
    struct layer l = layer_make(300, 288, 700);
    const struct quant_method *m = quant_find("gptq");
    gram_again(&l);
    struct quant_input in = l.input;
    in.team = &team;
    in.statistic[STATISTIC_GRAM] = NULL;
    in.dist = spread(&l);
    for (int i = 0; i < CASES; i++) {
        struct quant_options o = case_options(i, false);
        struct outcome a = alone(&l, m, 4, &o), b = run(&l, m, 4, &o, &in);
        if (b.st != OK) fail_msg("case %d: %s", i, b.err.text);
        int64_t differ = 0;
        for (int64_t k = 0; k < l.rows * l.cols; k++)
            differ += fabsf(a.q[k] - b.q[k]) > 1e-5f * fabsf(a.q[k]);
        assert_true((double)differ <= 1e-4 * (double)(l.rows * l.cols));
        near(a.report.error, b.report.error, 1e-5);
        near(a.report.relative_error, b.report.relative_error, 1e-5);
        near(a.report.squared_distance, b.report.squared_distance, 1e-5);
        assert_true(a.report.damping == b.report.damping);
        assert_true(a.report.bits_per_weight == b.report.bits_per_weight);
        outcome_free(&a), outcome_free(&b);
    }
    dist_free(in.dist);
    layer_free(&l);
}

/* Few rows differ: after a code that the last bits decided, the rest of its row may have others. */
static void alike(const struct layer *l, const struct outcome *a, const struct outcome *b)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < l->rows; i++) {
        bool differs = false;
        for (int64_t k = i * l->cols; k < (i + 1) * l->cols; k++)
            differs |= fabsf(a->q[k] - b->q[k]) > 1e-5f * fabsf(a->q[k]);
        rows += differs;
    }
    assert_true((double)rows <= 0.02 * (double)l->rows);
    near(a->report.error, b->report.error, 1e-5);
    near(a->report.squared_distance, b->report.squared_distance, 1e-3);
    if (!isnan(a->report.relative_error))
        near(a->report.relative_error, b->report.relative_error, 1e-5);
}

/* Case i of gptq, then of gptaq. */
static const struct quant_method *sweep_method(int i)
{
    return quant_find(i < CASES ? "gptq" : "gptaq");
}

static struct quant_options sweep_options(int i)
{
    struct quant_options o = case_options(i % CASES, false);
    if (i >= CASES && o.order == ORDER_GROUP) o.order = ORDER_ACTIVATION;
    o.block_size = 32;
    return o;
}

/* Runs case i as a single rank with the whole Hessian. */
static struct outcome single(const struct layer *l, int i)
{
    const struct quant_team all = team;
    const struct quant_options o = sweep_options(i);
    struct quant_input in = l->input;
    team = (struct quant_team){.comm = MPI_COMM_SELF, .size = 1};
    in.team = &team;
    struct outcome out = run(l, sweep_method(i), 4, &o, &in);
    team = all;
    return out;
}

/* Wide and narrow sweeps agree up to the last bits; wide ones give the same bits on any number of
 * ranks that share a whole Hessian. The last block, panel and band are shorter than the others. */
static void wide_sweeps_agree_with_narrow_ones(void **state)
{
    (void)state;
    struct layer l = layer_make(300, 280, 700);
    gram_again(&l); /* in the sequences of the ranks */
    struct quant_input distributed = l.input, whole = l.input;
    distributed.team = whole.team = &team;
    distributed.statistic[STATISTIC_GRAM] = NULL;
    distributed.dist = spread(&l);
    struct outcome narrow[2 * CASES] = {0}, swept[2 * CASES][2] = {0};
    for (int i = team.rank; i < 2 * CASES; i += team.size) {
        narrow[i] = single(&l, i);
        wide = true;
        for (int k = 0; k < 2; k++) general = k, swept[i][k] = single(&l, i);
        wide = false;
    }
    for (int i = 0; i < 2 * CASES; i++) {
        const struct quant_options o = sweep_options(i);
        outcome_share(&narrow[i], &l, i % team.size);
        wide = true;
        for (int k = 0; k < 2; k++) {
            struct outcome *a = &swept[i][k], b;
            outcome_share(a, &l, i % team.size);
            alike(&l, &narrow[i], a);
            general = k;
            b = run(&l, sweep_method(i), 4, &o, &whole);
            if (b.st != OK) fail_msg("case %d: %s", i, b.err.text);
            assert_memory_equal(a->q, b.q, (size_t)(l.rows * l.cols) * sizeof *a->q);
            assert_memory_equal(&a->report, &b.report, sizeof b.report);
            outcome_free(a), outcome_free(&b);
            if (i >= CASES) continue;
            b = run(&l, sweep_method(i), 4, &o, &distributed);
            assert_int_equal(b.st, OK);
            alike(&l, &narrow[i], &b);
            outcome_free(&b);
        }
        wide = false;
        outcome_free(&narrow[i]);
    }
    dist_free(distributed.dist);
    layer_free(&l);
}

/* Without damping, channels that are sums of others make H singular: the damping is raised on all
 * ranks equally; if it may not be raised, the last resort is rounding to nearest. */
static void damping_rises_equally_on_all_ranks(void **state)
{
    (void)state;
    struct layer l = layer_make(130, 96, 300);
    const struct quant_method *m = quant_find("gptq");
    for (int64_t t = 0; t < 300; t++)
        for (int64_t j = 0; j < 30; j++)
            l.x[t * 96 + j] = l.x[t * 96 + 40 + j] + l.x[t * 96 + 95 - j];
    gram_again(&l);
    struct quant_input in = l.input, whole = l.input;
    in.team = whole.team = &team;
    whole.owner = team.size - 1;
    if (team.rank != whole.owner) whole.statistic[STATISTIC_GRAM] = NULL;
    in.dist = spread(&l);
    struct quant_options o = options_make(32);
    o.damping = 0;
    struct outcome a = alone(&l, m, 4, &o), b = run(&l, m, 4, &o, &in),
                   c = run(&l, m, 4, &o, &whole);
    assert_true(a.st == OK && b.st == OK && c.st == OK);
    assert_true(a.report.damping == 1e-4);
    assert_true(b.report.damping == 1e-4);
    assert_memory_equal(&a.report, &c.report, sizeof a.report);
    near(a.report.error, b.report.error, 1e-4);
    outcome_free(&a), outcome_free(&b), outcome_free(&c);

    /* A negative diagonal as large as the matrix: no damping helps. */
    for (int64_t i = 0; i < 96 * 96; i++) l.gram[i] = i % 97 == 0 ? 1 : 40;
    a = run(&l, m, 4, &o, &whole);
    assert_int_equal(a.st, ERR_NUMERIC);
    assert_non_null(strstr(a.err.text, "not even with a damping"));
    o.last_resort = RESORT_ROUND;
    b = run(&l, m, 4, &o, &whole);
    assert_int_equal(b.st, OK);
    assert_true(isnan(b.report.damping));
    outcome_free(&a), outcome_free(&b);
    dist_free(in.dist);
    layer_free(&l);
}

/* A bad weight on one rank fails all ranks. */
static void a_bad_weight_fails_all_ranks(void **state)
{
    (void)state;
    struct layer l = layer_make(300, 64, 100);
    const struct quant_method *m;
    l.w[299 * 64 + 3] = NAN;
    for (int k = 0; (m = quant_at(k)) != NULL; k++) {
        struct quant_options o = options_make(32);
        struct quant_input in = l.input;
        in.team = &team;
        struct outcome a = run(&l, m, m->bits_min, &o, &in);
        assert_int_equal(a.st, ERR_NUMERIC);
        assert_non_null(strstr(a.err.text, "row 299, column 3"));
        outcome_free(&a);
    }
    layer_free(&l);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    team.comm = MPI_COMM_WORLD;
    MPI_Comm_rank(team.comm, &team.rank);
    MPI_Comm_size(team.comm, &team.size);
    linalg_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_with_the_hessian_gives_the_same_codes),
        cmocka_unit_test(a_distributed_hessian_gives_nearly_the_same),
        cmocka_unit_test(wide_sweeps_agree_with_narrow_ones),
        cmocka_unit_test(damping_rises_equally_on_all_ranks),
        cmocka_unit_test(a_bad_weight_fails_all_ranks),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
