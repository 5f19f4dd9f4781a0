#include "coding/viterbi.h"
#include "math/isa.h"
#include "util/mem.h"
#include <math.h>

enum { BEYOND = 4 /* vectors read beyond the groups */ };

/* Where a step came from: the high bits j of the state before each group. Up to two of them are
 * bits of bytes for eight groups, else j is a byte. */
static int64_t row_of(const struct bitshift *c)
{
    return c->branch <= 2 ? c->groups / 8 * c->branch : c->groups;
}

static int64_t from_of(const struct bitshift *c, const uint8_t *back, int64_t g)
{
    if (c->branch > 2) return back[g];
    const uint8_t *bits = back + g / 8 * c->branch;
    return (bits[0] >> g % 8 & 1) + 2 * (c->branch == 2 ? bits[1] >> g % 8 & 1 : 0);
}

int64_t viterbi_bytes(const struct bitshift *c, int64_t steps)
{
    return 2 * (c->groups + BEYOND) * (int64_t)sizeof(float) + row_of(c) * steps +
           steps * c->values * (int64_t)sizeof(float);
}

enum status viterbi_make(const struct bitshift *c, int64_t steps, struct viterbi *out,
                         struct err *e)
{
    const char *what = "paths of a trellis";
    *out = (struct viterbi){0};
    out->pitch = c->groups + BEYOND;
    PASS(mem_zero(&out->best, 2 * out->pitch, sizeof *out->best, what, e));
    PASS(mem_alloc(&out->rolled, steps * c->values, sizeof *out->rolled, what, e));
    return mem_alloc(&out->back, steps * row_of(c), sizeof *out->back, what, e);
}

void viterbi_free(struct viterbi *v)
{
    free(v->best);
    free(v->back);
    free(v->rolled);
}

/* A step: next[g] = the least cost of the states g + j groups, j < 2^branch, after x; back has j,
 * the first of equal ones. The cost of a state s is before[s >> branch] plus the squared distance
 * of its values, which lie in planes of all states. */
struct step {
    const float *before, *value;
    int64_t groups, branch, values;
    float x[2];
};

static void step_plain(float *next, uint8_t *back, const struct step *s)
{
    const int64_t states = s->groups << s->branch;
    for (int64_t g = 0; g < s->groups; g++) {
        float least = INFINITY;
        int64_t from = 0;
        for (int64_t j = 0, at = g; j < (int64_t)1 << s->branch; j++, at += s->groups) {
            float d = s->value[at] - s->x[0], cost = d * d;
            if (s->values == 2) {
                d = s->value[states + at] - s->x[1];
                cost += d * d;
            }
            cost += s->before[at >> s->branch];
            from = cost < least ? j : from;
            least = cost < least ? cost : least;
        }
        next[g] = least;
        if (s->branch > 2) back[g] = (uint8_t)from;
        for (int64_t k = 0; s->branch <= 2 && k < s->branch; k++) {
            uint8_t *bits = back + g / 8 * s->branch + k;
            *bits = (uint8_t)((g % 8 ? *bits : 0) | (from >> k & 1) << g % 8);
        }
    }
}

#ifdef KERNEL_SETS
#include <immintrin.h>

#define AVX2 __attribute__((target("arch=x86-64-v3"), always_inline)) static inline

/* Costs of the states g + j groups of eight groups from g on, whose states have the costs of 8 >>
 * branch groups before, or of one. */
AVX2 __m256 costs_of(const struct step *s, int64_t g, int64_t j, __m256i spread, const int branch,
                     const int values)
{
    const int64_t groups = s->groups, states = groups << branch;
    const float *before = s->before + (g >> branch) + j * (groups >> branch);
    const float *value = s->value + g + j * groups;
    __m256 d = _mm256_sub_ps(_mm256_loadu_ps(value), _mm256_set1_ps(s->x[0]));
    __m256 cost = _mm256_mul_ps(d, d);
    if (values == 2) {
        d = _mm256_sub_ps(_mm256_loadu_ps(value + states), _mm256_set1_ps(s->x[1]));
        cost = _mm256_add_ps(cost, _mm256_mul_ps(d, d));
    }
    if (branch >= 3) return _mm256_add_ps(cost, _mm256_broadcast_ss(before));
    const __m256 four = _mm256_broadcast_ps((const __m128 *)before);
    return _mm256_add_ps(cost, _mm256_permutevar_ps(four, spread));
}

#define LESS(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)

/* One or two bits: each is a comparison's mask. */
AVX2 void few_ways(float *next, uint8_t *back, const struct step *s, int64_t g, __m256i spread,
                   const int branch, const int values)
{
    const __m256 a = costs_of(s, g, 0, spread, branch, values);
    const __m256 b = costs_of(s, g, 1, spread, branch, values);
    __m256 low = LESS(b, a), least = _mm256_min_ps(b, a);
    uint8_t *bits = back + g / 8 * branch;
    if (branch == 2) {
        const __m256 c = costs_of(s, g, 2, spread, branch, values);
        const __m256 d = costs_of(s, g, 3, spread, branch, values);
        const __m256 other = _mm256_min_ps(d, c), high = LESS(other, least);
        low = _mm256_blendv_ps(low, LESS(d, c), high);
        least = _mm256_min_ps(other, least);
        bits[1] = (uint8_t)_mm256_movemask_ps(high);
    }
    bits[0] = (uint8_t)_mm256_movemask_ps(low);
    _mm256_storeu_ps(next + g, least);
}

AVX2 void many_ways(float *next, uint8_t *back, const struct step *s, int64_t g, __m256i spread,
                    const int branch, const int values)
{
    __m256 least = costs_of(s, g, 0, spread, branch, values);
    __m256i from = _mm256_setzero_si256();
#ifndef __SANITIZE_ADDRESS__ /* whose passes leave nothing to unroll, and say so */
#pragma GCC unroll 16
#endif
    for (int j = 1; j < 1 << branch; j++) {
        const __m256 cost = costs_of(s, g, j, spread, branch, values);
        const __m256i less = _mm256_castps_si256(LESS(cost, least));
        least = _mm256_min_ps(cost, least);
        from = _mm256_blendv_epi8(from, _mm256_set1_epi32(j), less);
    }
    _mm256_storeu_ps(next + g, least);
    const __m128i half =
        _mm_packs_epi32(_mm256_castsi256_si128(from), _mm256_extracti128_si256(from, 1));
    _mm_storeu_si64(back + g, _mm_packus_epi16(half, half));
}

AVX2 void all_groups(float *next, uint8_t *back, const struct step *s, const int branch,
                     const int values)
{
    const __m256i each = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i spread = _mm256_srli_epi32(each, branch);
    for (int64_t g = 0; g < s->groups; g += 8)
        (branch <= 2 ? few_ways : many_ways)(next, back, s, g, spread, branch, values);
}

__attribute__((target("arch=x86-64-v3"))) static void step_avx2(float *next, uint8_t *back,
                                                                const struct step *s)
{
    const struct step copy = *s; /* which stores cannot change */
    if (s->values == 1 && s->branch == 1) all_groups(next, back, &copy, 1, 1);
    if (s->values == 1 && s->branch == 2) all_groups(next, back, &copy, 2, 1);
    if (s->values == 1 && s->branch == 3) all_groups(next, back, &copy, 3, 1);
    if (s->values == 1 && s->branch == 4) all_groups(next, back, &copy, 4, 1);
    if (s->values == 2 && s->branch == 2) all_groups(next, back, &copy, 2, 2);
    if (s->values == 2 && s->branch == 4) all_groups(next, back, &copy, 4, 2);
    if (s->values == 2 && s->branch == 6) all_groups(next, back, &copy, 6, 2);
    if (s->values == 2 && s->branch == 8) all_groups(next, back, &copy, 8, 2);
}
#endif

static void step_run(const struct bitshift *c, struct viterbi *v, const float *x, int64_t i)
{
    const struct step s = {.before = v->best + i % 2 * v->pitch,
                           .value = c->planes,
                           .groups = c->groups,
                           .branch = c->branch,
                           .values = c->values,
                           .x = {x[i * c->values], x[i * c->values + c->values - 1]}};
    float *next = v->best + (i + 1) % 2 * v->pitch;
#ifdef KERNEL_SETS
    if (isa_active() != ISA_PLAIN) {
        step_avx2(next, v->back + i * row_of(c), &s);
        return;
    }
#endif
    step_plain(next, v->back + i * row_of(c), &s);
}

void viterbi_search(const struct bitshift *c, struct viterbi *v, const float *x, int64_t steps,
                    int64_t overlap, int32_t *state)
{
    for (int64_t g = 0; g < c->groups; g++) v->best[g] = overlap < 0 || g == overlap ? 0 : INFINITY;
    for (int64_t i = 0; i < steps; i++) step_run(c, v, x, i);
    const float *last = v->best + steps % 2 * v->pitch;
    int64_t group = overlap < 0 ? 0 : overlap, best = INT64_MAX;
    for (int64_t g = group; g < (overlap < 0 ? c->groups : group + 1); g++) {
        if (last[g] > last[group]) continue;
        const int64_t s = g + from_of(c, v->back + (steps - 1) * row_of(c), g) * c->groups;
        if (last[g] < last[group] || s < best) best = s;
        group = g;
    }
    for (int64_t i = steps - 1, s = best;; i--) {
        state[i] = (int32_t)s;
        if (i == 0) return;
        const int64_t g = s >> c->branch;
        s = g + from_of(c, v->back + (i - 1) * row_of(c), g) * c->groups;
    }
}

void viterbi_tail_biting(const struct bitshift *c, struct viterbi *v, const float *x, int64_t steps,
                         int32_t *state)
{
    const int64_t n = steps * c->values, half = steps / 2 * c->values;
    memcpy(v->rolled, x + n - half, (size_t)half * sizeof *x);
    memcpy(v->rolled + half, x, (size_t)(n - half) * sizeof *x);
    viterbi_search(c, v, v->rolled, steps, -1, state);
    viterbi_search(c, v, x, steps, state[steps / 2] >> c->branch, state);
}
