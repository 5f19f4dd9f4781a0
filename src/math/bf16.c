#include "math/bf16.h"
#include "math/bf16_lane.h"
#include <string.h>

/* The next term of *rest, which becomes what is then missing. */
KERN_LANE uint16_t next_term(float *rest)
{
    uint32_t bits;
    float term;
    memcpy(&bits, rest, sizeof bits);
    bits = lane_bf16_bits(bits);
    memcpy(&term, &bits, sizeof term);
    const float missing = *rest - term;
    *rest = (bits & 0x7f800000u) == 0x7f800000u ? 0 : missing;
    return (uint16_t)(bits >> 16);
}

KERN_LANE void split_into(uint16_t *restrict terms, int64_t stride, int n_terms,
                          const float *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float rest = x[i];
        terms[i] = next_term(&rest);
        if (n_terms > 1) terms[stride + i] = next_term(&rest);
        if (n_terms > 2) terms[2 * stride + i] = next_term(&rest);
    }
}

KERNEL(void, bf16_split, (uint16_t * terms, int64_t stride, int n_terms, const float *x, int64_t n),
       (terms, stride, n_terms, x, n))
{
    if (n_terms == 1) split_into(terms, stride, 1, x, n);
    if (n_terms == 2) split_into(terms, stride, 2, x, n);
    if (n_terms == 3) split_into(terms, stride, 3, x, n);
}

/* The rests after one term and after two, any bit of which is set where a number has one. */
KERNEL_STATIC(void, rests, (const float *x, int64_t n, uint32_t *one, uint32_t *two),
              (x, n, one, two))
{
    uint32_t any_one = 0, any_two = 0;
#pragma omp simd reduction(| : any_one, any_two)
    for (int64_t i = 0; i < n; i++) {
        float rest = x[i];
        uint32_t bits;
        next_term(&rest);
        memcpy(&bits, &rest, sizeof bits);
        any_one |= bits & 0x7fffffffu;
        next_term(&rest);
        memcpy(&bits, &rest, sizeof bits);
        any_two |= bits & 0x7fffffffu;
    }
    *one = any_one;
    *two = any_two;
}

int bf16_terms(const float *x, int64_t n)
{
    uint32_t one, two;
    rests(x, n, &one, &two);
    return two ? 3 : one ? 2 : 1;
}
