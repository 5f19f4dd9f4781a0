/* Ranks leave a step together with the same status. NP: 1 2 3 */
#include "util/agree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int rank, ranks;

static void all_are_well(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_agree(MPI_COMM_WORLD, OK, &e), OK);
    assert_int_equal(e.code, OK);
}

static void one_has_failed(void **state)
{
    (void)state;
    for (int bad = 0; bad < ranks; bad++) {
        struct err e = {0};
        enum status st = OK;
        if (rank == bad) st = err_set(&e, ERR_FULL, __FILE__, __LINE__, "disk %d is full", bad);
        assert_int_equal(err_agree(MPI_COMM_WORLD, st, &e), ERR_FULL);
        assert_int_equal(e.code, ERR_FULL);
        char text[40];
        snprintf(text, sizeof text, "disk %d is full", bad);
        assert_non_null(strstr(e.text, text));
        assert_int_equal(strstr(e.text, "rank ") == e.text, rank != bad);
    }
}

/* Each rank fails differently: all return the status of the lowest rank. Nobody has to read the
 * text. */
static void all_have_failed(void **state)
{
    (void)state;
    static const enum status codes[] = {ERR_FULL, ERR_NUMERIC, ERR_IO};
    struct err e = {0};
    enum status st = err_set(&e, codes[rank % 3], __FILE__, __LINE__, "failure of %d", rank);
    assert_int_equal(err_agree(MPI_COMM_WORLD, st, &e), ERR_FULL);
    assert_int_equal(e.code, ERR_FULL);
    assert_non_null(strstr(e.text, "failure of 0"));
    assert_int_equal(err_agree(MPI_COMM_WORLD, rank == ranks - 1 ? ERR_NOMEM : OK, NULL),
                     ERR_NOMEM);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_well),
        cmocka_unit_test(one_has_failed),
        cmocka_unit_test(all_have_failed),
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
