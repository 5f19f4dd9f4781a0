#include "linalg/linalg.h"
#include "util/mem.h"
#include "visit/internal.h"
#include <stdlib.h>

/* One stage after the other needs one Hessian at a time, all at once needs room for each. */
static enum status grams_init(struct workspace *w, bool together, struct err *e)
{
    enum status st = OK;
    int64_t all = 0, most = 0;
    for (int stage = 0; stage < STAGE_N; stage++) {
        int64_t n = w->sizes.cols[stage] * w->sizes.cols[stage];
        all += n;
        if (n > most) most = n;
    }
    TRY(mem_alloc(&w->grams, together ? all : most, sizeof *w->grams, "Hessians", e));
    double *at = w->grams;
    for (int stage = 0; stage < STAGE_N; stage++) {
        w->gram[stage] = at;
        if (together) at += w->sizes.cols[stage] * w->sizes.cols[stage];
    }
done:
    return st;
}

static enum status calibration_init(struct workspace *w, const struct memory_plan *plan,
                                    bool prefix, bool together, struct err *e)
{
    enum status st = OK;
    ENSURE(w->inputs->calibration, ERR_USAGE, "calibration: a method needs it and none is given");
    TRY(ranges_cut(w->inputs->calibration, plan->range_tokens, &w->calibration, e));
    TRY(grams_init(w, together, e));
    if (!prefix) goto done;
    int64_t kept = 0;
    for (int64_t i = 0; i < w->calibration.n; i++) {
        int64_t end = w->calibration.range[i].row + w->calibration.range[i].tokens;
        if (end > plan->kept_tokens) break;
        kept = end;
        w->kept_ranges = i + 1;
    }
    TRY(mem_alloc(&w->kept, kept * w->sizes.in_width, sizeof(float), "kept activations", e));
    if (w->sizes.parallel)
        TRY(mem_alloc(&w->kept_branch, kept * w->sizes.shape.hidden, sizeof(float),
                      "kept activations", e));
done:
    return st;
}

enum status workspace_init(struct workspace *w, const struct memory_plan *plan,
                           const struct model *m, const struct visit_inputs *inputs,
                           struct stream *const *streams, int64_t n_streams,
                           const struct visit_hooks *hooks, struct err *e)
{
    enum status st = OK;
    bool calibrates = false, prefix = false, together = false;
    for (int64_t i = 0; i < n_streams; i++) {
        const struct stream *s = streams[i];
        calibrates = calibrates || s->own || s->shared;
        prefix = prefix || (s->own && s->prefix);
        together = together || s->shared || (s->own && !s->prefix);
    }
    *w = (struct workspace){.model = m, .inputs = inputs, .hooks = hooks};
    model_sizes(m, &w->sizes);
    TRY(ranges_cut(inputs->evaluation, plan->range_tokens, &w->evaluation, e));
    if (calibrates) TRY(calibration_init(w, plan, prefix, together, e));
    int64_t tokens = w->evaluation.tokens;
    if (w->calibration.tokens > tokens) tokens = w->calibration.tokens;
    TRY(model_acts_init(m, tokens, &w->acts, e));
    TRY(mem_alloc(&w->x, tokens * w->sizes.shape.hidden, sizeof *w->x, "hidden states", e));
    if (n_streams)
        TRY(mem_alloc(&w->quantized, w->sizes.linears, sizeof *w->quantized, "quantized block", e));
done:
    return st;
}

void workspace_free(struct workspace *w)
{
    quantize_forget(w);
    ranges_free(&w->evaluation);
    ranges_free(&w->calibration);
    model_acts_free(&w->acts);
    free(w->x);
    free(w->kept);
    free(w->kept_branch);
    free(w->quantized);
    free(w->grams);
    *w = (struct workspace){0};
}
