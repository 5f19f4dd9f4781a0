/* One block of one variant: calibrate, quantize, go on, stage by stage. */
#include "linalg/linalg.h"
#include "util/clock.h"
#include "util/mem.h"
#include "visit/internal.h"
#include <stdlib.h>
#include <string.h>

static int64_t longest(const struct sequences *s)
{
    int64_t most = 1;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t T = s->offset[i + 1] - s->offset[i];
        if (T > most) most = T;
    }
    return most;
}

/* Evaluation goes through a block in ranges of about this many tokens: enough work for every
 * thread, little memory. */
enum { RANGE_TOKENS = 8192 };

static int64_t range_tokens(const struct sequences *s)
{
    int64_t tokens = s->offset[s->n], range = longest(s);
    if (range < RANGE_TOKENS) range = RANGE_TOKENS;
    return range < tokens ? range : tokens;
}

enum status workspace_init(struct workspace *w, const struct model *m,
                           const struct visit_inputs *inputs, const struct stream *streams,
                           int64_t n_streams, const struct visit_hooks *hooks, struct err *e)
{
    enum status st = OK;
    bool calibrates = false, saves = false;
    for (int64_t i = 0; i < n_streams; i++) {
        bool needs = streams[i].method && streams[i].method->needs & NEEDS_HESSIAN;
        calibrates = calibrates || needs;
        saves = saves || (needs && !streams[i].variant->method.options.true_sequential);
    }
    *w = (struct workspace){.model = m, .inputs = inputs, .hooks = hooks};
    TRY(model_acts_init(m, range_tokens(inputs->evaluation), &w->evaluation, e));
    if (!calibrates) goto done;
    ENSURE(inputs->calibration, ERR_USAGE, "calibration: a method needs it and none is given");
    int64_t tokens = inputs->calibration->offset[inputs->calibration->n];
    TRY(model_acts_init(m, tokens, &w->calibration, e));
    if (saves)
        TRY(mem_alloc(&w->saved, tokens * model_shape(m)->hidden, sizeof *w->saved,
                      "calibration states", e));
done:
    return st;
}

void workspace_free(struct workspace *w)
{
    model_acts_free(&w->evaluation);
    model_acts_free(&w->calibration);
    free(w->quantized);
    free(w->saved);
    for (int i = 0; i < STAGE_N; i++) free(w->gram[i]);
    *w = (struct workspace){0};
}

static int64_t stage_cols(const struct block *b, int stage)
{
    for (int i = 0; i < b->n_linears; i++)
        if (b->linear[i].stage == stage) return b->linear[i].cols;
    return 0;
}

/* Sums the Gram matrix of the stage's input, which stands in the calibration acts. */
static enum status sum_gram(struct workspace *w, struct stream *s, const struct block *b, int stage,
                            struct err *e)
{
    enum status st = OK;
    const struct sequences *c = w->inputs->calibration;
    int64_t n = stage_cols(b, stage);
    double start = clock_seconds();
    if (!w->gram[stage]) TRY(mem_alloc(&w->gram[stage], n * n, sizeof(double), "Hessian", e));
    memset(w->gram[stage], 0, (size_t)(n * n) * sizeof(double));
    TRY(gram_add(w->gram[stage], w->calibration.in, n, c->offset, c->n, e));
    s->seconds.hessian += clock_seconds() - start;
done:
    return st;
}

static enum status note_layer(struct stream *s, const struct linear *l,
                              const struct quant_report *r, struct err *e)
{
    enum status st = OK;
    char *name = NULL;
    TRY(mem_grow(&s->layers, s->n_layers, &s->layers_capacity, sizeof *s->layers, e));
    TRY(mem_string(&name, l->name, e));
    s->layers[s->n_layers++] = (struct layer_report){name, *r};
    s->squared_distance += r->squared_distance;
    s->bits += r->bits_per_weight * (double)(l->rows * l->cols);
    s->weights += (double)(l->rows * l->cols);
done:
    return st;
}

/* Quantizes the linears of one stage into w->quantized and points `to` at the result. */
static enum status quantize_stage(struct workspace *w, struct stream *s, const struct block *b,
                                  int stage, struct block *to, struct err *e)
{
    enum status st = OK;
    struct quant_prepared *prepared = NULL;
    struct quant_input input = {.cols = stage_cols(b, stage), .gram = w->gram[stage]};
    const struct quant_options *options = &s->variant->method.options;
    bool needs = s->method->needs & NEEDS_HESSIAN;
    if (needs) {
        input.samples = w->inputs->calibration->n;
        input.tokens = w->inputs->calibration->offset[input.samples];
    }
    double start = clock_seconds();
    if (s->method->prepare) TRY(s->method->prepare(needs ? &input : NULL, options, &prepared, e));
    s->seconds.factor += clock_seconds() - start;
    float *q = w->quantized;
    for (int i = 0; i < b->n_linears; q += b->linear[i].rows * b->linear[i].cols, i++) {
        const struct linear *l = &b->linear[i];
        if (l->stage != stage) continue;
        struct quant_report report = {0};
        struct quant_job job = {.bits = s->variant->bits,
                                .options = options,
                                .rows = l->rows,
                                .cols = l->cols,
                                .w = l->w,
                                .q = q,
                                .input = needs ? &input : NULL,
                                .prepared = prepared};
        start = clock_seconds();
        st = s->method->run(&job, &report, e);
        if (st != OK) err_prefix(e, "%s", l->name);
        TRY(st);
        s->seconds.sweep += clock_seconds() - start;
        TRY(note_layer(s, l, &report, e));
        if (w->hooks->weights) TRY(w->hooks->weights(w->hooks->context, s->variant, l, q, e));
        to->linear[i].w = q;
    }
done:
    if (prepared) s->method->release(prepared);
    return st;
}

static void stage_input(struct workspace *w, struct stream *s, const struct block *b, int stage,
                        const float *x)
{
    double start = clock_seconds();
    const struct sequences *c = w->inputs->calibration;
    model_stage_input(w->model, b, stage, c, 0, c->n, x, &w->calibration);
    s->seconds.forward += clock_seconds() - start;
}

static void stage_output(struct workspace *w, struct stream *s, const struct block *b, int stage,
                         float *x)
{
    double start = clock_seconds();
    const struct sequences *c = w->inputs->calibration;
    model_stage_output(w->model, b, stage, c, 0, c->n, x, &w->calibration);
    s->seconds.forward += clock_seconds() - start;
}

/* Each stage sees the block's earlier stages quantized: one forward of the calibration sequences in
 * all. */
static enum status quantize_in_sequence(struct workspace *w, struct stream *s,
                                        const struct block *b, struct block *q, struct err *e)
{
    enum status st = OK;
    for (int stage = 0; stage < STAGE_N; stage++) {
        stage_input(w, s, q, stage, s->calibration);
        TRY(sum_gram(w, s, b, stage, e));
        TRY(quantize_stage(w, s, b, stage, q, e));
        stage_output(w, s, q, stage, s->calibration);
    }
done:
    return st;
}

/* All stages see the block in full precision; then the calibration sequences go through the
 * quantized block. */
static enum status quantize_at_once(struct workspace *w, struct stream *s, const struct block *b,
                                    struct block *q, struct err *e)
{
    enum status st = OK;
    const struct sequences *c = w->inputs->calibration;
    size_t bytes =
        (size_t)(c->offset[c->n] * model_shape(w->model)->hidden) * sizeof *s->calibration;
    memcpy(w->saved, s->calibration, bytes);
    for (int stage = 0; stage < STAGE_N; stage++) {
        stage_input(w, s, b, stage, w->saved);
        TRY(sum_gram(w, s, b, stage, e));
        stage_output(w, s, b, stage, w->saved);
    }
    for (int stage = 0; stage < STAGE_N; stage++) TRY(quantize_stage(w, s, b, stage, q, e));
    double start = clock_seconds();
    model_block_forward(w->model, q, c, s->calibration, &w->calibration);
    s->seconds.forward += clock_seconds() - start;
done:
    return st;
}

enum status quantize_block(struct workspace *w, struct stream *s, const struct block *b,
                           struct block *quantized, struct err *e)
{
    enum status st = OK;
    int64_t weights = 0;
    for (int i = 0; i < b->n_linears; i++) weights += b->linear[i].rows * b->linear[i].cols;
    if (!w->quantized)
        TRY(mem_alloc(&w->quantized, weights, sizeof *w->quantized, "quantized block", e));
    *quantized = *b;
    quantized->storage = NULL;
    if (!(s->method->needs & NEEDS_HESSIAN))
        for (int stage = 0; stage < STAGE_N; stage++)
            TRY(quantize_stage(w, s, b, stage, quantized, e));
    else if (s->variant->method.options.true_sequential)
        TRY(quantize_in_sequence(w, s, b, quantized, e));
    else
        TRY(quantize_at_once(w, s, b, quantized, e));
done:
    return st;
}
