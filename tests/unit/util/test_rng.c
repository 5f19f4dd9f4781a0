#include "util/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void check_signs(uint64_t stream, const char *want)
{
    float v[64];
    int64_t n = (int64_t)strlen(want);
    rng_signs(stream, 0, n, v);
    for (int64_t i = 0; i < n; i++) assert_true(v[i] == (want[i] == '+' ? 1.0f : -1.0f));
}

/* The first signs that the fixtures' program printed. */
static void test_signs_are_the_probes(void **state)
{
    (void)state;
    check_signs(0, "-+--+---+-+-+++++-+-++++-++--+++");
    check_signs(1, "+--+-++-+-+--+-+---+-++-++-+--+-");
}

static void streams_of_seeds_are_apart(void **state)
{
    (void)state;
    for (uint64_t p = 0; p < 5; p++) assert_true(rng_stream(0, p) == p);
    assert_true(rng_stream(7, 3) == rng_stream(7, 0) + 3);
    for (uint64_t seed = 1; seed < 200; seed++) assert_true(rng_stream(seed, 0) > 1u << 20);
    assert_true(rng_stream(1, 0) != rng_stream(2, 0));
}

/* Any part of a stream can be generated alone, whatever parity it begins and ends with. */
static void any_piece_can_be_generated_alone(void **state)
{
    (void)state;
    enum { N = 37 };
    float whole[N], piece[N];
    for (int kind = 0; kind < 2; kind++) {
        void (*fill)(uint64_t, int64_t, int64_t, float *) = kind ? rng_normals : rng_signs;
        fill(5, 1000, N, whole);
        for (int64_t i = 0; i < N; i++)
            for (int64_t n = 0; i + n <= N; n++) {
                fill(5, 1000 + i, n, piece);
                assert_memory_equal(piece, whole + i, (size_t)n * sizeof *piece);
            }
    }
}

/* Moments of 2^18 normals within five standard errors; no correlation with the neighbour or with
 * the next stream; the tail exists. */
static void normals_have_their_moments(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    static float x[N], y[N];
    double m[5] = {0}, neighbour = 0, other = 0, largest = 0;
    rng_normals(1, 0, N, x);
    rng_normals(2, 0, N, y);
    for (int i = 0; i < N; i++) {
        for (int k = 1; k <= 4; k++) m[k] += pow(x[i], k) / N;
        neighbour += i ? (double)x[i] * x[i - 1] / N : 0;
        other += (double)x[i] * y[i] / N;
        largest = fmax(largest, fabs(x[i]));
    }
    const double unit = 5 / sqrt(N);
    assert_true(fabs(m[1]) < unit);
    assert_true(fabs(m[2] - 1) < unit * sqrt(2));
    assert_true(fabs(m[3]) < unit * sqrt(15));
    assert_true(fabs(m[4] - 3) < unit * sqrt(96));
    assert_true(fabs(neighbour) < unit && fabs(other) < unit);
    assert_true(largest > 3.9 && largest < 7);
}

static void test_signs_are_balanced(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    static float x[N], y[N];
    for (uint64_t s = 0; s < 4; s++) {
        double sum = 0, neighbour = 0, other = 0;
        rng_signs(s, 0, N, x);
        rng_signs(s + 1, 0, N, y);
        for (int i = 0; i < N; i++) {
            sum += x[i];
            neighbour += i ? x[i] * x[i - 1] : 0;
            other += x[i] * y[i];
        }
        assert_true(fabs(sum) < 5 * sqrt(N) && fabs(neighbour) < 5 * sqrt(N) &&
                    fabs(other) < 5 * sqrt(N));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signs_are_the_probes),
        cmocka_unit_test(streams_of_seeds_are_apart),
        cmocka_unit_test(any_piece_can_be_generated_alone),
        cmocka_unit_test(normals_have_their_moments),
        cmocka_unit_test(test_signs_are_balanced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
