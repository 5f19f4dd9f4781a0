#include "coding/floats.h"
#include "math/dtype.h"
#include "math/kernel.h"
#include "util/num.h"
#include <math.h>
#include <string.h>

static const struct float_format formats[] = {
    [CODES_FP8_E5M2] = {"fp8_e5m2", FLOAT_LARGEST, 8, 0, 2, -14, 57344},
    [CODES_FP8_E4M3] = {"fp8_e4m3", FLOAT_LARGEST, 8, 0, 3, -6, 448},
    [CODES_FP6_E3M2] = {"fp6_e3m2", FLOAT_LARGEST, 6, 0, 2, -2, 28},
    [CODES_FP6_E2M3] = {"fp6_e2m3", FLOAT_LARGEST, 6, 0, 3, 0, 7.5f},
    [CODES_FP4_E2M1] = {"fp4_e2m1", FLOAT_LARGEST, 4, 0, 1, 0, 6},
    [CODES_MXFP8_E5M2] = {"mxfp8_e5m2", FLOAT_POWER, 8, 32, 2, -14, 57344},
    [CODES_MXFP8_E4M3] = {"mxfp8_e4m3", FLOAT_POWER, 8, 32, 3, -6, 448},
    [CODES_MXFP6_E3M2] = {"mxfp6_e3m2", FLOAT_POWER, 6, 32, 2, -2, 28},
    [CODES_MXFP6_E2M3] = {"mxfp6_e2m3", FLOAT_POWER, 6, 32, 3, 0, 7.5f},
    [CODES_MXFP4] = {"mxfp4", FLOAT_POWER, 4, 32, 1, 0, 6},
    [CODES_NVFP4] = {"nvfp4", FLOAT_TWO_LEVELS, 4, 16, 1, 0, 6},
    [CODES_NVFP4_46] = {"nvfp4_46", FLOAT_TWO_LEVELS, 4, 16, 1, 0, 6},
    [CODES_TERNARY] = {"ternary", FLOAT_MEAN, 2, 0, 0, 0, 1},
    [CODES_SIGN] = {"sign", FLOAT_MEAN, 1, 0, -1, 0, 1},
};

/* Block scales of nvfp4 are E4M3; with four over six the largest one leaves room for 1.5 times. */
static const float E4M3_MAX = 448, E4M3_MAX_46 = 256, E4M3_MIN = 0x1p-6f;

KERN_LANE float nearest(float x, int mantissa, float least, float most)
{
    float size = fabsf(x) < most ? fabsf(x) : most, power;
    uint32_t word;
    memcpy(&word, &size, sizeof word);
    word &= 0x7F800000u;
    memcpy(&power, &word, sizeof power);
    power = (power > least ? power : least) / (float)(1 << mantissa);
    return copysignf(nearbyintf(size / power) * power, x);
}

KERNEL_STATIC(void, round_codes,
              (float *q, const float *x, const float *by, const float *scale,
               const struct float_format *f),
              (q, x, by, scale, f))
{
    const float least = ldexpf(1, f->least), most = f->most;
    const int mantissa = f->mantissa;
    for (int r = 0; r < TILE_ROWS && mantissa >= 0; r++)
        q[r] = scale[r] * nearest(x[r] / by[r], mantissa, least, most);
    for (int r = 0; r < TILE_ROWS && mantissa < 0; r++) q[r] = copysignf(scale[r], x[r]);
}

void floats_round(float *q, const float *x, const struct grid *g, const float *scale)
{
    round_codes(q, x, g->scale, scale, &formats[g->codes]);
}

const struct float_format *float_format_of(int codes)
{
    return &formats[codes];
}

float float_nearest(float x, int mantissa, float least, float most)
{
    return nearest(x, mantissa, least, most);
}

/* --- scales --- */

/* size[r] = the largest or the mean magnitude of n columns. */
static void sizes_of(float *size, const float *t, int64_t n, bool mean)
{
    double sum[TILE_ROWS] = {0};
    for (int64_t j = 0; j < n; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            const double x = fabs((double)t[j * TILE_ROWS + r]);
            sum[r] = mean ? sum[r] + x : fmax(sum[r], x);
        }
    for (int r = 0; r < TILE_ROWS; r++) size[r] = (float)(mean ? sum[r] / (double)n : sum[r]);
}

/* whole * E4M3(size / (most * whole)) */
static float two_levels(float size, float most, float whole)
{
    const float wanted = fminf(fmaxf(size / most / whole, E4M3_MIN), E4M3_MAX);
    return whole * nearest(wanted, 3, E4M3_MIN, E4M3_MAX);
}

static float scale_of(const struct float_format *f, float size, float whole)
{
    float scale = size;
    if (f->scale == FLOAT_LARGEST) scale = size / f->most;
    if (f->scale == FLOAT_POWER)
        scale = size > 0 ? ldexpf(1, (int)max64(ilogbf(size) - ilogbf(f->most), -127)) : 0;
    if (f->scale == FLOAT_TWO_LEVELS) scale = two_levels(size, f->most, whole);
    return scale > 0 ? scale : 1; /* a group of zeros, or an underflow */
}

/* The squared error of each row with the scales of g. */
static void errors_of(double *error, const struct grid *g, const float *t, int64_t n)
{
    float q[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++) error[r] = 0;
    for (int64_t j = 0; j < n; j++) {
        floats_round(q, t + j * TILE_ROWS, g, g->scale);
        for (int r = 0; r < TILE_ROWS; r++) {
            const double d = (double)q[r] - (double)t[j * TILE_ROWS + r];
            error[r] += d * d;
        }
    }
}

/* Groups whose largest weight is better as the code 4 than as 6. */
static void four_over_six(struct grid *g, const float *size, float whole, const float *t, int64_t n)
{
    struct grid four = {.codes = g->codes};
    double six_error[TILE_ROWS], four_error[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++) four.scale[r] = two_levels(size[r], 4, whole);
    errors_of(six_error, g, t, n);
    errors_of(four_error, &four, t, n);
    for (int r = 0; r < TILE_ROWS; r++)
        if (four_error[r] < six_error[r]) g->scale[r] = four.scale[r];
}

void floats_fit(struct grid *g, const float *t, int64_t n, const struct grid_kind *kind)
{
    const struct float_format *f = &formats[kind->codes];
    const bool whole = f->scale == FLOAT_TWO_LEVELS;
    float size[TILE_ROWS], of_matrix = 0;
    sizes_of(size, t, n, f->scale == FLOAT_MEAN);
    if (whole) {
        const float room = kind->codes == CODES_NVFP4_46 ? E4M3_MAX_46 : E4M3_MAX;
        of_matrix = fmaxf((float)*kind->shared / (room * f->most), 0x1p-100f);
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        if (kind->shared && !whole) size[r] = (float)*kind->shared;
        g->scale[r] = scale_of(f, size[r], of_matrix);
        g->zero[r] = 0;
    }
    if (kind->codes == CODES_NVFP4_46) four_over_six(g, size, of_matrix, t, n);
    const bool f16 =
        kind->dtype != SCALE_F32 && (f->scale == FLOAT_LARGEST || f->scale == FLOAT_MEAN);
    for (int r = 0; r < TILE_ROWS; r++)
        g->stored[r] = f16 ? dtype_round_f16(g->scale[r]) : g->scale[r];
}
