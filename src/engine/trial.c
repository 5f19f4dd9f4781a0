/* Block outputs with trial weights, for methods that choose parameters by comparing them
 * (prepare_block). The original weights' outputs are retained for as many ranges as the memory plan
 * allows. */
#include "engine/visit_internal.h"
#include "model/arch.h"
#include "util/clock.h"
#include "util/mem.h"
#include <math.h>

struct trial {
    struct workspace *w;
    struct states *states; // (calibration tokens, C) inputs of the block
    const struct block *original;
    struct block changed; /* shallow copy in which one stage has trial weights */
    int retained;         /* stage whose inputs and original outputs are retained; -1: none */
    float *in;            // (range, in_width) the stage's input
    float *out;           // (range, C) the original module's output
    struct shared_products products[LINEARS_MAX]; /* of the trial weights */
    double *difference; // (calibration sequences of all ranks) squared, summed
};

/* Runs the module that has the stage, from the stage's input in the acts; out (T, C) = the module's
 * output. */
static void run_module(struct trial *t, const struct range *r, const struct block *b, int stage,
                       const float **out)
{
    struct workspace *w = t->w;
    int end = stage < STAGE_UP ? STAGE_O : STAGE_DOWN;
    size_t bytes = (size_t)(r->tokens * w->sizes.shape.hidden) * sizeof(float);
    /* With a parallel residual the attention's output would be added to the MLP's. */
    if (w->sizes.parallel && end == STAGE_DOWN) memset(w->acts.branch, 0, bytes);
    for (int k = stage; k <= end; k++) {
        if (k > stage) model_stage_input(w->model, b, k, &r->view, 0, r->view.n, w->x, &w->acts);
        model_stage_output(w->model, b, k, &r->view, 0, r->view.n, w->x, &w->acts);
    }
    *out = end == STAGE_O ? w->acts.branch : w->acts.inner;
}

/* Sets the stage's input in (tokens, cols) of a range and the original module's output
 * (tokens, C). */
static enum status run_original(struct trial *t, int64_t range, int stage, float *in, float *out,
                                struct err *e)
{
    struct workspace *w = t->w;
    const struct range *r = &w->calibration.range[range];
    const float *made;
    PASS(states_copy(t->states, r->row, r->tokens, w->x, e));
    /* After the last one the next trial takes those that are not retained. */
    const int64_t next = range + 1 < w->calibration.n ? range + 1 : w->retained_ranges;
    ranges_expect(&w->calibration, next, t->states);
    workspace_pass_to(w, r, t->original, 0, stage, w->x);
    memcpy(in, w->acts.in, (size_t)(r->tokens * w->sizes.cols[stage]) * sizeof(float));
    run_module(t, r, t->original, stage, &made);
    memcpy(out, made, (size_t)(r->tokens * w->sizes.shape.hidden) * sizeof(float));
    return OK;
}

/* The first trial of a stage fills the buffers of the ranges whose activations are retained; the
 * input and the output of the others are computed again for each trial, with the same result. */
static enum status compare_range(struct trial *t, int64_t range, int stage, struct err *e)
{
    struct workspace *w = t->w;
    const struct range *r = &w->calibration.range[range];
    const bool kept = range < w->retained_ranges;
    const int64_t C = w->sizes.shape.hidden;
    float *in = kept ? w->retained + r->row * w->sizes.in_width : t->in;
    float *original = kept ? w->retained_branch + r->row * C : t->out;
    const float *out;
    if (!kept || t->retained != stage) PASS(run_original(t, range, stage, in, original, e));
    memcpy(w->acts.in, in, (size_t)(r->tokens * w->sizes.cols[stage]) * sizeof(float));
    run_module(t, r, &t->changed, stage, &out);
    for (int64_t i = 0; i < r->view.n; i++) {
        double sum = 0;
        for (int64_t k = r->view.offset[i] * C; k < r->view.offset[i + 1] * C; k++) {
            double d = (double)out[k] - (double)original[k];
            sum += d * d;
        }
        t->difference[w->calibration_first + r->first + i] = sum;
    }
    return OK;
}

static enum status compare(const struct quant_block *b, int stage, double *mean_squared,
                           struct err *e)
{
    enum status st = OK;
    struct trial *t = b->context;
    struct workspace *w = t->w;
    double sum = 0;
    t->changed = *t->original;
    t->changed.storage = NULL;
    for (int i = 0; i < b->n_linears; i++) {
        const struct quant_linear *l = &b->linear[i];
        if (l->stage != stage) continue;
        PASS(group_rows(w->group, &w->quantized, l->trial, l->rows, l->cols, e));
        t->changed.linear[i].w = l->trial;
        PASS(shared_products_make(w->group, w->model, l->trial, l->rows, l->cols, &t->products[i],
                                  e));
        t->changed.linear[i].prepared = t->products[i].w;
    }
    for (int64_t i = 0; i < w->calibration.n && st == OK; i++) st = compare_range(t, i, stage, e);
    if (st == OK) t->retained = stage;
    PASS(group_agree(w->group, st, e));
    PASS(group_gather(w->group, w->calibration_all, NULL, 1, t->difference, e));
    for (int64_t i = 0; i < w->samples; i++) sum += t->difference[i];
    NEED(isfinite(sum), ERR_NUMERIC, "block %lld: trial weights give outputs that are not finite",
         (long long)t->original->layer);
    *mean_squared = sum / (double)(w->calibration_tokens * w->sizes.shape.hidden);
    return OK;
}

/* The folding partner of linear i's columns (struct quant_linear: tie). */
static int tie_of(const struct workspace *w, const struct block *b, int i)
{
    const struct spec *s = &w->sizes.spec;
    const struct linear *l = &b->linear[i];
    bool normed = arch_norm_absorbs(s->arch);
    int last = i - 1; /* last linear of the previous stage, if l is the only one of its stage */
    switch (l->stage) {
    case STAGE_QKV:
    case STAGE_UP:
        return normed ? TIE_NORM : TIE_NONE;
    case STAGE_O: /* v, if every query head has its own value head */
        return !s->fused && s->clip == 0 && b->linear[last].rows == l->cols ? last : TIE_NONE;
    default: /* up, if it is multiplied with a gate */
        return s->gated ? last : TIE_ACTIVATION;
    }
}

static enum status trial_init(struct trial *t, struct err *e)
{
    const struct workspace *w = t->w;
    int64_t tokens = w->calibration.tokens;
    const char *what = "trial outputs";
    PASS(mem_alloc(&t->in, tokens * w->sizes.in_width, sizeof *t->in, what, e));
    PASS(mem_alloc(&t->out, tokens * w->sizes.shape.hidden, sizeof *t->out, what, e));
    return mem_zero(&t->difference, w->samples, sizeof *t->difference, what, e);
}

enum status trial_prepare(struct workspace *w, struct stream *s, const struct block *b,
                          struct err *e)
{
    enum status st = OK;
    double start = clock_seconds();
    struct trial t = {.w = w,
                      .states = s->needs.shared ? w->full->calibration : s->calibration,
                      .original = b,
                      .retained = -1};
    struct quant_linear linear[LINEARS_MAX];
    struct quant_input input[STAGE_N];
    const struct quant_block block = {.team = w->group->size > 1 ? &w->group->team : NULL,
                                      .bits = s->variant->bits,
                                      .options = &s->variant->method.options,
                                      .layer = b->layer,
                                      .n_linears = b->n_linears,
                                      .n_stages = STAGE_N,
                                      .linear = linear,
                                      .input = input,
                                      .compare = compare,
                                      .context = &t};
    float *at = w->quantized.at; /* unused until the block is quantized */
    for (int i = 0; i < b->n_linears; i++) {
        const struct linear *l = &b->linear[i];
        linear[i] =
            (struct quant_linear){l->name, l->stage, l->rows, l->cols, l->w, at, tie_of(w, b, i)};
        at += l->rows * l->cols;
    }
    for (int stage = 0; stage < STAGE_N; stage++) input[stage] = workspace_input(w, s, stage);
    TRY(group_agree(w->group, trial_init(&t, e), e));
    TRY(group_agree(w->group, s->method->prepare_block(&block, w->prepared, e), e));
done:
    s->seconds.factor += clock_seconds() - start;
    for (int i = 0; i < LINEARS_MAX; i++) shared_products_close(&t.products[i]);
    free(t.in);
    free(t.out);
    free(t.difference);
    return st;
}
