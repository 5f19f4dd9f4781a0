/* Activation-aware weight quantization (Lin et al. 2023), as llm-awq and AutoAWQ do it: input
 * channels with large inputs are scaled up before rounding and down after it, and ranges are
 * clipped where that lowers the error of the outputs. */
#include "quant/awq.h"
#include "math/hadamard.h"
#include "math/linalg.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

const struct awq_options *awq_options_of(const struct quant_options *o)
{
    return quant_own(o, METHOD_awq);
}

struct grid_kind awq_grid(int64_t bits, const struct quant_options *o)
{
    return (struct grid_kind){.bits = bits,
                              .symmetric = !awq_options_of(o)->zero_point,
                              .dtype = o->scale_dtype,
                              .form = GRID_AWQ};
}

/* --- a block --- */

static void awq_release(void *prepared)
{
    struct awq_stage *s = prepared;
    if (!s) return;
    for (int i = 0; s->linear && i < s->n; i++) {
        free(s->linear[i].columns);
        free(s->linear[i].rows);
    }
    free(s->linear);
    mixing_free(s->mixing);
    free(s);
}

/* The packages leave linears alone whose outputs meet in a product that they do not look at: the
 * queries and keys, by their names. */
static bool clips(const char *name)
{
    static const char *const never[] = {"q_", "k_", "query", "key", "Wqkv"};
    const char *last = name;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (strcmp(dot, ".weight") != 0) last = dot + 1;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(last, never[i])) return false;
    return true;
}

static enum status stage_make(const struct quant_block *b, int stage, void **prepared,
                              struct err *e)
{
    const struct awq_options *o = awq_options_of(b->options);
    struct awq_stage *s = NULL;
    PASS(mem_zero(&s, 1, sizeof *s, "a stage's scales", e));
    *prepared = s;
    while (s->first < b->n_linears && b->linear[s->first].stage < stage) s->first++;
    for (int i = s->first; i < b->n_linears && b->linear[i].stage == stage; i++) s->n++;
    PASS(mem_zero(&s->linear, s->n, sizeof *s->linear, "a stage's scales", e));
    PASS(mixing_make(&s->mixing, b->options, b->layer, b->linear[s->first].cols, e));
    for (int i = 0; i < s->n; i++) {
        s->linear[i].clips = o->clip && clips(b->linear[s->first + i].name);
        for (int k = 0; k < AWQ_RATIOS; k++) s->linear[i].loss[k] = NAN;
    }
    return OK;
}

static enum status stages_make(const struct quant_block *b, void **prepared, struct err *e)
{
    for (int i = 0; i < b->n_linears; i++) {
        const struct quant_linear *l = &b->linear[i];
        const struct quant_job job = {.team = b->team, .rows = l->rows, .cols = l->cols, .w = l->w};
        enum status st = job_check(&job, e);
        if (st != OK) err_prefix(e, "%s", l->name);
        PASS(st);
    }
    for (int stage = 0; stage < b->n_stages; stage++)
        PASS(stage_make(b, stage, &prepared[stage], e));
    return OK;
}

static struct awq_linear *linear_of(void *const *prepared, const struct quant_block *b, int i)
{
    struct awq_stage *s = prepared[b->linear[i].stage];
    return &s->linear[i - s->first];
}

/* The rows of a linear absorb the scales of the linear that is tied to it. */
static enum status fold_rows(const struct quant_block *b, void *const *prepared, struct err *e)
{
    for (int i = 0; i < b->n_linears; i++) {
        const struct awq_linear *a = linear_of(prepared, b, i);
        int tie = b->linear[i].tie;
        if (tie < 0 || !a->columns || a->stored) continue;
        float **rows = &linear_of(prepared, b, tie)->rows;
        NEED(b->linear[tie].rows == b->linear[i].cols, ERR_SHAPE, "%s and %s are not tied",
             b->linear[tie].name, b->linear[i].name);
        PASS(mem_alloc(rows, b->linear[i].cols, sizeof **rows, "scales of rows", e));
        memcpy(*rows, a->columns, (size_t)b->linear[i].cols * sizeof **rows);
    }
    return OK;
}

static enum status awq_prepare(const struct quant_block *b, void **prepared, struct err *e)
{
    PASS(team_agree(b->team, stages_make(b, prepared, e), e));
    for (int stage = 0; stage < b->n_stages; stage++)
        PASS(awq_search(b, stage, prepared[stage], e));
    return team_agree(b->team, fold_rows(b, prepared, e), e);
}

/* --- one linear --- */

/* The clip search tries ranges of 100 %, 95 %, ... 55 % of the largest magnitude. */
enum { CLIPS = 10, CLIP_PARTS = 20 };

struct awq_run {
    const struct quant_job *job;
    const struct awq_linear *a;
    const struct mixing *mixing;
    struct grid_kind kind;
    int64_t group, samples;
    float *inputs; // (samples, cols) divided by the scales; NULL: no clip search
};

static int64_t numbers_per_thread(int64_t cols, int64_t group, int64_t samples)
{
    return (cols + 2 * group + samples) * TILE_ROWS;
}

static void clamp_to(float *to, const float *from, int64_t n, const float *most)
{
    for (int64_t j = 0; j < n; j++)
        for (int r = 0; r < TILE_ROWS; r++) {
            float x = from[j * TILE_ROWS + r];
            x = x > most[r] ? most[r] : x;
            to[j * TILE_ROWS + r] = x < -most[r] ? -most[r] : x;
        }
}

/* error (TILE_ROWS) = sum over the samples of the squared change of x·w over the group's n columns
 * from `column` on, when t (n, TILE_ROWS) is clamped to `most` and rounded. */
static void clip_error(const struct awq_run *a, const float *t, int64_t column, int64_t n,
                       const float *most, float *scratch, double *error)
{
    float *changed = scratch, *output = scratch + a->group * TILE_ROWS;
    struct grid g;
    clamp_to(changed, t, n, most);
    grid_fit(&g, changed, n, a->kind);
    for (int64_t j = 0; j < n; j++) {
        float *x = changed + j * TILE_ROWS;
        grid_round(x, x, &g, a->kind.bits);
        for (int r = 0; r < TILE_ROWS; r++) x[r] -= t[j * TILE_ROWS + r];
    }
    mat_gemm(MAT_NN, output, TILE_ROWS, a->inputs + column, a->job->cols, changed, TILE_ROWS,
             a->samples, TILE_ROWS, n, 0);
    for (int r = 0; r < TILE_ROWS; r++) error[r] = 0;
    for (int64_t k = 0; k < a->samples; k++)
        for (int r = 0; r < TILE_ROWS; r++) {
            double v = (double)output[k * TILE_ROWS + r];
            error[r] += v * v;
        }
}

/* Clamps the group's weights to the range of the least error. */
static void clip_group(const struct awq_run *a, float *t, int64_t column, int64_t n, float *scratch)
{
    float whole[TILE_ROWS] = {0}, most[TILE_ROWS], best[TILE_ROWS];
    double error[TILE_ROWS], least[TILE_ROWS];
    for (int64_t j = 0; j < n; j++)
        for (int r = 0; r < TILE_ROWS; r++) whole[r] = fmaxf(whole[r], fabsf(t[j * TILE_ROWS + r]));
    for (int step = 0; step < CLIPS; step++) {
        for (int r = 0; r < TILE_ROWS; r++)
            most[r] = whole[r] * (float)(1 - (double)step / CLIP_PARTS);
        clip_error(a, t, column, n, most, scratch, error);
        for (int r = 0; r < TILE_ROWS; r++) {
            if (step > 0 && !(error[r] < least[r])) continue;
            least[r] = error[r];
            best[r] = most[r];
        }
    }
    clamp_to(t, t, n, best);
}

static void scale_columns(const struct awq_run *a, float *t, int64_t row, bool back)
{
    float rows[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++)
        rows[r] = a->a->rows && row + r < a->job->rows ? a->a->rows[row + r] : 1;
    for (int64_t j = 0; j < a->job->cols; j++) {
        float *x = t + j * TILE_ROWS, s = a->a->columns ? a->a->columns[j] : 1;
        for (int r = 0; r < TILE_ROWS; r++) x[r] = back ? x[r] / s * rows[r] : x[r] * s / rows[r];
    }
}

static void tile_quantize(const struct quant_job *job, const void *run, int64_t row, void *scratch)
{
    const struct awq_run *a = run;
    float *t = scratch;
    struct grid g;
    tile_load(t, TILE_ROWS, job->w, job->rows, job->cols, row, 0, job->cols, NULL);
    mixing_tile(a->mixing, t, false);
    scale_columns(a, t, row, false);
    for (int64_t j = 0; j < job->cols; j += a->group) {
        int64_t n = min64(a->group, job->cols - j);
        float *x = t + j * TILE_ROWS;
        if (a->inputs) clip_group(a, x, j, n, t + job->cols * TILE_ROWS);
        grid_fit(&g, x, n, a->kind);
        grid_note(job, row, j / a->group, &g);
        for (int64_t k = 0; k < n; k++)
            grid_round_stored(x + k * TILE_ROWS, x + k * TILE_ROWS, &g, a->kind.bits);
    }
    scale_columns(a, t, row, true);
    mixing_tile(a->mixing, t, true);
    tile_store(job->q, job->rows, job->cols, row, 0, job->cols, NULL, t);
}

static enum status inputs_make(struct awq_run *a, struct err *e)
{
    const int64_t cols = a->job->cols;
    if (!a->a->clips) return OK;
    PASS(awq_sample(a->job->input, a->mixing, &a->inputs, e));
    if (!a->a->columns) return OK;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < a->samples; k++)
        for (int64_t j = 0; j < cols; j++) a->inputs[k * cols + j] /= a->a->columns[j];
    return OK;
}

static enum status awq_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    enum status st = OK;
    const struct awq_stage *s = job->prepared;
    struct awq_run a = {.job = job,
                        .a = &s->linear[job->linear - s->first],
                        .mixing = s->mixing,
                        .kind = awq_grid(job->bits, job->options),
                        .group = grid_group(job->options, job->cols),
                        .samples = sample_count(job->input->tokens)};
    const int64_t numbers = numbers_per_thread(job->cols, a.group, a.samples);
    TRY(team_agree(job->team, inputs_make(&a, e), e));
    if (job->grids) {
        job->grids->columns = a.a->columns;
        job->grids->rows = a.a->rows;
    }
    TRY(job_rows(job, TILE_ROWS, tile_quantize, &a, numbers * (int64_t)sizeof(float), e));
    /* Scales of channels that nothing absorbs are stored in 16 bits each. */
    TRY(job_report(job, grid_bits(job) + (a.a->stored ? 16 / (double)job->rows : 0), report, e));
    report->error = a.a->loss[a.a->ratio];
done:
    free(a.inputs);
    return st;
}

/* --- the method --- */

static void awq_memory(const struct quant_options *o, const struct quant_extent *x,
                       struct quant_memory *out)
{
    int64_t each = numbers_per_thread(x->cols, grid_group(o, x->cols), SAMPLES);
    out->prepared = (x->cols + x->rows) * 4 * (int64_t)sizeof(float);
    out->preparing = awq_search_bytes(x);
    out->running = (SAMPLES * x->cols + x->threads * each) * (int64_t)sizeof(float);
    if (o->mixing == MIXING_NONE) return;
    int64_t own = mixing_bytes(x);
    out->prepared += own;
    out->preparing += own + x->cols * x->cols * (int64_t)sizeof(double);
    out->running += own;
}

static void awq_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                     struct quant_cost *out)
{
    const struct awq_options *own = awq_options_of(o);
    double weights = (double)rows * (double)cols, tries = own->scaled ? AWQ_RATIOS : 0;
    bool passes = own->judged == JUDGED_MODULE && own->scaled != SCALED_FREE;
    out->run = grid_flop(rows, cols, o) * (1 + tries);
    if (own->clip) out->run += CLIPS * (grid_flop(rows, cols, o) + 2 * SAMPLES_WANTED * weights);
    /* With passes, half of the weights: those behind a norm are judged by forward passes. */
    out->run += tries * 2 * weights * (double)cols * (passes ? 0.5 : 1);
    /* Attention and MLP once for each trial; their inputs and original outputs once. */
    if (passes) out->passes = tries + 2;
    if (o->mixing == MIXING_NONE) return;
    /* The Gram matrix, each trial, the result and back. */
    mixing_cost(o, rows, cols, true, out);
    out->run += out->prepare + (tries + 1) * (double)rows * hadamard_flop(cols);
    out->prepare = 0;
}

static enum status awq_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    (void)bits;
    int scales = awq_options_of(o)->scaled;
    NEED(o->mixing == MIXING_NONE || scales == SCALED_FREE || scales == SCALED_NONE, ERR_USAGE,
         "mixing needs scaled: free or none; nothing before a linear absorbs scales of its "
         "mixed inputs");
    return OK;
}

static enum status describe_grids(const struct quant_options *o, struct quant_grid_form *out,
                                  struct err *e)
{
    const struct awq_options *own = awq_options_of(o);
    NEED(own->scaled == SCALED_NONE || own->scaled == SCALED_FOLDABLE, ERR_USAGE,
         "scaled: only foldable and none can be packed; the scales of other linears are absorbed "
         "by no tensor of the model");
    *out = (struct quant_grid_form){.group_size = o->group_size,
                                    .symmetric = !own->zero_point,
                                    .f16 = o->scale_dtype != SCALE_F32,
                                    .folds = own->scaled == SCALED_FOLDABLE};
    return OK;
}

static const char *const scaled[] = {"none", "foldable", "activation", "free", NULL};
static const char *const judged[] = {"module", "linear", NULL};

static const struct option own_options[] = {
    OPTION(awq_options, scaled, CHOICE,
           "awq: linears whose input channels are scaled: those whose scales the norm or linear "
           "before absorbs, so that the model can be stored (foldable); also behind an activation "
           "function (activation); each by itself (free)",
           .fallback = "foldable", .choices = scaled),
    OPTION(awq_options, judged, CHOICE,
           "awq: scales of the inputs of attention and MLP are judged by the output of these "
           "(module) or of the linears alone (linear)",
           .fallback = "module", .choices = judged, .with = "scaled"),
    OPTION(awq_options, duo_scaling, BOOL,
           "awq: scales also fall with the mean weight of a channel, as in AutoAWQ",
           .fallback = "false", .with = "scaled"),
    OPTION(awq_options, zero_point, BOOL,
           "awq: ranges from the minimum to the maximum; false: centred on zero",
           .fallback = "true"),
    OPTION(awq_options, clip, BOOL,
           "awq: search for smaller ranges with sampled inputs; not for queries and keys",
           .fallback = "true"),
};

const struct quant_method quant_awq = {
    .name = "awq",
    .doc = "channels with large inputs are scaled up before rounding, ranges are clipped; both by "
           "the error of the outputs",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .results = QUANT_ZERO_IS_ZERO,
    .options = "group_size scale_dtype mixing mixing_seed",
    .own = {OPTION_ROWS(own_options, awq_options)},
    .check = awq_check,
    .statistics = WANTS(STATISTIC_GRAM) | WANTS(STATISTIC_MAGNITUDE) | WANTS(STATISTIC_SAMPLE),
    .full_precision = true,
    .describe_grids = describe_grids,
    .prepare_block = awq_prepare,
    .release = awq_release,
    .run = awq_run,
    .memory = awq_memory,
    .cost = awq_cost,
};
