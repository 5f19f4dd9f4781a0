/* Ranks that share a visit: the distribution of sequences, and shared memory on a node. NP: 1 2 3 4
 */
#include "group/group.h"
#include "linalg/linalg.h"
#include "util/mem.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct visit_group group;

static struct sequences sequences_of(const int64_t *lengths, int64_t n)
{
    struct sequences s;
    int64_t tokens = 0;
    for (int64_t i = 0; i < n; i++) tokens += lengths[i];
    assert_int_equal(sequences_init(&s, n, tokens, 0, NULL), OK);
    for (int64_t i = 0; i < n; i++) s.offset[i + 1] = s.offset[i] + lengths[i];
    for (int64_t i = 0; i < tokens; i++) s.ids[i] = (int32_t)i;
    return s;
}

/* Every sequence is assigned once, in order; no rank has more than its share plus one sequence. */
static void test_sequences(void **state)
{
    (void)state;
    const int64_t lengths[] = {5, 0, 17, 1, 1, 40, 3, 3, 9, 12, 2};
    for (int64_t n = 0; n <= 11; n++) {
        struct sequences all = sequences_of(lengths, n), kept = {0};
        const struct sequences *own;
        int64_t first;
        assert_int_equal(group_sequences(&group, &all, &kept, &own, &first, NULL), OK);
        int64_t tokens = own->offset[own->n];
        assert_true(tokens <= all.offset[n] / group.size + 41);
        for (int64_t i = 0; i < own->n; i++)
            assert_int_equal(own->offset[i + 1] - own->offset[i], lengths[first + i]);
        for (int64_t i = 0; i < tokens; i++) assert_int_equal(own->ids[i], all.offset[first] + i);
        double numbers[11];
        for (int64_t i = 0; i < n; i++) numbers[i] = -1;
        for (int64_t i = 0; i < own->n; i++) numbers[first + i] = (double)(first + i);
        assert_int_equal(group_gather(&group, &all, NULL, 1, numbers, NULL), OK);
        for (int64_t i = 0; i < n; i++) assert_true(numbers[i] == (double)i);
        sequences_free(&kept);
        sequences_free(&all);
    }
}

static void test_memory(void **state)
{
    (void)state;
    struct group_memory m;
    enum { ROWS = 300, COLS = 7 };
    assert_int_equal(group_memory_open(&group, ROWS * COLS, "test", &m, NULL), OK);
    for (int round = 0; round < 3; round++) {
        int64_t first, end;
        team_own_rows(&group.team, ROWS, &first, &end);
        for (int64_t i = first * COLS; i < end * COLS; i++) m.at[i] = (float)(i + round);
        assert_int_equal(group_rows(&group, &m, m.at, ROWS, COLS, NULL), OK);
        for (int64_t i = 0; i < ROWS * COLS; i++) assert_true(m.at[i] == (float)(i + round));
        group_memory_sync(&group, &m);
    }
    group_memory_close(&m);
}

/* --- failures --- */

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    linalg_setup();
    if (group_open(MPI_COMM_WORLD, &group, NULL) != OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    group_close(&group);
    MPI_Finalize();
    return failed;
}
