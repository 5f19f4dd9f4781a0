/* Random numbers and texts as Python makes them. */
#include "task/pyrandom.h"
#include "task/pytext.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* random.Random(seed).getrandbits(32), of CPython 3.11. */
static void random_bits_are_those_of_python(void **state)
{
    static const struct {
        uint64_t seed;
        uint32_t first[4];
    } cases[] = {
        {1234, {4150886329U, 3342196574U, 1892932127U, 501869158U}},
        {0U, {3626764237U, 1654615998U, 3255389356U, 3823568514U}},
        {1U, {577090037U, 2444712010U, 3639700191U, 3445702192U}},
        {4294967295U, {2728839433U, 2661025012U, 872737089U, 924893097U}},
        {4294967296ULL, {485306839U, 1508871100U, 1794561286U, 4014597330U}},
        {12345678901234567890ULL, {2199100970U, 3695432519U, 4002396509U, 2348474455U}},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct pyrandom r;
        pyrandom_seed(&r, cases[c].seed);
        for (int i = 0; i < 4; i++) assert_int_equal(pyrandom_bits(&r), cases[c].first[i]);
    }
}

/* random.Random(1234).sample(range(n), k), again and again from one generator; n on both sides of
 * where lists are shuffled. */
static void samples_are_those_of_python(void **state)
{
    enum { DRAWS = 3, K_MAX = 17 };
    static const struct {
        int64_t n, k, draws[DRAWS][K_MAX];
    } cases[] = {
        {6, 6, {{3, 0, 4, 5, 2, 1}, {0, 2, 1, 5, 4, 3}, {2, 4, 3, 5, 1, 0}}},
        {9, 5, {{7, 1, 0, 6, 4}, {0, 1, 8, 2, 7}, {0, 8, 6, 7, 2}}},
        {21, 5, {{14, 3, 0, 2, 1}, {2, 3, 11, 7, 0}, {0, 20, 11, 15, 14}}},
        {22, 5, {{14, 3, 0, 2, 18}, {1, 21, 2, 3, 11}, {7, 0, 11, 20, 19}}},
        {85, 6, {{56, 14, 0, 11, 74, 4}, {10, 12, 45, 30, 2, 3}, {2, 44, 82, 79, 61, 78}}},
        {86, 6, {{56, 14, 0, 11, 74, 4}, {85, 10, 12, 45, 30, 2}, {3, 2, 44, 82, 79, 61}}},
        {2251,
         5,
         {{1805, 478, 30, 371, 143}, {343, 403, 1452, 969, 71}, {126, 64, 1417, 1983, 1898}}},
        {39905,
         6,
         {{28883, 7657, 490, 5940, 38156, 2288},
          {5500, 6450, 23241, 15519, 1142, 2019},
          {1038, 22681, 31735, 30379, 9735, 5982}}},
        {85,
         16,
         {{56, 14, 0, 11, 74, 4, 10, 12, 45, 30, 2, 3, 80, 44, 61, 59},
          {19, 11, 23, 14, 1, 64, 62, 31, 8, 69, 59, 76, 83, 65, 5, 34},
          {71, 8, 82, 38, 61, 45, 34, 31, 25, 58, 67, 2, 65, 9, 0, 42}}},
        {86,
         17,
         {{56, 14, 0, 11, 74, 4, 85, 10, 12, 45, 30, 2, 3, 44, 82, 79, 61},
          {78, 59, 19, 11, 23, 14, 1, 64, 62, 31, 8, 85, 69, 76, 65, 74, 5},
          {34, 71, 8, 82, 38, 61, 45, 31, 83, 25, 58, 67, 85, 2, 65, 9, 0}}},
        {40, 1, {{28}, {7}, {0}}},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct pyrandom r;
        int64_t got[K_MAX];
        pyrandom_seed(&r, 1234);
        for (int d = 0; d < DRAWS; d++) {
            assert_int_equal(pyrandom_sample(&r, cases[c].n, cases[c].k, got, NULL), OK);
            for (int64_t i = 0; i < cases[c].k; i++) assert_int_equal(got[i], cases[c].draws[d][i]);
        }
    }
}

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

static void blanks_are_those_of_python(void **state)
{
    (void)state;
    static const char blanks[] = "\t \x1c\x1f\xc2\x85\u00a0\u2028\u3000\n";
    static const char none[] = "\u200b\u180e\ufeff"; /* are no white space */
    char all[128];
    snprintf(all, sizeof all, "%sa%sb%s", blanks, blanks, blanks);
    struct text t = pytext_rstrip(text_of(all));
    assert_int_equal(t.n, 2 * strlen(blanks) + 2);
    t = pytext_lstrip(text_of(all));
    assert_ptr_equal(t.at, all + strlen(blanks));
    t = pytext_strip(text_of(all));
    assert_int_equal(t.n, strlen(blanks) + 2);
    assert_int_equal(pytext_length(t), 11);
    assert_int_equal(pytext_strip(text_of(none)).n, strlen(none));
    assert_int_equal(pytext_strip(text_of(blanks)).n, 0);
}

static void capitals_are_those_of_python(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"the END", "The end"},
        {"\u00dfA", "Ssa"},
        {"\u01c6X", "\u01c5x"},
        {"\u0149a", "\u02bcNa"},
        {"\u0130\u0130", "\u0130i\u0307"},
        {"\ufb03", "Ffi"},
        {"x\u03a3", "X\u03c2"},
        {"x\u03a3a \u03a3 A\u03a3'.", "X\u03c3a \u03c3 a\u03c2'."},
        {"\u03a3\u03a3", "\u03a3\u03c2"},
        {" A", " a"},
        {"\u1fb3", "\u1fbc"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = {0};
        assert_int_equal(pytext_capitalize(text_of(cases[i][0]), &out, NULL), OK);
        assert_string_equal(out.data ? out.data : "", cases[i][1]);
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_bits_are_those_of_python),
                                       cmocka_unit_test(samples_are_those_of_python),
                                       cmocka_unit_test(blanks_are_those_of_python),
                                       cmocka_unit_test(capitals_are_those_of_python)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
