/* Half-quadratic quantization (Badri and Shaji 2023), as the package hqq 0.2.8 does it: the zero of
 * each group is moved so that an l_p norm of the error falls; no calibration. Groups are runs of
 * consecutive weights of the flattened matrix (the package's axis 1), so that they cross rows where
 * the group size does not divide the row. */
#include "coding/tile.h"
#include "quant/job.h"
#include "quant/quant.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

/* When the first zero is rounded. */
enum { ROUND_AUTO /* 4 bits, as the package does */, ROUND_ALWAYS, ROUND_NEVER };

struct hqq_options {
    int64_t steps;
    double norm;
    int round_zero;
};

/* Constants of the package: beta (constant during the optimisation), the range below which a group
 * counts as empty, and the maximum inverse scale. */
static const float BETA = 10, RANGE_MIN = 1e-4f, INVERSE_MAX = 2e4f;

/* State of quantizing one matrix: the groups of this rank's tiles of rows. */
struct hqq {
    const struct quant_job *job;
    const struct hqq_options *own;
    float threshold;       /* errors below it shrink to 0 */
    int64_t group;         /* weights per group */
    int64_t groups;        /* groups per tile */
    int64_t first, end, n; /* this rank's tiles; number of all tiles */
    float *inverse, *zero; // (end - first, groups) 1 / scale, and zero in units of codes
    double *error;         // (n) sum of |W - R| over a tile's weights
};

/* A group of n weights, starting at w. */
struct hqq_group {
    const float *w;
    float *q;
    int64_t n;
    float *inverse, *zero;
};

static struct hqq_group group_at(const struct hqq *h, int64_t tile, int64_t i)
{
    int64_t row = tile * TILE_ROWS, rows = min64(TILE_ROWS, h->job->rows - row);
    int64_t at = row * h->job->cols + i * h->group, end = (row + rows) * h->job->cols;
    int64_t k = (tile - h->first) * h->groups + i;
    return (struct hqq_group){.w = h->job->w + at,
                              .q = h->job->q + at,
                              .n = max64(min64(h->group, end - at), 0),
                              .inverse = h->inverse + k,
                              .zero = h->zero + k};
}

static float code_of(float w, float inverse, float zero, float codes)
{
    return fminf(fmaxf(nearbyintf(w * inverse + zero), 0), codes);
}

static void group_start(const struct hqq *h, const struct hqq_group *g, float codes)
{
    float low = INFINITY, high = -INFINITY;
    for (int64_t j = 0; j < g->n; j++) {
        low = fminf(low, g->w[j]);
        high = fmaxf(high, g->w[j]);
    }
    float range = high - low;
    *g->inverse = range <= RANGE_MIN ? 1 : fminf(codes / range, INVERSE_MAX);
    *g->zero = -low * *g->inverse;
    bool rounds =
        h->own->round_zero == ROUND_AUTO ? h->job->bits == 4 : h->own->round_zero == ROUND_ALWAYS;
    if (rounds) *g->zero = nearbyintf(*g->zero);
}

/* Shrinks an error: the proximal operator of the l_p norm. */
static float shrink(float x, float norm, float threshold)
{
    float size = fabsf(x);
    if (size < threshold) return 0; /* most errors; avoids the power */
    return copysignf(fmaxf(size - powf(size, norm - 1) / BETA, 0), x);
}

/* One step of the optimisation; returns the sum of |W - R| before it. */
static double group_step(const struct hqq *h, const struct hqq_group *g, float codes)
{
    double error = 0, zero = 0;
    float s = *g->inverse, z = *g->zero, norm = (float)h->own->norm;
    for (int64_t j = 0; j < g->n; j++) {
        float q = code_of(g->w[j], s, z, codes), miss = g->w[j] - (q - z) / s;
        error += (double)fabsf(miss);
        zero += (double)(q - (g->w[j] - shrink(miss, norm, h->threshold)) * s);
    }
    *g->zero = (float)(zero / (double)g->n);
    return error;
}

static void group_finish(const struct hqq_group *g, float codes)
{
    float s = *g->inverse, z = *g->zero, scale = 1 / s;
    for (int64_t j = 0; j < g->n; j++) g->q[j] = (code_of(g->w[j], s, z, codes) - z) * scale;
}

enum hqq_pass { HQQ_START, HQQ_STEP, HQQ_FINISH };

/* Applies `pass` to all groups of this rank. */
static void pass_groups(struct hqq *h, enum hqq_pass pass)
{
    float codes = (float)((1 << h->job->bits) - 1);
#pragma omp parallel for schedule(dynamic)
    for (int64_t tile = h->first; tile < h->end; tile++) {
        h->error[tile] = 0;
        for (int64_t i = 0; i < h->groups; i++) {
            struct hqq_group g = group_at(h, tile, i);
            if (g.n == 0) break;
            if (pass == HQQ_START) group_start(h, &g, codes);
            if (pass == HQQ_STEP) h->error[tile] += group_step(h, &g, codes);
            if (pass == HQQ_FINISH) group_finish(&g, codes);
        }
    }
}

/* Repeats steps until the mean error of the whole matrix stops falling; the zeros of the last step
 * are used. */
static enum status optimise(struct hqq *h, struct err *e)
{
    double least = INFINITY;
    for (int64_t i = 0; i < h->own->steps; i++) {
        double error = 0;
        pass_groups(h, HQQ_STEP);
        PASS(team_gather(h->job->team, h->error, 1, TILE_ROWS, h->job->rows, e));
        for (int64_t t = 0; t < h->n; t++) error += h->error[t];
        if (!(error < least)) break;
        least = error;
    }
    return OK;
}

static int64_t group_of(const struct quant_options *o, int64_t cols)
{
    return o->group_size < 0 ? cols : min64(o->group_size, TILE_ROWS * cols);
}

static enum status hqq_open(struct hqq *h, struct err *e)
{
    int64_t n = (h->end - h->first) * h->groups;
    PASS(job_check(h->job, e));
    PASS(mem_zero(&h->inverse, n, sizeof *h->inverse, "scales", e));
    PASS(mem_zero(&h->zero, n, sizeof *h->zero, "zeros", e));
    return mem_zero(&h->error, h->n, sizeof *h->error, "errors of tiles", e);
}

/* Bits per weight: the codes, and scale and zero of 16 bits for each group. */
static double bits_of(const struct hqq *h)
{
    int64_t cols = h->job->cols, groups = h->job->rows / TILE_ROWS * h->groups;
    int64_t left = h->job->rows % TILE_ROWS * cols; /* weights of the last, shorter tile */
    groups += (left + h->group - 1) / h->group;
    return (double)h->job->bits + 32.0 * (double)groups / (double)(h->job->rows * cols);
}

static enum status hqq_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    enum status st = OK;
    int64_t first, end;
    struct hqq h = {.job = job,
                    .own = quant_own(job->options, METHOD_hqq),
                    .group = group_of(job->options, job->cols),
                    .n = tile_count(job->rows)};
    h.groups = (TILE_ROWS * job->cols + h.group - 1) / h.group;
    h.threshold = 0.99f * powf(BETA, -1 / (2 - (float)h.own->norm));
    team_own_rows(job->team, job->rows, &first, &end);
    h.first = first / TILE_ROWS;
    h.end = tile_count(end);
    TRY(team_agree(job->team, hqq_open(&h, e), e));
    pass_groups(&h, HQQ_START);
    TRY(optimise(&h, e));
    pass_groups(&h, HQQ_FINISH);
    TRY(job_report(job, bits_of(&h), report, e));
done:
    free(h.inverse);
    free(h.zero);
    free(h.error);
    return st;
}

static void hqq_memory(const struct quant_options *o, const struct quant_extent *x,
                       struct quant_memory *out)
{
    int64_t tiles = tile_count(x->rows), own = (tiles + x->ranks - 1) / x->ranks;
    int64_t groups = TILE_ROWS * x->cols / group_of(o, x->cols) + 1;
    out->running = own * groups * 2 * (int64_t)sizeof(float) + tiles * (int64_t)sizeof(double);
}

/* FLOPs per weight of a step and of the rest, chosen to match the measured time (26 times round to
 * nearest). */
enum { FLOP_STEP = 50, FLOP_REST = 60 };

static void hqq_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                     struct quant_cost *out)
{
    const struct hqq_options *own = quant_own(o, METHOD_hqq);
    out->run = (double)rows * (double)cols * (double)(FLOP_REST + FLOP_STEP * own->steps);
}

static const char *const round_zeros[] = {"auto", "always", "never", NULL};

static const struct option own_options[] = {
    OPTION_AT("optimize_steps", hqq_options, steps, INT,
              "hqq: maximum number of steps that optimize the zero of each group", .fallback = "20",
              .low = 0, .high = 1000),
    OPTION_AT("error_norm", hqq_options, norm, REAL,
              "hqq: p of the l_p norm of the error that the steps minimize", .fallback = "0.7",
              .minimum = 0, .maximum = 1),
    OPTION(hqq_options, round_zero, CHOICE,
           "hqq: round the initial zero to an integer (always, never, auto: at 4 bits)",
           .fallback = "auto", .choices = round_zeros),
};

const struct quant_method quant_hqq = {
    .name = "hqq",
    .doc = "half-quadratic: optimizes the zero of each group for an l_p norm of the error; no "
           "calibration",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .options = "group_size",
    .own = {OPTION_ROWS(own_options, hqq_options)},
    .run = hqq_run,
    .memory = hqq_memory,
    .cost = hqq_cost,
};
