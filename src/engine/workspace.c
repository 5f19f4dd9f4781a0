/* Allocates the buffers that the streams of a wave use one after the other. */
#include "engine/visit_internal.h"
#include "util/mem.h"
#include "util/num.h"

/* Whether the stage's Gram matrix is distributed over the group for methods that support it. */
static bool is_large(const struct workspace *w, int stage)
{
    return memory_distributes(memory_distributed_from(w->options), w->group->size,
                              w->sizes.cols[stage]);
}

bool workspace_distributed(const struct workspace *w, const struct stream *s, int stage)
{
    return s->needs.statistics & WANTS(STATISTIC_GRAM) && s->needs.distributed &&
           is_large(w, stage);
}

bool workspace_whole(const struct workspace *w, const struct stream *s, int stage, int statistic)
{
    bool large = statistic_at(statistic)->add_distributed && is_large(w, stage);
    return s->needs.statistics & WANTS(statistic) && (s->needs.whole || !large);
}

struct quant_input workspace_input(const struct workspace *w, const struct stream *s, int stage)
{
    struct quant_input in = {.team = w->group->size > 1 ? &w->group->team : NULL,
                             .layer = w->original->layer,
                             .cols = w->sizes.cols[stage],
                             .samples = w->samples,
                             .tokens = w->calibration_tokens,
                             .owner = workspace_owner(w, stage)};
    for (int k = 0; k < STATISTIC_N; k++)
        if ((s->needs.scores & WANTS(k) || workspace_whole(w, s, stage, k)) &&
            (statistic_at(k)->everywhere || in.owner == w->group->rank))
            in.statistic[k] = w->sums[k][stage];
    if (workspace_distributed(w, s, stage)) in.dist = w->dist[stage];
    return in;
}

/* Numbers in the whole sums of a stage, for each statistic. */
static int64_t sums_of(const struct workspace *w, struct stream *const *streams, int64_t n,
                       int stage, int statistic)
{
    bool whole = false;
    for (int64_t i = 0; i < n; i++)
        whole = whole || streams[i]->needs.scores & WANTS(statistic) ||
                workspace_whole(w, streams[i], stage, statistic);
    return whole ? statistic_at(statistic)->count(w->sizes.cols[stage]) : 0;
}

/* Stage by stage, one buffer serves all stages; all at once, as in full precision, each stage needs
 * its own. */
static enum status sums_init(struct workspace *w, struct stream *const *streams, int64_t n,
                             bool together, struct err *e)
{
    for (int k = 0; k < STATISTIC_N; k++) {
        int64_t all = 0, largest = 0, size[STAGE_N];
        for (int stage = 0; stage < STAGE_N; stage++) {
            size[stage] = sums_of(w, streams, n, stage, k);
            all += size[stage];
            largest = max64(largest, size[stage]);
        }
        const bool each = together || statistic_at(k)->of_full;
        PASS(mem_alloc(&w->memory[k], each ? all : largest, sizeof(double), statistic_at(k)->name,
                       e));
        double *at = w->memory[k];
        for (int stage = 0; stage < STAGE_N; stage++) {
            w->sums[k][stage] = at;
            if (each) at += size[stage];
        }
    }
    return OK;
}

static enum status bounds_init(struct workspace *w, struct err *e)
{
    if (!w->options->reproducible) return OK;
    for (int stage = 0; stage < STAGE_N; stage++) {
        int64_t n = w->sizes.cols[stage];
        PASS(mem_alloc(&w->channel_max[stage], n, sizeof *w->channel_max[stage], "bounds of inputs",
                       e));
        PASS(mem_alloc(&w->bound[stage], n, sizeof *w->bound[stage], "bounds of inputs", e));
    }
    return OK;
}

/* Buffers for activations that stage-by-stage streams retain between two passes over the ranges,
 * and trials between all of a stage. */
static enum status retained_init(struct workspace *w, const struct memory_plan *plan, bool trials,
                                 struct err *e)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < w->calibration.n; i++) {
        int64_t end = w->calibration.range[i].row + w->calibration.range[i].tokens;
        if (end > plan->retained_tokens) break;
        tokens = end;
        w->retained_ranges = i + 1;
    }
    PASS(mem_alloc(&w->retained, tokens * w->sizes.in_width, sizeof(float), "retained activations",
                   e));
    if (w->sizes.parallel || trials)
        PASS(mem_alloc(&w->retained_branch, tokens * w->sizes.shape.hidden, sizeof(float),
                       "retained activations", e));
    return OK;
}

static enum status local_init(struct workspace *w, const struct run *r,
                              struct stream *const *streams, int64_t n_streams, struct err *e)
{
    const struct memory_plan *plan = &r->plan;
    bool calibrates = false, sequential = false, together = false, pairs = false, trials = false;
    bool coded = false;
    for (int64_t i = 0; i < n_streams; i++) {
        const struct quant_needs *s = &streams[i]->needs;
        calibrates = calibrates || s->own || s->shared || s->scores;
        sequential = sequential || s->sequential;
        pairs = pairs || s->pairs;
        trials = trials || s->trials;
        const struct variant *v = streams[i]->variant;
        coded = coded || (v && activation_coded(&v->method.grids.inputs));
        together = together || s->shared || (s->own && !s->sequential);
    }
    PASS(ranges_cut(w->inputs->evaluation, plan->range_tokens, &w->evaluation, e));
    PASS(score_wanted(r, &w->wanted, &w->n_wanted, e));
    if (calibrates) {
        NEED(w->inputs->calibration, ERR_USAGE, "calibration: a method needs it and none is given");
        PASS(ranges_cut(w->inputs->calibration, plan->range_tokens, &w->calibration, e));
        PASS(sums_init(w, streams, n_streams, together, e));
        PASS(bounds_init(w, e));
    }
    if (sequential || trials) PASS(retained_init(w, plan, trials, e));
    if (pairs)
        PASS(mem_alloc(&w->full_input, w->calibration.tokens * w->sizes.in_width,
                       sizeof *w->full_input, "inputs in full precision", e));
    int64_t tokens = max64(w->evaluation.tokens, w->calibration.tokens);
    PASS(model_acts_init(w->model, tokens, &w->acts, e));
    if (coded && r->context->integers) PASS(model_acts_codes(&w->acts, e));
    w->acts.products = products_of_calibration(w->acts.products);
    return mem_alloc(&w->x, tokens * w->sizes.shape.hidden, sizeof *w->x, "hidden states", e);
}

enum status workspace_init(struct workspace *w, const struct run *r, struct stream *const *streams,
                           int64_t n_streams, struct err *e)
{
    const struct sequences *c = r->inputs.calibration;
    *w = (struct workspace){
        .group = r->group,
        .options = &r->visit->run,
        .model = r->model,
        .inputs = &r->local,
        .sink = r->sink,
        .samples = c ? c->n : 0,
        .calibration_tokens = c ? c->offset[c->n] : 0,
        .calibration_all = c,
        .calibration_first = r->first_calibration,
        .full = &r->full,
        .observed = r->scored && visit_observes(r->visit) ? r : NULL,
        .longest = max64(sequences_longest(r->inputs.evaluation), c ? sequences_longest(c) : 0)};
    model_sizes(r->model, &w->sizes);
    PASS(group_agree(w->group, local_init(w, r, streams, n_streams, e), e));
    w->rounds = group_max(w->group, w->calibration.n);
    if (n_streams)
        PASS(group_memory_open(w->group, w->sizes.linears, "quantized block", &w->quantized, e));
    bool unrounded = false;
    for (int64_t i = 0; i < n_streams; i++) unrounded = unrounded || streams[i]->needs.unrounded;
    if (unrounded)
        PASS(group_memory_open(w->group, w->sizes.linears, "quantized block, scales not rounded",
                               &w->unrounded, e));
    return OK;
}

void workspace_free(struct workspace *w)
{
    quantize_end(w);
    ranges_free(&w->evaluation);
    ranges_free(&w->calibration);
    model_acts_free(&w->acts);
    free(w->wanted);
    free(w->n_wanted);
    free(w->x);
    free(w->retained);
    free(w->retained_branch);
    free(w->full_input);
    group_memory_close(&w->quantized);
    group_memory_close(&w->unrounded);
    for (int k = 0; k < STATISTIC_N; k++) free(w->memory[k]);
    for (int stage = 0; stage < STAGE_N; stage++) {
        free(w->order[stage]);
        free(w->channel_max[stage]);
        free(w->bound[stage]);
        dist_free(w->dist[stage]);
    }
    *w = (struct workspace){0};
}

/* --- ranges --- */

/* The end of the range that starts with sequence `first`. */
static int64_t range_end(const struct sequences *s, int64_t first, int64_t tokens)
{
    int64_t end = first + 1;
    while (end < s->n && s->offset[end + 1] - s->offset[first] <= tokens) end++;
    return end;
}

enum status ranges_cut(const struct sequences *s, int64_t tokens, struct ranges *out, struct err *e)
{
    CLEANUP(ranges_free) struct ranges r = {0};
    for (int64_t i = 0; i < s->n; i = range_end(s, i, tokens)) r.n++;
    PASS(mem_zero(&r.range, r.n, sizeof *r.range, "ranges of sequences", e));
    PASS(mem_zero(&r.offsets, s->n + r.n, sizeof *r.offsets, "ranges of sequences", e));
    int64_t *at = r.offsets, first = 0;
    for (int64_t k = 0; k < r.n; k++) {
        int64_t end = range_end(s, first, tokens), row = s->offset[first];
        r.range[k] = (struct range){
            .row = row,
            .tokens = s->offset[end] - row,
            .first = first,
            .view = {.n = end - first,
                     .offset = at,
                     .ids = s->ids ? s->ids + row : NULL,
                     .bytes = s->bytes ? s->bytes + row : NULL,
                     .valid = s->valid ? s->valid + first : NULL,
                     .segments = s->segments,
                     .first_segment = s->segments ? s->first_segment + first : NULL}};
        for (int64_t i = first; i <= end; i++) *at++ = s->offset[i] - row;
        if (r.range[k].tokens > r.tokens) r.tokens = r.range[k].tokens;
        first = end;
    }
    *out = r;
    r = (struct ranges){0};
    return OK;
}

void ranges_expect(const struct ranges *r, int64_t i, const struct states *s)
{
    if (i < r->n) states_expect(s, r->range[i].row, r->range[i].tokens);
}

void ranges_free(struct ranges *r)
{
    free(r->range);
    free(r->offsets);
    *r = (struct ranges){0};
}
