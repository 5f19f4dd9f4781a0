/* The head: all streams of a wave are scored together, range by range. */
#include "util/clock.h"
#include "util/mem.h"
#include "visit/visit_internal.h"
#include <stdlib.h>

/* Sequences [first, last) of s and of its scores, as views. */
static struct sequences part_of(const struct sequences *s, int64_t first, int64_t last)
{
    return (struct sequences){
        .n = last - first, .offset = s->offset + first, .ids = s->ids, .bytes = s->bytes};
}

static struct scores scores_part(const struct scores *s, int64_t first, int64_t last)
{
    return (struct scores){
        .n = last - first, .nll = s->nll + first, .kl = s->kl + first, .top1 = s->top1 + first};
}

static enum status summarise(struct run *r, const struct scores *full, const struct scores *scores,
                             const int64_t *alive, int64_t n_alive, struct err *e)
{
    enum status st = OK;
    int64_t datasets = r->visit->n_evaluations;
    for (int64_t d = 0; d < datasets; d++) {
        int64_t first = r->inputs.first[d], last = r->inputs.first[d + 1];
        const struct sequences s = part_of(r->inputs.evaluation, first, last);
        struct scores part = scores_part(full, first, last);
        if (!r->full_summaries[d].sequence_loss)
            TRY(loss_summarise(&s, &part, &r->full_summaries[d], e));
        for (int64_t i = 0; i < n_alive; i++) {
            int64_t cell = alive[i] * datasets + d;
            part = scores_part(&scores[i], first, last);
            TRY(loss_summarise(&s, &part, &r->summaries[cell], e));
            paired_summarise(&r->full_summaries[d], &r->summaries[cell], &part, &r->paired[cell]);
        }
    }
done:
    return st;
}

/* What stands at the head: the full-precision stream and those of the wave that got there. */
struct lineup {
    int64_t n;
    int64_t *alive;        // (n) number of the variant in the visit
    struct states **state; // (n)
    struct scores full;
    struct scores *scores; // (n)
    struct scores *part;   // (n) of the range in hand
    float *buffer;         // (1 + n, range, C) for states that are not in memory
    const float **x;       // (n) of the range in hand
};

static void lineup_free(struct lineup *l)
{
    scores_free(&l->full);
    for (int64_t i = 0; l->scores && i < l->n; i++) scores_free(&l->scores[i]);
    free(l->alive);
    free(l->state);
    free(l->scores);
    free(l->part);
    free(l->buffer);
    free(l->x);
}

static enum status lineup_init(struct lineup *l, const struct run *r, struct stream *const *streams,
                               int64_t n, int64_t tokens, struct err *e)
{
    enum status st = OK;
    int64_t sequences = r->inputs.evaluation->n; /* of all ranks */
    TRY(mem_zero(&l->scores, n, sizeof *l->scores, "scores", e));
    TRY(mem_zero(&l->part, n, sizeof *l->part, "scores", e));
    TRY(mem_zero(&l->x, n, sizeof *l->x, "streams", e));
    TRY(mem_zero(&l->state, n, sizeof *l->state, "streams", e));
    TRY(mem_zero(&l->alive, n, sizeof *l->alive, "streams", e));
    TRY(scores_init(&l->full, sequences, e));
    for (int64_t i = 0; i < n; i++) {
        if (streams[i]->st != OK) continue;
        TRY(scores_init(&l->scores[l->n], sequences, e));
        l->alive[l->n] = streams[i] - r->streams;
        l->state[l->n++] = streams[i]->evaluation;
    }
    if (!states_in_place(r->full.evaluation))
        TRY(mem_alloc(&l->buffer, (1 + l->n) * tokens * model_shape(r->model)->hidden,
                      sizeof *l->buffer, "hidden states", e));
done:
    return st;
}

static enum status score_range(const struct run *r, struct lineup *l, const struct range *at,
                               struct err *e)
{
    enum status st = OK;
    int64_t size = at->tokens * model_shape(r->model)->hidden;
    int64_t first = r->first + at->first, end = first + at->view.n;
    struct scores full = scores_part(&l->full, first, end);
    float *x, *full_x, *buffer = l->buffer;
    TRY(states_take(r->full.evaluation, at->row, at->tokens, buffer, &full_x, e));
    for (int64_t i = 0; i < l->n; i++) {
        if (buffer) buffer += size;
        TRY(states_take(l->state[i], at->row, at->tokens, buffer, &x, e));
        l->x[i] = x;
        l->part[i] = scores_part(&l->scores[i], first, end);
    }
    TRY(head_score(r->model, &at->view, full_x, l->x, l->n, &full, l->part, e));
done:
    return st;
}

/* Everybody's scores on every rank. */
static enum status scores_gather(const struct run *r, struct scores *s, struct err *e)
{
    enum status st = OK;
    double *top1 = NULL;
    if (r->group->size == 1) return OK;
    const struct sequences *all = r->inputs.evaluation;
    TRY(group_agree(r->group, mem_alloc(&top1, s->n, sizeof *top1, "scores", e), e));
    for (int64_t i = 0; i < s->n; i++) top1[i] = (double)s->top1[i]; /* counts: exact */
    TRY(group_gather(r->group, all, s->nll, e));
    TRY(group_gather(r->group, all, s->kl, e));
    TRY(group_gather(r->group, all, top1, e));
    for (int64_t i = 0; i < s->n; i++) s->top1[i] = (int64_t)top1[i];
done:
    free(top1);
    return st;
}

static enum status score_own(struct run *r, struct lineup *l, struct ranges *ranges,
                             struct stream *const *streams, int64_t n, struct err *e)
{
    enum status st = OK;
    /* In memory there is nothing to gain from ranges. */
    int64_t tokens = states_in_place(r->full.evaluation) ? INT64_MAX : r->plan.range_tokens;
    TRY(ranges_cut(r->own.evaluation, tokens, ranges, e));
    TRY(lineup_init(l, r, streams, n, ranges->tokens, e));
    for (int64_t i = 0; i < ranges->n; i++) TRY(score_range(r, l, &ranges->range[i], e));
done:
    return st;
}

enum status score_streams(struct run *r, struct stream *const *streams, int64_t n, struct err *e)
{
    enum status st = OK;
    struct lineup l = {0};
    struct ranges ranges = {0};
    double start = clock_seconds();
    TRY(group_agree(r->group, score_own(r, &l, &ranges, streams, n, e), e));
    TRY(scores_gather(r, &l.full, e));
    for (int64_t i = 0; i < l.n; i++) TRY(scores_gather(r, &l.scores[i], e));
    TRY(summarise(r, &l.full, l.scores, l.alive, l.n, e));
    r->seconds_head += clock_seconds() - start;
done:
    ranges_free(&ranges);
    lineup_free(&l);
    return st;
}
