/* SmoothQuant (Xiao et al. 2023, arXiv 2211.10438), as its authors' code simulates it
 * (mit-han-lab/smoothquant, smooth.py and fake_quant.py): weights and activations in 8 bits, with a
 * scale for each row and each token. Before that, channels with large inputs are divided by a
 * factor that the weights are multiplied with. */
#include "activation/activation.h"
#include "activation/int8_linear.h"
#include "coding/tile.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

enum smoothed { SMOOTHED_NORM, SMOOTHED_ALL };

struct smoothquant_options {
    double migration;
    int smoothed;    /* enum smoothed */
    int granularity; /* enum granularity, of inputs; not static */
};

/* The authors' bound of all scales. */
#define LEAST 1e-5f

/* What the linears of a stage share. */
struct factors {
    double bits;    /* that a weight takes for factors which no norm absorbs */
    float factor[]; // (cols)
};

/* --- factors --- */

static void raise_columns(float *most, const struct quant_linear *l)
{
#pragma omp parallel for schedule(static)
    for (int64_t a = 0; a < l->cols; a += TILE_ROWS)
        for (int64_t i = 0; i < l->rows; i++)
            for (int64_t j = a; j < min64(a + TILE_ROWS, l->cols); j++)
                most[j] = fmaxf(most[j], fabsf(l->w[i * l->cols + j]));
}

/* (max |x|)^m / (max |w|)^(1 - m) over the tokens and over the rows of all linears of the stage
 * (equation 4). factor: max |w| on entry. */
static enum status set_factors(float *factor, const double *largest, int64_t cols, float m,
                               struct err *e)
{
    for (int64_t j = 0; j < cols; j++) {
        NEED(isfinite(largest[j]), ERR_NUMERIC, "an input of channel %lld is not finite",
             (long long)j);
        const float w = powf(fmaxf(factor[j], LEAST), 1 - m);
        factor[j] = fmaxf(powf((float)largest[j], m) / w, LEAST);
    }
    return OK;
}

static enum status stage_factors(const struct quant_block *b, int stage, void **out, struct err *e)
{
    const struct smoothquant_options *o = quant_own(b->options, METHOD_smoothquant);
    const struct quant_input *in = &b->input[stage];
    struct factors *f;
    int tie = TIE_NONE;
    int64_t rows = 0;
    const size_t bytes = sizeof *f + (size_t)in->cols * sizeof *f->factor;
    PASS(mem_zero(&f, 1, bytes, "factors of channels", e));
    *out = f;
    for (int i = 0; i < b->n_linears; i++) {
        if (b->linear[i].stage != stage) continue;
        raise_columns(f->factor, &b->linear[i]);
        tie = b->linear[i].tie;
        rows += b->linear[i].rows;
    }
    if (o->smoothed == SMOOTHED_NORM && tie != TIE_NORM) {
        for (int64_t j = 0; j < in->cols; j++) f->factor[j] = 1;
        return OK;
    }
    f->bits = tie == TIE_NORM ? 0 : 16 / (double)rows;
    return set_factors(f->factor, in->statistic[STATISTIC_LARGEST], in->cols, (float)o->migration,
                       e);
}

static enum status smoothquant_prepare(const struct quant_block *b, void **prepared, struct err *e)
{
    enum status st = OK;
    for (int stage = 0; stage < b->n_stages && st == OK; stage++)
        st = stage_factors(b, stage, &prepared[stage], e);
    return team_agree(b->team, st, e);
}

/* --- weights --- */

/* int8_format.round. */
static float round_codes(float *x, int64_t n, float most)
{
    const float scale = fmaxf(most, LEAST) / INT8_MOST;
    for (int64_t j = 0; j < n; j++) x[j] = nearbyintf(x[j] / scale);
    return scale;
}

/* The weights that a row's codes amount to, for inputs that are not divided. */
static void round_row(const struct quant_job *job, const void *none, int64_t row, void *scratch)
{
    const struct factors *f = job->prepared;
    const float *factor = f->factor, *w = job->w + row * job->cols;
    float *q = job->q + row * job->cols;
    (void)none, (void)scratch;
    for (int64_t j = 0; j < job->cols; j++) q[j] = w[j] * factor[j];
    const float scale = round_codes(q, job->cols, row_largest(q, job->cols));
    for (int64_t j = 0; j < job->cols; j++) q[j] = q[j] * scale / factor[j];
}

static enum status smoothquant_run(const struct quant_job *job, struct quant_report *report,
                                   struct err *e)
{
    const struct factors *f = job->prepared;
    PASS(job_rows(job, 1, round_row, NULL, 1, e));
    return job_report(job, 8 + 32 / (double)job->cols + f->bits, report, e);
}

static enum status make_linear(const struct quant_job *job, int64_t longest, void **out,
                               struct err *e)
{
    const struct smoothquant_options *o = quant_own(job->options, METHOD_smoothquant);
    const struct int8_format format = {.round = round_codes,
                                       .unit = 1,
                                       .threshold = INFINITY,
                                       .tensor = o->granularity == GRANULARITY_TENSOR};
    const struct factors *f = job->prepared;
    return int8_linear_make(job->w, job->rows, job->cols, &format, f->factor, longest, out, e);
}

/* --- plans --- */

static void memory(const struct quant_options *o, const struct quant_extent *x,
                   struct quant_memory *out)
{
    (void)o;
    out->prepared = (int64_t)sizeof(struct factors) + x->cols * (int64_t)sizeof(float);
    const struct int8_extent own = {x->cols, x->rows, x->all_rows, x->longest, x->threads};
    out->linears = int8_linear_bytes(&own, false);
}

static const char *const smoothed[] = {"norm", "all", NULL};
static const char *const granularities[] = {"token", "tensor", NULL};

static const struct option own_options[] = {
    OPTION_AT("migration", smoothquant_options, migration, REAL,
              "smoothquant: exponent of the largest inputs in the factors of channels (0 to 1); "
              "more of it moves more of the difficulty from inputs to weights",
              .fallback = "0.5", .minimum = 0, .maximum = 1),
    OPTION(smoothquant_options, smoothed, CHOICE,
           "smoothquant: linears whose inputs are divided: those behind a norm that absorbs the "
           "factors (norm), or all",
           .fallback = "norm", .choices = smoothed),
    OPTION(smoothquant_options, granularity, CHOICE,
           "smoothquant: each token of the inputs has a scale, or all of a sequence (tensor)",
           .fallback = "token", .choices = granularities, .later = true),
};

const struct quant_method quant_smoothquant = {
    .name = "smoothquant",
    .doc = "8-bit weights and activations (W8A8); factors of channels make inputs easier to round",
    .bits_min = 8,
    .bits_max = 8,
    .results = QUANT_ZERO_IS_ZERO,
    .options = "",
    .own = {OPTION_ROWS(own_options, smoothquant_options)},
    .statistics = WANTS(STATISTIC_LARGEST),
    .full_precision = true,
    .prepare_block = smoothquant_prepare,
    .release = free,
    .run = smoothquant_run,
    .make_linear = make_linear,
    .apply = int8_linear_apply,
    .free_linear = int8_linear_free,
    .memory = memory,
    .flop = 75,
};
