#include "coding/kquant_round.h"
#include "coding/kquant_lane.h"
#include "math/dtype.h"
#include <math.h>

enum { SMALL = KQUANT_SMALL, LARGE = KQUANT_LARGE, BLOCKS = KQUANT_BLOCKS };
static const float LEAST = 1e-15f; /* a scale or magnitude below it is 0 */

#define ROUND(name)                                                                                \
    KERNEL_STATIC(void, name,                                                                      \
                  (struct kquant_bench * b, const struct kquant_format *f, bool importance),       \
                  (b, f, importance))

KERN_LANE void add_squares(float *sum, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) EACH_ROW sum[r] += x[i * TILE_ROWS + r] * x[i * TILE_ROWS + r];
}

void kquant_add_squares(float *sum, const float *x, int64_t n)
{
    add_squares(sum, x, n);
}

/* w <- importance sqrt(square + x^2) for the n columns from a on. */
KERN_LANE void count_importance(struct kquant_bench *b, int64_t a, int64_t n, const float *square)
{
    for (int64_t i = 0; i < n; i++) EACH_ROW
        {
            const float x = b->x[(a + i) * TILE_ROWS + r];
            b->w[i * TILE_ROWS + r] = b->importance[a + i] * sqrtf(square[r] + x * x);
        }
}

/* b->count of a small block <- the sums of w. */
KERN_LANE void sum_counts(struct kquant_bench *b, int64_t block, int64_t n)
{
    float *sum = b->count + block * TILE_ROWS;
    EACH_ROW sum[r] = 0;
    for (int64_t i = 0; i < n; i++) EACH_ROW sum[r] += b->w[i * TILE_ROWS + r];
}

/* Mean square of the rows of a large block, times a factor. */
KERN_LANE void large_square(float *square, const struct kquant_bench *b, float factor)
{
    EACH_ROW square[r] = 0;
    add_squares(square, b->x, LARGE);
    EACH_ROW square[r] = factor * square[r] / LARGE;
}

/* The largest number of each row, at least 0. */
KERN_LANE void row_most(float *most, const float *x, int64_t n)
{
    EACH_ROW most[r] = 0;
    for (int64_t i = 0; i < n; i++, x += TILE_ROWS)
        EACH_ROW most[r] = x[r] > most[r] ? x[r] : most[r];
}

KERN_LANE void scale_f16(float *x)
{
    EACH_ROW x[r] = dtype_round_f16(x[r]);
}

/* --- 256 columns --- */

/* Rounds the scales of small blocks to codes 0 to levels times an f16, without importance by the
 * largest, and leaves what the codes mean. */
KERN_LANE void scales_round(float *x, const float *count, int64_t n, float levels, bool importance)
{
    float unit[TILE_ROWS], codes[BLOCKS * TILE_ROWS];
    if (importance) {
        kquant_fit_positive(unit, codes, x, count, n, levels);
    } else {
        float most[TILE_ROWS];
        row_most(most, x, n);
        for (int64_t i = 0; i < n; i++) EACH_ROW
            {
                const float inverse = most[r] > 0 ? levels / most[r] : 0;
                codes[i * TILE_ROWS + r] = kquant_code(inverse * x[i * TILE_ROWS + r], 0, levels);
            }
        EACH_ROW unit[r] = most[r] / levels;
    }
    scale_f16(unit);
    for (int64_t i = 0; i < n; i++)
        EACH_ROW x[i * TILE_ROWS + r] = unit[r] * codes[i * TILE_ROWS + r];
}

/* w <- |x|, and in blocks of 32 also the root of the block's mean square. */
KERN_LANE void count_sizes(struct kquant_bench *b, int64_t a, int64_t n)
{
    const float *x = b->x + a * TILE_ROWS;
    float own[TILE_ROWS] = {0};
    if (n == SMALL) add_squares(own, x, n);
    EACH_ROW own[r] = sqrtf(own[r] / SMALL);
    for (int64_t i = 0; i < n * TILE_ROWS; i += TILE_ROWS)
        EACH_ROW b->w[i + r] = own[r] + fabsf(x[i + r]);
}

ROUND(round_offset)
{
    const int64_t n = f->small, blocks = LARGE / n;
    const struct kquant_search *search = importance ? &f->weighted : &f->plain;
    float square[TILE_ROWS];
    large_square(square, b, n == SMALL ? 2 : 1);
    for (int64_t k = 0; k < blocks; k++) {
        struct kquant_scale s;
        if (importance)
            count_importance(b, k * n, n, square);
        else
            count_sizes(b, k * n, n);
        sum_counts(b, k, n);
        kquant_fit_offset(&s, b->x + k * n * TILE_ROWS, b->w, n, search);
        EACH_ROW b->scale[k * TILE_ROWS + r] = s.scale[r];
        EACH_ROW b->offset[k * TILE_ROWS + r] = -s.offset[r];
    }
    scales_round(b->scale, b->count, blocks, f->scale_levels, importance);
    scales_round(b->offset, b->count, blocks, f->scale_levels, importance);
    for (int64_t i = 0; i < LARGE; i++) {
        const float *scale = b->scale + i / n * TILE_ROWS, *offset = b->offset + i / n * TILE_ROWS;
        float *x = b->x + i * TILE_ROWS;
        EACH_ROW
        {
            const float code = kquant_code((x[r] + offset[r]) / scale[r], 0, f->levels);
            x[r] = scale[r] * code - offset[r];
        }
    }
}

/* The signed scales of small blocks as codes from -levels to levels - 1 times an f16: by the
 * largest magnitude, or by a fit. */
KERN_LANE void signed_scales_round(struct kquant_bench *b, float levels, bool fit)
{
    struct kquant_scale s;
    float most[TILE_ROWS];
    if (fit) {
        kquant_fit_signed(&s, b->scale, b->count, BLOCKS, levels);
    } else {
        kquant_peak(s.from, most, b->scale, BLOCKS);
        EACH_ROW s.inverse[r] = -levels / s.from[r];
        EACH_ROW s.scale[r] = most[r] < LEAST ? 0 : 1 / s.inverse[r];
    }
    scale_f16(s.scale);
    for (int64_t k = 0; k < BLOCKS * TILE_ROWS; k += TILE_ROWS) EACH_ROW
        {
            const float code = kquant_code(s.inverse[r] * b->scale[k + r], -levels, levels - 1);
            b->scale[k + r] = s.scale[r] * code;
        }
}

/* w <- x^2, or the importance alone. */
KERN_LANE void count_squares(struct kquant_bench *b, int64_t a, int64_t n, bool importance)
{
    for (int64_t i = 0; i < n; i++) EACH_ROW
        {
            const float x = b->x[(a + i) * TILE_ROWS + r];
            b->w[i * TILE_ROWS + r] = importance ? b->importance[a + i] : x * x;
        }
}

/* Q6_K counts weights by their importance alone, and rounds its scales by the largest. */
ROUND(round_signed)
{
    enum { N = LARGE / BLOCKS };
    const bool six = f->levels == 32;
    float square[TILE_ROWS];
    large_square(square, b, 2);
    for (int64_t k = 0; k < BLOCKS; k++) {
        const float *x = b->x + k * N * TILE_ROWS;
        struct kquant_scale s;
        if (importance && !six)
            count_importance(b, k * N, N, square);
        else
            count_squares(b, k * N, N, importance);
        sum_counts(b, k, N);
        if (importance || six)
            kquant_fit_signed(&s, x, b->w, N, f->levels);
        else
            kquant_fit_moves(&s, x, b->w, N, f->levels);
        EACH_ROW b->scale[k * TILE_ROWS + r] = s.scale[r];
    }
    signed_scales_round(b, f->scale_levels, importance && !six);
    for (int64_t i = 0; i < LARGE; i++) {
        const float *scale = b->scale + i / N * TILE_ROWS;
        float *x = b->x + i * TILE_ROWS;
        EACH_ROW x[r] = scale[r] * kquant_code(x[r] / scale[r], -f->levels, f->levels - 1);
    }
}

/* --- 32 columns --- */

/* Without importance codes are cut off after 0.5 was added: weights in bf16 often are such ties. */
ROUND(round_small_signed)
{
    const float levels = f->levels;
    struct kquant_scale s;
    float most[TILE_ROWS];
    if (importance) {
        count_importance(b, 0, SMALL, b->square);
        kquant_fit_signed(&s, b->x, b->w, SMALL, levels);
    } else {
        kquant_peak(s.from, most, b->x, SMALL);
        EACH_ROW s.scale[r] = s.from[r] / -levels;
        EACH_ROW s.inverse[r] = s.scale[r] != 0 ? 1 / s.scale[r] : 0;
    }
    scale_f16(s.scale);
    for (int64_t i = 0; i < SMALL * TILE_ROWS; i += TILE_ROWS) EACH_ROW
        {
            const float x = b->x[i + r],
                        fitted = kquant_code(s.inverse[r] * x, -levels, levels - 1);
            const float up = x * s.inverse[r] + (levels + 0.5f);
            const float cut = (float)(int)up - levels, code = importance ? fitted : cut;
            b->x[i + r] = s.scale[r] * (code < levels ? code : levels - 1);
        }
}

ROUND(round_small_offset)
{
    const float levels = f->levels;
    struct kquant_scale s;
    if (importance) {
        count_importance(b, 0, SMALL, b->square);
        kquant_fit_offset(&s, b->x, b->w, SMALL, &f->weighted);
    } else {
        float high[TILE_ROWS];
        EACH_ROW s.from[r] = high[r] = b->x[r];
        for (int64_t i = 0; i < SMALL * TILE_ROWS; i += TILE_ROWS) EACH_ROW
            {
                s.from[r] = b->x[i + r] < s.from[r] ? b->x[i + r] : s.from[r];
                high[r] = b->x[i + r] > high[r] ? b->x[i + r] : high[r];
            }
        EACH_ROW s.scale[r] = (high[r] - s.from[r]) / levels;
        EACH_ROW s.inverse[r] = s.scale[r] != 0 ? 1 / s.scale[r] : 0;
        EACH_ROW s.offset[r] = s.from[r];
    }
    scale_f16(s.scale);
    scale_f16(s.offset);
    for (int64_t i = 0; i < SMALL * TILE_ROWS; i += TILE_ROWS) EACH_ROW
        {
            const float at = s.inverse[r] * (b->x[i + r] - s.from[r]);
            const float cut = (float)(int)(at + 0.5f);
            const float code = importance     ? kquant_code(at, 0, levels)
                               : cut < levels ? cut
                                              : levels;
            b->x[i + r] = s.scale[r] * code + s.offset[r];
        }
}

/* Halves away from zero. */
ROUND(round_q8_0)
{
    float peak[TILE_ROWS], scale[TILE_ROWS], inverse[TILE_ROWS];
    (void)importance;
    kquant_peak(peak, scale, b->x, SMALL);
    EACH_ROW scale[r] /= f->levels;
    EACH_ROW inverse[r] = scale[r] != 0 ? 1 / scale[r] : 0;
    scale_f16(scale);
    for (int64_t i = 0; i < SMALL * TILE_ROWS; i += TILE_ROWS)
        EACH_ROW b->x[i + r] = scale[r] * roundf(b->x[i + r] * inverse[r]);
}

ROUND(round_iq4_nl)
{
    float square[TILE_ROWS] = {0}, scale[TILE_ROWS], inverse[TILE_ROWS];
    (void)f;
    add_squares(square, b->x, SMALL);
    EACH_ROW square[r] *= 2.0f / SMALL;
    if (importance)
        count_importance(b, 0, SMALL, square);
    else
        count_squares(b, 0, SMALL, false);
    kquant_fit_iq4(scale, b->x, b->w, SMALL);
    EACH_ROW inverse[r] = scale[r] != 0 ? 1 / scale[r] : 0;
    scale_f16(scale);
    for (int64_t i = 0; i < SMALL * TILE_ROWS; i += TILE_ROWS)
        EACH_ROW b->x[i + r] = scale[r] * kquant_iq4(inverse[r] * b->x[i + r]);
}

static void round_f16(struct kquant_bench *b, const struct kquant_format *f, bool importance)
{
    (void)importance;
    for (int64_t i = 0; i < f->columns * TILE_ROWS; i++) b->x[i] = dtype_round_f16(b->x[i]);
}

/* --- formats: bytes of a block are those of ggml-common.h --- */

#define BITS(bytes, columns) (8.0 * (bytes) / (columns))
#define SEARCH(levels, first, step, steps)                                                         \
    {                                                                                              \
        levels, first, step, steps, false                                                          \
    }
#define SEARCH_WEIGHTED(levels) SEARCH(levels, -0.9f, 0.05f, 36)

static const struct kquant_format f16 = {.columns = 1, .bits = 16, .round = round_f16};
#define FORMAT_SMALL(id, bytes, function, top)                                                     \
    const struct kquant_format kquant_##id = {                                                     \
        .columns = SMALL,                                                                          \
        .bits = BITS(bytes, SMALL),                                                                \
        .round = function,                                                                         \
        .levels = top,                                                                             \
        .weighted = SEARCH_WEIGHTED(top),                                                          \
        .instead = &f16,                                                                           \
    };
FORMAT_SMALL(q4_0, 18, round_small_signed, 8)
FORMAT_SMALL(q5_0, 22, round_small_signed, 16)
FORMAT_SMALL(q5_1, 24, round_small_offset, 31)
FORMAT_SMALL(q8_0, 34, round_q8_0, 127)
FORMAT_SMALL(iq4_nl, 18, round_iq4_nl, 0)

const struct kquant_format kquant_q2_k = {
    .columns = LARGE,
    .small = 16,
    .bits = BITS(84, LARGE),
    .round = round_offset,
    .levels = 3,
    .scale_levels = 15,
    .plain = {3, -0.5f, 0.1f, 15, true},
    .weighted = SEARCH_WEIGHTED(3),
    .instead = &kquant_iq4_nl,
};
const struct kquant_format kquant_q3_k = {
    .columns = LARGE,
    .small = 16,
    .bits = BITS(110, LARGE),
    .round = round_signed,
    .levels = 4,
    .scale_levels = 32,
    .instead = &kquant_iq4_nl,
};
const struct kquant_format kquant_q4_k = {
    .columns = LARGE,
    .small = SMALL,
    .bits = BITS(144, LARGE),
    .round = round_offset,
    .levels = 15,
    .scale_levels = 63,
    .plain = SEARCH(15, -1, 0.1f, 20),
    .weighted = SEARCH_WEIGHTED(15),
    .instead = &kquant_q5_0,
};
const struct kquant_format kquant_q5_k = {
    .columns = LARGE,
    .small = SMALL,
    .bits = BITS(176, LARGE),
    .round = round_offset,
    .levels = 31,
    .scale_levels = 63,
    .plain = SEARCH(31, -0.5f, 0.1f, 15),
    .weighted = SEARCH_WEIGHTED(31),
    .instead = &kquant_q5_1,
};
const struct kquant_format kquant_q6_k = {
    .columns = LARGE,
    .small = 16,
    .bits = BITS(210, LARGE),
    .round = round_signed,
    .levels = 32,
    .scale_levels = 128,
    .instead = &kquant_q8_0,
};
