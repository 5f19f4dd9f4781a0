/* noise: numbers for products, for tests. Include it after cmocka.h. */
#pragma once
#include "util/mem.h"
#include <stdint.h>

/* n numbers in [-1, 1), the same for the same seed; the caller frees. */
static float *noise(int64_t n, uint64_t seed)
{
    float *x;
    assert_int_equal(mem_alloc(&x, n, sizeof *x, "noise", NULL), OK);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(seed >> 40) / (1 << 23) - 1.0);
    }
    return x;
}
