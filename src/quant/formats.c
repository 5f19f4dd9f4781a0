#include "quant/formats.h"
#include "math/dtype.h"
#include "math/kernel.h"
#include "quant/blocks.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum scale_kind { SCALE_LARGEST, SCALE_POWER, SCALE_TWO_LEVELS, SCALE_MEAN };

/* A float has `mantissa` bits below its first, the step 2^(least - mantissa) below 2^least, and
 * magnitudes up to `most`. Numbers of one bit (mantissa -1) are ±1. */
struct format {
    const char *name;
    int scale;           /* enum scale_kind */
    int64_t bits, group; /* group: the only size; 0: any */
    int mantissa, least;
    float most;
};

static const struct format formats[] = {
    [CODES_FP8_E5M2] = {"fp8_e5m2", SCALE_LARGEST, 8, 0, 2, -14, 57344},
    [CODES_FP8_E4M3] = {"fp8_e4m3", SCALE_LARGEST, 8, 0, 3, -6, 448},
    [CODES_FP6_E3M2] = {"fp6_e3m2", SCALE_LARGEST, 6, 0, 2, -2, 28},
    [CODES_FP6_E2M3] = {"fp6_e2m3", SCALE_LARGEST, 6, 0, 3, 0, 7.5f},
    [CODES_FP4_E2M1] = {"fp4_e2m1", SCALE_LARGEST, 4, 0, 1, 0, 6},
    [CODES_MXFP8_E5M2] = {"mxfp8_e5m2", SCALE_POWER, 8, 32, 2, -14, 57344},
    [CODES_MXFP8_E4M3] = {"mxfp8_e4m3", SCALE_POWER, 8, 32, 3, -6, 448},
    [CODES_MXFP6_E3M2] = {"mxfp6_e3m2", SCALE_POWER, 6, 32, 2, -2, 28},
    [CODES_MXFP6_E2M3] = {"mxfp6_e2m3", SCALE_POWER, 6, 32, 3, 0, 7.5f},
    [CODES_MXFP4] = {"mxfp4", SCALE_POWER, 4, 32, 1, 0, 6},
    [CODES_NVFP4] = {"nvfp4", SCALE_TWO_LEVELS, 4, 16, 1, 0, 6},
    [CODES_NVFP4_46] = {"nvfp4_46", SCALE_TWO_LEVELS, 4, 16, 1, 0, 6},
    [CODES_TERNARY] = {"ternary", SCALE_MEAN, 2, 0, 0, 0, 1},
    [CODES_SIGN] = {"sign", SCALE_MEAN, 1, 0, -1, 0, 1},
};

/* Block scales of nvfp4 are E4M3; with four over six the largest one leaves room for 1.5 times. */
static const float E4M3_MAX = 448, E4M3_MAX_46 = 256, E4M3_MIN = 0x1p-6f;

KERN_LANE float float_nearest(float x, int mantissa, float least, float most)
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
               const struct format *f),
              (q, x, by, scale, f))
{
    const float least = ldexpf(1, f->least), most = f->most;
    const int mantissa = f->mantissa;
    for (int r = 0; r < TILE_ROWS && mantissa >= 0; r++)
        q[r] = scale[r] * float_nearest(x[r] / by[r], mantissa, least, most);
    for (int r = 0; r < TILE_ROWS && mantissa < 0; r++) q[r] = copysignf(scale[r], x[r]);
}

void formats_round(float *q, const float *x, const struct grid *g, const float *scale)
{
    round_codes(q, x, g->scale, scale, &formats[g->codes]);
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
    return whole * float_nearest(wanted, 3, E4M3_MIN, E4M3_MAX);
}

static float scale_of(const struct format *f, float size, float whole)
{
    float scale = size;
    if (f->scale == SCALE_LARGEST) scale = size / f->most;
    if (f->scale == SCALE_POWER)
        scale = size > 0 ? ldexpf(1, (int)max64(ilogbf(size) - ilogbf(f->most), -127)) : 0;
    if (f->scale == SCALE_TWO_LEVELS) scale = two_levels(size, f->most, whole);
    return scale > 0 ? scale : 1; /* a group of zeros, or an underflow */
}

/* The squared error of each row with the scales of g. */
static void errors_of(double *error, const struct grid *g, const float *t, int64_t n)
{
    float q[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++) error[r] = 0;
    for (int64_t j = 0; j < n; j++) {
        formats_round(q, t + j * TILE_ROWS, g, g->scale);
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

void formats_fit(struct grid *g, const float *t, int64_t n, const struct grid_kind *kind)
{
    const struct format *f = &formats[kind->codes];
    const bool whole = f->scale == SCALE_TWO_LEVELS;
    float size[TILE_ROWS], of_matrix = 0;
    sizes_of(size, t, n, f->scale == SCALE_MEAN);
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
        kind->dtype != SCALE_F32 && (f->scale == SCALE_LARGEST || f->scale == SCALE_MEAN);
    for (int r = 0; r < TILE_ROWS; r++)
        g->stored[r] = f16 ? dtype_round_f16(g->scale[r]) : g->scale[r];
}

/* --- options --- */

int64_t formats_only_bits(const struct quant_options *o)
{
    return formats[o->codes].bits; /* 0 for integers */
}

double formats_stored(const struct quant_job *job, int64_t groups)
{
    const struct quant_options *o = job->options;
    const struct format *f = &formats[o->codes];
    const double rows = (double)job->rows, cols = (double)(job->cols > 0 ? job->cols : 1);
    const double code = o->codes == CODES_TERNARY ? 8 * ceil(cols / 5) / cols : (double)f->bits;
    const bool eight = f->scale == SCALE_POWER || f->scale == SCALE_TWO_LEVELS;
    const double scale = eight ? 8 : o->scale_dtype == SCALE_F32 ? 32 : 16;
    const double high = o->scale_rows == 1    ? rows
                        : o->scale_rows == -1 ? 1
                                              : ceil(rows / (double)o->scale_rows);
    const double whole = f->scale == SCALE_TWO_LEVELS ? 32 : 0;
    const bool scattered = o->order == ORDER_ACTIVATION && !o->static_groups && groups > 1;
    return code + (scale * (double)groups * high + whole) / (rows * cols) +
           (scattered ? 32 / rows : 0);
}

enum status formats_check(const struct quant_options *o, struct err *e)
{
    const bool alone = o->scale_rows == 1;
    if (o->codes == CODES_INTEGER) {
        NEED(alone, ERR_USAGE, "scale_rows: rows of integer codes have scales of their own");
        return OK;
    }
    const struct format *f = &formats[o->codes];
    NEED(o->symmetric && o->range_search == 0, ERR_USAGE,
         "codes: %s are symmetric, and the search for a smaller range is one of integer codes; "
         "leave out symmetric: false and range_search",
         f->name);
    NEED(f->group == 0 || o->group_size == f->group, ERR_USAGE,
         "codes: %s has groups of %lld columns; say group_size: %lld", f->name, (long long)f->group,
         (long long)f->group);
    NEED(alone || f->group == 0, ERR_USAGE, "scale_rows: each row of %s has scales of its own",
         f->name);
    NEED(alone || o->scale_rows == -1 || o->scale_rows % TILE_ROWS == 0, ERR_USAGE,
         "scale_rows: %lld; expected 1, -1 (all rows) or a multiple of %d",
         (long long)o->scale_rows, TILE_ROWS);
    NEED(alone || o->group_size < 0 || o->static_groups || o->order != ORDER_ACTIVATION, ERR_USAGE,
         "scale_rows: with order: activation the scales must be known before; say static_groups: "
         "true");
    return OK;
}

/* --- numbers that rows share --- */

struct shares {
    const struct quant_job *job;
    int64_t group, groups;
    bool mean;
    double *tiles; // (tiles, groups) sums or largest magnitudes
};

static void tile_share(const struct shares *s, int64_t tile)
{
    const struct quant_job *job = s->job;
    const int64_t row = tile * TILE_ROWS, end = min64(row + TILE_ROWS, job->rows);
    for (int64_t k = 0; k < s->groups; k++) {
        const int64_t a = k * s->group, n = min64(s->group, job->cols - a);
        double size = 0;
        for (int64_t i = row; i < end; i++) {
            const float *w = job->w + i * job->cols + a;
            if (!s->mean) size = fmax(size, (double)blocks_largest(w, n));
            for (int64_t j = 0; j < n && s->mean; j++) size += fabs((double)w[j]);
        }
        s->tiles[tile * s->groups + k] = size;
    }
}

/* Joins the numbers of tiles that share a scale, in their place. */
static void tiles_join(const struct shares *s)
{
    const struct quant_job *job = s->job;
    const int64_t n = tile_count(job->rows), rows = job->options->scale_rows;
    const int64_t together = rows > 1 ? rows / TILE_ROWS : n;
    for (int64_t first = 0; first < n; first += together)
        for (int64_t k = 0; k < s->groups; k++) {
            const int64_t end = min64(first + together, n);
            const int64_t high = min64(end * TILE_ROWS, job->rows) - first * TILE_ROWS;
            const int64_t wide = min64(s->group, job->cols - k * s->group);
            double size = 0;
            for (int64_t t = first; t < end; t++) {
                const double more = s->tiles[t * s->groups + k];
                size = s->mean ? size + more : fmax(size, more);
            }
            if (s->mean) size /= (double)(high * wide);
            for (int64_t t = first; t < end; t++) s->tiles[t * s->groups + k] = size;
        }
}

enum status formats_share(struct quant_job *job, double **shared, struct err *e)
{
    const struct quant_options *o = job->options;
    const struct format *f = &formats[o->codes];
    const bool whole = o->codes != CODES_INTEGER && f->scale == SCALE_TWO_LEVELS;
    int64_t first, end;
    *shared = NULL;
    if (!whole && o->scale_rows == 1) return OK;
    struct shares s = {.job = job,
                       .group = whole ? job->cols : grid_group(o, job->cols),
                       .mean = f->scale == SCALE_MEAN};
    s.groups = job->cols > 0 ? (job->cols + s.group - 1) / s.group : 1;
    PASS(team_agree(job->team,
                    mem_zero(shared, tile_count(job->rows) * s.groups, sizeof **shared,
                             "scales that rows share", e),
                    e));
    s.tiles = *shared;
    team_own_rows(job->team, job->rows, &first, &end);
#pragma omp parallel for
    for (int64_t t = first / TILE_ROWS; t < tile_count(end); t++) tile_share(&s, t);
    PASS(team_gather(job->team, s.tiles, s.groups, TILE_ROWS, job->rows, e));
    tiles_join(&s);
    job->shared = s.tiles;
    return OK;
}

const double *formats_shared_at(const struct quant_job *job, int64_t row, int64_t group)
{
    const struct quant_options *o = job->options;
    if (!job->shared) return NULL;
    if (formats[o->codes].scale == SCALE_TWO_LEVELS) return job->shared;
    const int64_t size = grid_group(o, job->cols), groups = (job->cols + size - 1) / size;
    return job->shared + row / TILE_ROWS * groups + group;
}
