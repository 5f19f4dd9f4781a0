/* Runs calibration sequences through a block, range by range. A stage is quantized between two
 * passes over the ranges; the hidden states are then the input of the attention or of the MLP. The
 * inputs of STAGE_O and STAGE_DOWN, which two passes need, are retained for as many ranges as the
 * memory plan allows and computed again for the others, with the same result. */
#include "engine/visit_internal.h"
#include "math/linalg.h"
#include "util/clock.h"
#include <string.h>

static const struct range *range_at(const struct workspace *w, int64_t i)
{
    return &w->calibration.range[i];
}

static void stage_input(struct workspace *w, const struct range *r, const struct block *b,
                        int stage, const float *x)
{
    model_stage_input(w->model, b, stage, &r->view, 0, r->view.n, x, &w->acts);
}

static void stage_output(struct workspace *w, const struct range *r, const struct block *b,
                         int stage, float *x)
{
    model_stage_output(w->model, b, stage, &r->view, 0, r->view.n, x, &w->acts);
}

/* Called when range i of a pass over s's states has been taken: announces what is taken next, range
 * i + 1, or after the pass its first range if another pass follows, else what follows the pass. */
static void expect_next(const struct workspace *w, const struct stream *s,
                        const struct states *states, int64_t i, bool again)
{
    const struct ranges *ranges = states == s->evaluation ? &w->evaluation : &w->calibration;
    /* A variant's calibration states go first, full precision's evaluation states. */
    const struct states *second = s == w->full ? s->calibration : s->evaluation;
    if (i + 1 < ranges->n)
        ranges_expect(ranges, i + 1, states);
    else if (again)
        ranges_expect(ranges, 0, states);
    else if (second && states != second)
        ranges_expect(s == w->full ? &w->calibration : &w->evaluation, 0, second);
    else if (w->next)
        ranges_expect(w->next_ranges, 0, w->next);
}

void workspace_pass_to(struct workspace *w, const struct range *r, const struct block *b, int from,
                       int stage, float *x)
{
    for (int k = from; k < stage; k++) {
        stage_input(w, r, b, k, x);
        stage_output(w, r, b, k, x);
    }
    stage_input(w, r, b, stage, x);
}

/* Computes the stage's input from x, the input of the half of the block (attention or MLP) that has
 * the stage. */
static void make_input(struct workspace *w, const struct range *r, const struct block *b, int stage,
                       float *x)
{
    workspace_pass_to(w, r, b, stage < STAGE_UP ? STAGE_QKV : STAGE_UP, stage, x);
}

/* Points the acts to the range's retained buffers, if it has any; returns the buffers before. */
struct own_buffers {
    float *in, *branch;
};

static struct own_buffers buffers_enter(struct workspace *w, int64_t range)
{
    struct own_buffers before = {w->acts.in, w->acts.branch};
    if (range >= w->retained_ranges) return before;
    int64_t row = range_at(w, range)->row;
    w->acts.in = w->retained + row * w->sizes.in_width;
    if (w->sizes.parallel) w->acts.branch = w->retained_branch + row * w->sizes.shape.hidden;
    return before;
}

static void buffers_leave(struct workspace *w, struct own_buffers before)
{
    w->acts.in = before.in;
    w->acts.branch = before.branch;
}

/* Runs STAGE_O or STAGE_DOWN, which completes a half of the block. */
static void end_half(struct workspace *w, int64_t range, const struct block *b, int stage, float *x)
{
    const struct range *r = range_at(w, range);
    bool kept = range < w->retained_ranges;
    struct own_buffers before = buffers_enter(w, range);
    if (!kept && stage == STAGE_DOWN &&
        w->sizes.parallel) { /* compute the attention's output again */
        make_input(w, r, b, STAGE_O, x);
        stage_output(w, r, b, STAGE_O, x);
    }
    if (!kept) make_input(w, r, b, stage, x);
    stage_output(w, r, b, stage, x);
    buffers_leave(w, before);
}

/* --- sums over all ranks --- */

static enum status clear_sums(struct workspace *w, const struct stream *s, int stage, struct err *e)
{
    int64_t n = w->sizes.cols[stage];
    for (int k = 0; k < STATISTIC_N; k++)
        if (workspace_whole(w, s, stage, k))
            memset(w->sums[k][stage], 0, (size_t)statistic_at(k)->count(n) * sizeof(double));
    if (!workspace_distributed(w, s, stage)) return OK;
    dist_free(w->dist[stage]);
    w->dist[stage] = NULL;
    return dist_make(w->group->comm, n, (struct dist_shape){0}, &w->dist[stage], e);
}

/* Position of the range's first token in the calibration text of all ranks. */
static int64_t first_token(const struct workspace *w, const struct range *r)
{
    return w->calibration_all->offset[w->calibration_first + r->first];
}

/* Adds the range's stage input, which is in the acts, to the statistics that the stream needs; r
 * NULL: this rank has no range left. made: status of computing the input. Collective if the stage's
 * Gram matrix is distributed: every rank passes one range per call. */
static enum status add_sums(struct workspace *w, struct stream *s, const struct range *r, int stage,
                            enum status made, struct err *e)
{
    static const int64_t nothing[1] = {0};
    double start = clock_seconds();
    enum status st = made;
    const struct statistic_range range = {.x = w->acts.in,
                                          .cols = w->sizes.cols[stage],
                                          .offset = r ? r->view.offset : nothing,
                                          .n = r ? r->view.n : 0,
                                          .bound = w->bound[stage],
                                          .change = s->needs.pairs ? w->full_input : NULL,
                                          .tokens = w->calibration_tokens,
                                          .first = r ? first_token(w, r) : 0,
                                          .products = w->acts.products};
    for (int k = 0; k < STATISTIC_N && st == OK; k++)
        if (workspace_whole(w, s, stage, k))
            st = statistic_at(k)->add(w->sums[k][stage], &range, e);
    if (workspace_distributed(w, s, stage)) {
        st = group_agree(w->group, st, e);
        if (st == OK) st = statistic_gram.add_distributed(w->dist[stage], &range, e);
    }
    s->seconds.hessian += clock_seconds() - start;
    return st;
}

/* Reduces the sums over the ranks when all ranges are added. */
static enum status reduce_sums(struct workspace *w, struct stream *s, int stage, struct err *e)
{
    enum status st = OK;
    double start = clock_seconds();
    for (int k = 0; k < STATISTIC_N && st == OK; k++)
        if (workspace_whole(w, s, stage, k))
            st = statistic_reduce(statistic_at(k), w->group->comm, workspace_owner(w, stage),
                                  w->sums[k][stage], w->sizes.cols[stage], e);
    s->seconds.hessian += clock_seconds() - start;
    return st;
}

/* --- reproducible sums: the largest inputs of each channel, over all ranks --- */

static bool needs_bounds(const struct workspace *w, const struct stream *s)
{
    bool bounded = false;
    for (int k = 0; k < STATISTIC_N; k++)
        bounded = bounded || (s->needs.statistics & WANTS(k) && statistic_at(k)->bounded);
    return bounded && w->options->reproducible;
}

static void clear_most(struct workspace *w, int stage)
{
    memset(w->channel_max[stage], 0, (size_t)w->sizes.cols[stage] * sizeof *w->channel_max[stage]);
}

static void raise_most(struct workspace *w, const struct range *r, int stage, bool pairs)
{
    int64_t n = w->sizes.cols[stage];
    gram_bound_raise(w->channel_max[stage], w->acts.in, n, r->tokens);
    if (pairs) gram_bound_raise(w->channel_max[stage], w->full_input, n, r->tokens);
}

static enum status agree_bound(struct workspace *w, int stage, struct err *e)
{
    int n = (int)w->sizes.cols[stage];
    if (w->group->size > 1)
        NEED(MPI_Allreduce(MPI_IN_PLACE, w->channel_max[stage], n, MPI_FLOAT, MPI_MAX,
                           w->group->comm) == MPI_SUCCESS,
             ERR_MPI, "MPI_Allreduce failed");
    gram_bound_make(w->bound[stage], w->channel_max[stage], n, w->calibration_tokens);
    return OK;
}

/* --- one stage at a time --- */

/* With a parallel residual STAGE_O's output does not change the states; it is only computed here
 * for ranges that retain it. */
static bool attention_ends(const struct workspace *w, int64_t range, int stage)
{
    return stage == STAGE_UP && (!w->sizes.parallel || range < w->retained_ranges);
}

/* Advances the range's states to the input of the stage's half of the block, if necessary. */
static enum status advance_range(struct workspace *w, struct stream *s, const struct block *b,
                                 int stage, int64_t range, struct err *e)
{
    const struct range *r = range_at(w, range);
    float *x;
    if (!attention_ends(w, range, stage)) return OK;
    PASS(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
    expect_next(w, s, s->calibration, range, true);
    end_half(w, range, b, STAGE_O, x);
    return states_put(s->calibration, r->row, r->tokens, x, e);
}

/* w->full_input = the input of the stage in full precision. */
static enum status make_full_input(struct workspace *w, int64_t range, int stage, struct err *e)
{
    const struct range *r = range_at(w, range);
    size_t numbers = (size_t)(r->tokens * w->sizes.cols[stage]);
    PASS(states_copy(w->full->calibration, r->row, r->tokens, w->x, e));
    ranges_expect(&w->calibration, (range + 1) % w->calibration.n, w->full->calibration);
    workspace_pass_to(w, r, w->original, 0, stage, w->x);
    memcpy(w->full_input, w->acts.in, numbers * sizeof *w->full_input);
    return OK;
}

/* Subtracts the variant's own input, which is in the acts. */
static void subtract_input(struct workspace *w, const struct range *r, int stage)
{
    int64_t n = w->sizes.cols[stage];
#pragma omp parallel for
    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t j = t * n; j < (t + 1) * n; j++) w->full_input[j] -= w->acts.in[j];
}

/* Computes the stage's input in the acts; before: the buffers to restore afterwards. */
static enum status range_input(struct workspace *w, struct stream *s, const struct block *b,
                               int stage, int64_t range, struct own_buffers *before, struct err *e)
{
    const struct range *r = range_at(w, range);
    bool outlives = stage == STAGE_O || stage == STAGE_DOWN;
    float *x;
    *before = (struct own_buffers){w->acts.in, w->acts.branch};
    if (s->needs.pairs) PASS(make_full_input(w, range, stage, e));
    *before = buffers_enter(w, outlives ? range : w->calibration.n);
    /* Stored states may have been rounded: read them back, so that the MLP sees the same values
     * later. */
    PASS(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
    expect_next(w, s, s->calibration, range, true);
    make_input(w, r, b, stage, x);
    if (s->needs.pairs) subtract_input(w, r, stage);
    return OK;
}

static enum status bound_stage(struct workspace *w, struct stream *s, const struct block *b,
                               int stage, struct err *e)
{
    enum status st = OK;
    struct own_buffers before;
    clear_most(w, stage);
    for (int64_t i = 0; st == OK && i < w->calibration.n; i++) {
        st = range_input(w, s, b, stage, i, &before, e);
        if (st == OK) raise_most(w, range_at(w, i), stage, s->needs.pairs);
        buffers_leave(w, before);
    }
    PASS(group_agree(w->group, st, e));
    return agree_bound(w, stage, e);
}

static enum status sum_stage(struct workspace *w, struct stream *s, const struct block *b,
                             int stage, struct err *e)
{
    enum status st = OK;
    for (int64_t i = 0; st == OK && i < w->rounds; i++) {
        bool there = i < w->calibration.n;
        struct own_buffers before = {w->acts.in, w->acts.branch};
        if (there) st = range_input(w, s, b, stage, i, &before, e);
        st = add_sums(w, s, there ? range_at(w, i) : NULL, stage, st, e);
        buffers_leave(w, before);
    }
    return group_agree(w->group, st, e);
}

enum status calibrate_stage(struct workspace *w, struct stream *s, const struct block *b, int stage,
                            struct err *e)
{
    enum status st = OK;
    double start = clock_seconds(), hessian = s->seconds.hessian;
    PASS(clear_sums(w, s, stage, e));
    for (int64_t i = 0; st == OK && i < w->calibration.n; i++)
        st = advance_range(w, s, b, stage, i, e);
    PASS(group_agree(w->group, st, e));
    if (needs_bounds(w, s)) PASS(bound_stage(w, s, b, stage, e));
    PASS(sum_stage(w, s, b, stage, e));
    PASS(reduce_sums(w, s, stage, e));
    s->seconds.forward += clock_seconds() - start - (s->seconds.hessian - hessian);
    return OK;
}

enum status calibrate_end(struct workspace *w, struct stream *s, const struct block *b,
                          struct err *e)
{
    double start = clock_seconds();
    for (int64_t i = 0; i < w->calibration.n && !workspace_last(w, b); i++) {
        const struct range *r = range_at(w, i);
        float *x;
        PASS(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
        expect_next(w, s, s->calibration, i, false);
        end_half(w, i, b, STAGE_DOWN, x);
        PASS(states_put(s->calibration, r->row, r->tokens, x, e));
    }
    s->seconds.forward += clock_seconds() - start;
    return OK;
}

/* --- all stages of a block at once --- */

/* Runs the block's stages on the range's states, which it overwrites; adds each stage's input to
 * the sums or (bounds only) to the channel maxima. */
static enum status range_stages(struct workspace *w, struct stream *s, const struct block *b,
                                const struct range *r, float *x, enum status made, struct err *e)
{
    enum status st = made;
    for (int stage = 0; stage < STAGE_N; stage++) {
        if (r && st == OK) stage_input(w, r, b, stage, x);
        st = add_sums(w, s, r, stage, st, e);
        if (stage == STAGE_DOWN && workspace_last(w, b)) break;
        if (r && st == OK) stage_output(w, r, b, stage, x);
    }
    return st;
}

/* A stage's bound depends on all ranges. Since one pass per stage is too expensive, one pass finds
 * the bounds of all stages. */
static enum status bound_block(struct workspace *w, struct stream *s, const struct block *b,
                               struct err *e)
{
    enum status st = OK;
    for (int stage = 0; stage < STAGE_N; stage++) clear_most(w, stage);
    for (int64_t i = 0; st == OK && i < w->calibration.n; i++) {
        const struct range *r = range_at(w, i);
        st = states_copy(s->calibration, r->row, r->tokens, w->x, e);
        expect_next(w, s, s->calibration, i, true);
        for (int stage = 0; st == OK && stage < STAGE_N; stage++) {
            stage_input(w, r, b, stage, w->x);
            raise_most(w, r, stage, false);
            stage_output(w, r, b, stage, w->x);
        }
    }
    PASS(group_agree(w->group, st, e));
    for (int stage = 0; stage < STAGE_N; stage++) PASS(agree_bound(w, stage, e));
    return OK;
}

enum status calibrate_block(struct workspace *w, struct stream *s, const struct block *b,
                            bool advance, struct err *e)
{
    enum status st = OK;
    double start = clock_seconds(), hessian = s->seconds.hessian;
    advance = advance && !workspace_last(w, b);
    for (int stage = 0; stage < STAGE_N; stage++) PASS(clear_sums(w, s, stage, e));
    if (needs_bounds(w, s)) PASS(bound_block(w, s, b, e));
    for (int64_t i = 0; st == OK && i < w->rounds; i++) {
        const struct range *r = i < w->calibration.n ? range_at(w, i) : NULL;
        float *x = w->x;
        if (r && advance)
            st = states_take(s->calibration, r->row, r->tokens, w->x, &x, e);
        else if (r)
            st = states_copy(s->calibration, r->row, r->tokens, w->x, e);
        if (r) expect_next(w, s, s->calibration, i, !advance);
        st = range_stages(w, s, b, r, x, st, e);
        if (r && advance && st == OK) st = states_put(s->calibration, r->row, r->tokens, x, e);
    }
    PASS(group_agree(w->group, st, e));
    for (int stage = 0; stage < STAGE_N; stage++) PASS(reduce_sums(w, s, stage, e));
    s->seconds.forward += clock_seconds() - start - (s->seconds.hessian - hessian);
    return OK;
}

/* Runs a block on a range of evaluation states; the last one only for what is scored or looked at.
 */
static enum status forward_evaluation(struct workspace *w, const struct stream *s,
                                      const struct block *b, const struct range *r, float *x,
                                      struct err *e)
{
    enum status st = OK;
    const enum products calibration = w->acts.products;
    w->acts.products = model_products(w->model);
    if (s == w->full && w->observed) {
        st = observe_range(w, b, r, x, e);
    } else if (w->wanted && workspace_last(w, b)) {
        const struct sequences some = {.n = r->view.n, .offset = w->n_wanted + r->first};
        model_block_forward_rows(w->model, b, &r->view, w->wanted + r->row, &some, x, &w->acts);
    } else {
        model_block_forward(w->model, b, &r->view, x, &w->acts);
    }
    w->acts.products = calibration;
    return st;
}

/* A number that no grid holds, by the name of the first linear that it reaches. */
static enum status check_broken(const struct workspace *w, const struct block *b, struct err *e)
{
    const int stage = w->acts.broken - 1;
    for (int i = 0; i < b->n_linears; i++)
        NEED(b->linear[i].stage != stage, ERR_NUMERIC,
             "%s: %s that cannot be quantized: a number is NaN or infinite", b->linear[i].name,
             stage == STAGE_O ? "keys, values or inputs" : "inputs");
    return OK;
}

enum status forward_block(struct workspace *w, struct stream *s, const struct block *b,
                          struct states *states, const struct ranges *ranges, struct err *e)
{
    double start = clock_seconds();
    if (states == s->calibration && workspace_last(w, b)) return OK;
    w->acts.broken = 0;
    for (int64_t i = 0; i < ranges->n; i++) {
        const struct range *r = &ranges->range[i];
        float *x;
        PASS(states_take(states, r->row, r->tokens, w->x, &x, e));
        expect_next(w, s, states, i, false);
        if (states == s->evaluation)
            PASS(forward_evaluation(w, s, b, r, x, e));
        else
            model_block_forward(w->model, b, &r->view, x, &w->acts);
        PASS(states_put(states, r->row, r->tokens, x, e));
    }
    s->seconds.forward += clock_seconds() - start;
    return check_broken(w, b, e);
}
