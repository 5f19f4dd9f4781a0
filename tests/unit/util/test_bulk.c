/* Sums over ranks have the bits of the plain loop over the ranks, on any root. NP: 1 2 3 4 */
#include "util/bulk.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int rank, ranks;

static void *room_of(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    assert_non_null(p);
    return p;
}

/* Element i of rank r: of very different magnitudes, so that any other order rounds differently. */
static double number(int r, int64_t i)
{
    static const double sizes[] = {1, 1e7, 1e-3, 3e5};
    uint64_t h = (uint64_t)(i * 31 + r) * 0x9e3779b97f4a7c15u;
    return sizes[(i + r) % 4] * ((double)(h >> 11) * 0x1p-53 - 0.4);
}

static void sums_of_doubles(int64_t n, int root)
{
    double *x = room_of(n, sizeof *x), *room = room_of(bulk_sum_buffer(ranks), sizeof *room);
    for (int64_t i = 0; i < n; i++) x[i] = number(rank, i);
    assert_int_equal(bulk_sum(MPI_COMM_WORLD, root, x, n, MPI_DOUBLE, room, NULL), OK);
    for (int64_t i = 0; i < n; i++) {
        double sum = number(rank == root ? 0 : rank, i);
        for (int r = 1; rank == root && r < ranks; r++) sum += number(r, i);
        assert_memory_equal(&x[i], &sum, sizeof sum);
    }
    free(x);
    free(room);
}

static void sums_of_floats(int64_t n, int root)
{
    float *x = room_of(n, sizeof *x), *room = room_of(bulk_sum_buffer(ranks), sizeof *room);
    for (int64_t i = 0; i < n; i++) x[i] = (float)number(rank, i);
    assert_int_equal(bulk_sum(MPI_COMM_WORLD, root, x, n, MPI_FLOAT, room, NULL), OK);
    for (int64_t i = 0; i < n; i++) {
        float sum = (float)number(rank == root ? 0 : rank, i);
        for (int r = 1; rank == root && r < ranks; r++) sum += (float)number(r, i);
        assert_memory_equal(&x[i], &sum, sizeof sum);
    }
    free(x);
    free(room);
}

static void sums_have_the_order_of_the_ranks(void **state)
{
    (void)state;
    static const int64_t lengths[] = {0, 1, 3, 1024, 1025, 5000, 524288, 1300001};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (int root = 0; root < ranks; root++) {
            sums_of_doubles(lengths[k], root);
            sums_of_floats(lengths[k], root);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_have_the_order_of_the_ranks)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
