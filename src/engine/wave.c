/* Runs a wave: a batch of variants through all blocks and the head, together with the
 * full-precision stream, whose final hidden states are retained for later waves. */
#include "engine/block_reader.h"
#include "engine/part_saved.h"
#include "engine/stored.h"
#include "model/rotated.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>

/* Embeds the sequences into new states, with m's embedding. */
static enum status embed(const struct run *r, const struct model *m, const struct sequences *s,
                         const char *what, struct states **out, struct err *e)
{
    int64_t C = model_shape(m)->hidden;
    CLEANUP(ranges_free) struct ranges ranges = {0};
    AUTO_FREE float *buffer = NULL;
    float *x;
    PASS(states_open(&r->plan.place, s->offset[s->n], C, what, out, e));
    PASS(ranges_cut(s, r->plan.range_tokens, &ranges, e));
    PASS(mem_alloc(&buffer, ranges.tokens * C, sizeof *buffer, what, e));
    for (int64_t i = 0; i < ranges.n; i++) {
        const struct range *at = &ranges.range[i];
        PASS(states_take(*out, at->row, at->tokens, buffer, &x, e));
        PASS(model_embed(m, &at->view, x, e));
        PASS(states_put(*out, at->row, at->tokens, x, e));
    }
    return OK;
}

/* All streams start from the same embeddings, but for stored and rotated variants. The
 * full-precision stream runs the evaluation sequences once, and the calibration sequences in each
 * wave with variants that share its statistics. */
static enum status start_streams(struct run *r, struct stream *const *streams, int64_t n,
                                 bool first, struct err *e)
{
    const struct sequences *eval = r->local.evaluation, *cal = r->local.calibration;
    for (int64_t i = 0; i < n; i++) {
        const struct quant_needs *needs = &streams[i]->needs;
        NEED(cal || !(needs->own || needs->shared || needs->scores), ERR_USAGE,
             "calibration: %s needs it and none is given", streams[i]->method->name);
    }
    if (first) PASS(embed(r, r->model, eval, "evaluation states", &r->full.evaluation, e));
    if (r->full.needs.shared)
        PASS(embed(r, r->model, cal, "calibration states", &r->full.calibration, e));
    for (int64_t i = 0; i < n; i++) {
        const struct model *own = streams[i]->st == OK ? stream_model(r, streams[i]) : r->model;
        if (stream_is_scored(streams[i]))
            PASS(embed(r, own, eval, "evaluation states", &streams[i]->evaluation, e));
        if (streams[i]->needs.own)
            PASS(embed(r, own, cal, "calibration states", &streams[i]->calibration, e));
    }
    return OK;
}

static double squared_norm(const struct block *b)
{
    double sum = 0;
    for (int i = 0; i < b->n_linears; i++) {
        const struct linear *l = &b->linear[i];
        for (int64_t row = 0; row < l->rows; row++) {
            double part = 0;
            for (int64_t j = 0; j < l->cols; j++) {
                double w = l->w[row * l->cols + j];
                part += w * w;
            }
            sum += part;
        }
    }
    return sum;
}

static enum status pass_full(struct run *r, struct workspace *w, const struct block *b, bool first,
                             struct err *e)
{
    enum status st = OK;
    if (first) {
        r->weight_norm += squared_norm(b);
        st = forward_block(w, &r->full, b, r->full.evaluation, &w->evaluation, e);
    }
    PASS(group_agree(r->group, st, e));
    if (first && w->observed) PASS(observe_end(w, b, e));
    /* Trials and pairs need the block's input. */
    if (r->full.calibration && (r->full.needs.statistics || !r->full.needs.trials))
        PASS(calibrate_block(w, &r->full, b, !r->full.needs.trials, e));
    return OK;
}

static enum status pass_stream(struct workspace *w, struct stream *s, const struct block *b,
                               struct err *e)
{
    struct block quantized, turned = {0}, seen;
    if (s->st != OK) return OK;
    if (s->turned) {
        s->st = group_agree(w->group, model_block_rotate(s->turned, b, &turned, &s->err), &s->err);
        b = &turned;
    }
    seen = *b;
    if (s->variant->method.grids.inputs.calibrated) seen.grids = &s->variant->method.grids;
    if (s->st == OK)
        s->st = s->stored ? stored_block(w, s, &seen, &quantized, &s->err)
                          : quantize_block(w, s, &seen, &quantized, &s->err);
    quantized.grids = &s->variant->method.grids;
    if (s->st == OK && s->evaluation)
        s->st = forward_block(w, s, &quantized, s->evaluation, &w->evaluation, &s->err);
    if (s->stored) model_block_free(&s->stored->block);
    model_block_free(&turned);
    s->st = group_agree(w->group, s->st, &s->err);
    if (s->st == ERR_FULL || s->st == ERR_IO) RAISE(s->st, "%s", s->err.text);
    if (s->st != OK) return OK;
    log_trace("visit", "block %lld %s %lld bits: forward %.3f hessian %.3f factor %.3f sweep %.3f",
              (long long)b->layer, s->variant->method.name, (long long)s->variant->bits,
              s->seconds.forward, s->seconds.hessian, s->seconds.factor, s->seconds.sweep);
    return OK;
}

double wave_share_of_full(const struct wave *v)
{
    const struct run *r = v->run;
    return (v->full ? r->full.share : 0) + r->share_statistics / (double)r->waves;
}

/* What a block takes first of a stream; NULL: nothing. */
static struct states *first_states(const struct wave *v, const struct stream *s)
{
    if (s == &v->run->full) return v->full ? s->evaluation : s->calibration;
    return s->calibration ? s->calibration : s->evaluation;
}

/* Sets what is taken first after stream i of the wave, or after full precision (-1). After the last
 * stream the next block begins. */
static void set_next(const struct wave *v, int64_t i)
{
    struct workspace *w = v->w;
    w->next = NULL;
    for (int64_t k = 1; k <= v->n + 1 && !w->next; k++) {
        const int64_t at = (i + 1 + k) % (v->n + 1) - 1;
        const struct stream *s = at < 0 ? &v->run->full : v->streams[at];
        if (s->st != OK) continue;
        w->next = first_states(v, s);
        w->next_ranges = w->next == s->evaluation ? &w->evaluation : &w->calibration;
    }
}

/* Saves the state if it is time; ERR_STOPPED: the visit is to be dropped. */
static enum status pause_here(const struct wave *v, struct err *e)
{
    const struct visit_hooks *hooks = v->run->hooks;
    if (v->layer > 0 || v->passed > 0) PASS(saved_point(v->saved, e));
    NEED(!hooks->should_stop || !hooks->should_stop(hooks->context), ERR_STOPPED,
         "stopped in block %lld", (long long)v->layer);
    return OK;
}

/* Whether a stream that has not passed the block needs the full-precision stream's statistics. */
static bool shares_later(const struct wave *v)
{
    for (int64_t i = v->passed; i < v->n; i++)
        if (v->streams[i]->needs.shared) return true;
    return false;
}

/* Whether a later run can go on after the streams that are through the block. Of the statistics
 * only scores are in the state: it sums others again, if the calibration states still wait before
 * the block. */
static bool can_pause(const struct wave *v)
{
    if (shares_later(v) && !v->run->full.needs.trials) return false;
    return v->passed > 0 && v->passed < v->n;
}

/* All streams of the wave through one block, but those that have passed it. */
static enum status pass_block(struct wave *v, const struct block *b, struct err *e)
{
    struct run *r = v->run;
    struct workspace *w = v->w;
    const double layers = (double)v->layers;
    if (v->passed == 0) {
        set_next(v, -1);
        PASS(pass_full(r, w, b, v->full, e));
        pace_step(r->pace, wave_share_of_full(v) / layers);
    } else if (shares_later(v)) {
        PASS(pass_full(r, w, b, false, e));
    }
    while (v->passed < v->n) {
        struct stream *s = v->streams[v->passed];
        set_next(v, v->passed);
        PASS(pass_stream(w, s, b, e));
        if (s->st == OK)
            pace_step(r->pace, s->share / layers);
        else
            pace_skip(r->pace, s->share / layers);
        v->passed++;
        if (can_pause(v)) PASS(pause_here(v, e));
    }
    v->passed = 0;
    quantize_forget(w);
    if (!r->full.needs.trials) return OK;
    return group_agree(r->group,
                       forward_block(w, &r->full, b, r->full.calibration, &w->calibration, e), e);
}

static enum status pass_blocks(struct wave *v, struct err *e)
{
    CLEANUP(block_reader_close_at) struct block_reader *reader = NULL;
    struct run *r = v->run;
    PASS(block_reader_open(r->group, r->model, r->plan.ahead, v->layer, &reader, e));
    for (; v->layer < v->layers; v->layer++) {
        const struct block *b;
        PASS(pause_here(v, e));
        PASS(block_reader_get(reader, v->layer, v->layer + 1, &b, e));
        PASS(block_reader_prepare(reader, e));
        PASS(pass_block(v, b, e));
    }
    PASS(saved_point(v->saved, e));
    r->seconds_read += block_reader_seconds(reader);
    if (v->full) r->weight_norm = sqrt(r->weight_norm);
    return OK;
}

/* Frees the calibration states before the head. */
static void drop_calibration(struct run *r, struct stream *const *streams, int64_t n)
{
    states_close(r->full.calibration);
    r->full.calibration = NULL;
    for (int64_t i = 0; i < n; i++) {
        states_close(streams[i]->calibration);
        streams[i]->calibration = NULL;
    }
}

/* The full-precision stream gets what the variants need of it; for pairs it has calibration states
 * too, which wait before the block. */
static void share_needs(struct run *r, struct stream *const *streams, int64_t n)
{
    r->full.needs = (struct quant_needs){0};
    for (int64_t i = 0; i < n; i++) quant_needs_share(&r->full.needs, &streams[i]->needs);
    for (int64_t i = 0; i < n; i++)
        if (streams[i]->needs.pairs) r->full.needs.shared = r->full.needs.trials = true;
}

/* Reading and the head serve all streams of the wave at once: each gets its share of the seconds
 * since then. */
static void share_seconds(const struct run *r, struct stream *const *streams, int64_t n, bool first,
                          double read, double head)
{
    const double sharing = (double)n + first;
    for (int64_t i = 0; i < n; i++) {
        streams[i]->seconds.read = (r->seconds_read - read) / sharing;
        streams[i]->seconds.head = (r->seconds_head - head) / sharing;
    }
}

/* Passes the final full-precision hidden states to the hook, if there is one: before the records,
 * so that a failure is one of the checkpoint. */
static enum status give_hidden(struct run *r, struct err *e)
{
    const struct sequences *s = r->inputs.evaluation;
    int64_t tokens = s->offset[s->n];
    AUTO_FREE float *buffer = NULL;
    float *x;
    if (!r->hooks->hidden) return OK;
    NEED(r->group->size == 1, ERR_USAGE, "hidden states are given by a single rank only");
    if (!states_in_place(r->full.evaluation))
        PASS(mem_alloc(&buffer, tokens * model_shape(r->model)->hidden, sizeof *buffer,
                       "hidden states", e));
    PASS(states_take(r->full.evaluation, 0, tokens, buffer, &x, e));
    return r->hooks->hidden(r->hooks->context, r->model, s, x, e);
}

/* Passes what the full-precision model gives to the tasks' requests to the hook. */
static enum status give_answers(struct run *r, struct err *e)
{
    const struct answers answers = streams_answers(r, &r->full);
    return r->hooks->answers(r->hooks->context, r->inputs.requests, &answers, e);
}

enum status wave_run(struct run *r, struct stream *const *streams, int64_t n, bool first,
                     struct err *e)
{
    enum status st = OK;
    struct workspace w = {0};
    struct wave v = {.run = r,
                     .w = &w,
                     .streams = streams,
                     .n = n,
                     .first = first,
                     .full = first,
                     .layers = model_shape(r->model)->layers};
    const double read = r->seconds_read, head = r->seconds_head;
    share_needs(r, streams, n);
    TRY(group_agree(r->group, start_streams(r, streams, n, first, e), e));
    TRY(workspace_init(&w, r, streams, n, e));
    TRY(wave_resume(&v, e));
    TRY(pass_blocks(&v, e));
    workspace_free(&w);
    drop_calibration(r, streams, n);
    TRY(score_streams(r, streams, n, e));
    pace_step(r->pace, (double)(n + first) * r->share_head);
    for (int64_t i = 0; i < n; i++) {
        states_close(streams[i]->evaluation);
        streams[i]->evaluation = NULL;
    }
    share_seconds(r, streams, n, first, read, head);
    if (first) TRY(give_hidden(r, e));
    if (first && r->hooks->answers && r->inputs.requests) TRY(give_answers(r, e));
    if (r->scored) TRY(r->scored(r->context, streams, n, first, e));
done:
    saved_leave(v.saved, &v.level);
    part_saved_end(r->context, v.saved, st);
    workspace_free(&w);
    return st;
}
