/* Scores all streams of a wave together, range by range. */
#include "engine/stored.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/num.h"

/* The streams to score: full precision first, then those of the wave that have not failed and whose
 * cells have no record yet; last those with a head of their own. */
struct score_batch {
    int64_t n, n_plain;
    struct stream **stream; // (n)
    struct scores *part;    // (n) views of the scores of the current range
    const float **x;        // (n) hidden states of the current range
    float *buffer;          // (n, range, C) for states that are not in memory
};

static void batch_free(struct score_batch *b)
{
    free(b->stream);
    free(b->part);
    free(b->x);
    free(b->buffer);
}

static bool own_head(const struct stream *s)
{
    return s->stored || s->turned;
}

static enum status batch_init(struct score_batch *b, struct run *r, struct stream *const *streams,
                              int64_t n, int64_t tokens, struct err *e)
{
    const int64_t units = r->inputs.first_unit[r->inputs.evaluation->n];
    PASS(mem_zero(&b->stream, 1 + n, sizeof *b->stream, "streams", e));
    PASS(mem_zero(&b->part, 1 + n, sizeof *b->part, "scores", e));
    PASS(mem_zero(&b->x, 1 + n, sizeof *b->x, "streams", e));
    b->stream[b->n++] = &r->full;
    for (int own = 0; own < 2; own++) {
        for (int64_t i = 0; i < n; i++)
            if (streams[i]->st == OK && streams[i]->evaluation && own_head(streams[i]) == own)
                b->stream[b->n++] = streams[i];
        if (!own) b->n_plain = b->n;
    }
    for (int64_t i = 0; i < b->n; i++)
        if (!b->stream[i]->scores.sum) PASS(scores_init(&b->stream[i]->scores, units, e));
    if (!states_in_place(r->full.evaluation))
        PASS(mem_alloc(&b->buffer, b->n * tokens * model_shape(r->model)->hidden, sizeof *b->buffer,
                       "hidden states", e));
    return OK;
}

/* *out (*n; the caller frees) = the spans of a range: all tokens of texts but the first of each
 * sequence, and what the requests of tasks ask for. Units are counted from the range's first. */
static enum status range_spans(const struct run *r, const struct range *at, struct span **out,
                               int64_t *n, struct err *e)
{
    const struct visit_inputs *in = &r->inputs;
    const struct requests *q = in->requests;
    const int64_t first = r->first + at->first, end = first + at->view.n;
    const int64_t texts = max64(0, min64(end, in->texts) - first);
    int64_t from = max64(first - in->texts, 0), to = max64(end - in->texts, 0), more = 0;
    if (q) more = q->first_span[to] - q->first_span[from];
    PASS(mem_alloc(out, texts + more, sizeof **out, "spans", e));
    for (*n = 0; *n < texts; ++*n) (*out)[*n] = head_text_span(&at->view, *n);
    for (int64_t i = from; q && i < to; i++)
        for (int64_t k = q->first_span[i]; k < q->first_span[i + 1]; k++) {
            struct span s = q->spans[k];
            s.row += at->view.offset[in->texts + i - first] - q->sequences.offset[i];
            s.unit += in->texts - in->first_unit[first];
            s.sequence = in->texts + i - first;
            (*out)[(*n)++] = s;
        }
    return OK;
}

enum status score_wanted(const struct run *r, bool **wanted, int64_t **before, struct err *e)
{
    const struct sequences *s = r->local.evaluation;
    const struct range all = {.view = *s, .tokens = s->offset[s->n]};
    AUTO_FREE struct span *spans = NULL;
    int64_t n = 0;
    *wanted = NULL;
    *before = NULL;
    if (!r->inputs.requests || r->hooks->hidden) return OK;
    PASS(mem_zero(wanted, all.tokens, sizeof **wanted, "tokens that are scored", e));
    PASS(mem_zero(before, s->n + 1, sizeof **before, "tokens that are scored", e));
    PASS(range_spans(r, &all, &spans, &n, e));
    for (int64_t i = 0; i < n; i++)
        memset(*wanted + spans[i].row, true, (size_t)spans[i].n * sizeof **wanted);
    for (int64_t i = 0; i < s->n; i++) {
        (*before)[i + 1] = (*before)[i];
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++) (*before)[i + 1] += (*wanted)[t];
    }
    return OK;
}

static enum status score_range(const struct run *r, struct score_batch *b,
                               const struct ranges *ranges, int64_t k, struct err *e)
{
    const struct range *at = &ranges->range[k];
    AUTO_FREE struct span *spans = NULL;
    int64_t n, size = at->tokens * model_shape(r->model)->hidden;
    const int64_t *unit = r->inputs.first_unit + r->first + at->first;
    PASS(range_spans(r, at, &spans, &n, e));
    for (int64_t i = 0; i < b->n; i++) {
        float *x, *buffer = b->buffer ? b->buffer + i * size : NULL;
        PASS(states_take(b->stream[i]->evaluation, at->row, at->tokens, buffer, &x, e));
        b->x[i] = x;
        b->part[i] = scores_part(&b->stream[i]->scores, unit[0], unit[at->view.n]);
    }
    for (int64_t i = 0; i < b->n; i++) ranges_expect(ranges, k + 1, b->stream[i]->evaluation);
    PASS(head_score(r->model, spans, n, b->x, b->n_plain, b->part, e));
    for (int64_t i = b->n_plain; i < b->n; i++) {
        struct scores both[] = {b->part[0], b->part[i]};
        PASS(head_compare((const struct model *const[]){r->model, stream_model(r, b->stream[i])},
                          spans, n, (const float *const[]){b->x[0], b->x[i]}, both, e));
    }
    return OK;
}

/* Scores this rank's sequences. */
static enum status score_own(struct run *r, struct score_batch *b, struct ranges *ranges,
                             struct stream *const *streams, int64_t n, struct err *e)
{
    /* If the states are in memory, ranges would save nothing. */
    int64_t tokens = states_in_place(r->full.evaluation) ? INT64_MAX : r->plan.range_tokens;
    PASS(ranges_cut(r->local.evaluation, tokens, ranges, e));
    PASS(batch_init(b, r, streams, n, ranges->tokens, e));
    for (int64_t i = 0; i < ranges->n; i++) PASS(score_range(r, b, ranges, i, e));
    return OK;
}

enum status score_streams(struct run *r, struct stream *const *streams, int64_t n, struct err *e)
{
    CLEANUP(batch_free) struct score_batch b = {0};
    CLEANUP(ranges_free) struct ranges ranges = {0};
    double start = clock_seconds();
    PASS(group_agree(r->group, score_own(r, &b, &ranges, streams, n, e), e));
    for (int64_t i = 0; i < b.n; i++)
        PASS(group_gather(r->group, r->inputs.evaluation, r->inputs.first_unit, metrics_sums(),
                          b.stream[i]->scores.sum, e));
    r->seconds_head += clock_seconds() - start;
    return OK;
}
