/* Calibration sequences through a block, range by range. Between two passes over the ranges a stage
 * is quantized, and the hidden states stand before the attention or before the MLP. What the passes
 * would have to compute twice, the inputs of STAGE_O and STAGE_DOWN, is kept for as many ranges as
 * the memory plan has room for and made again for the others: the same numbers either way. */
#include "linalg/linalg.h"
#include "util/clock.h"
#include "visit/internal.h"
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

/* The stage's input from x, which stands before the half of the block that the stage is in. */
static void make_input(struct workspace *w, const struct range *r, const struct block *b, int stage,
                       float *x)
{
    int half = stage < STAGE_UP ? STAGE_QKV : STAGE_UP;
    stage_input(w, r, b, half, x);
    if (stage == half) return;
    stage_output(w, r, b, half, x);
    stage_input(w, r, b, stage, x);
}

/* Ranges that are kept have buffers of their own for what outlives a pass. */
struct own_buffers {
    float *in, *branch;
};

static struct own_buffers buffers_enter(struct workspace *w, int64_t range)
{
    struct own_buffers before = {w->acts.in, w->acts.branch};
    if (range >= w->kept_ranges) return before;
    int64_t row = range_at(w, range)->row;
    w->acts.in = w->kept + row * w->sizes.in_width;
    if (w->sizes.parallel) w->acts.branch = w->kept_branch + row * w->sizes.shape.hidden;
    return before;
}

static void buffers_leave(struct workspace *w, struct own_buffers before)
{
    w->acts.in = before.in;
    w->acts.branch = before.branch;
}

/* Through STAGE_O or STAGE_DOWN: the half of the block ends. */
static void end_half(struct workspace *w, int64_t range, const struct block *b, int stage, float *x)
{
    const struct range *r = range_at(w, range);
    bool kept = range < w->kept_ranges;
    struct own_buffers before = buffers_enter(w, range);
    if (!kept && stage == STAGE_DOWN && w->sizes.parallel) { /* the attention's output again */
        make_input(w, r, b, STAGE_O, x);
        stage_output(w, r, b, STAGE_O, x);
    }
    if (!kept) make_input(w, r, b, stage, x);
    stage_output(w, r, b, stage, x);
    buffers_leave(w, before);
}

/* gram += what the range's stage input, in the acts, adds to it. */
static enum status add_gram(struct workspace *w, struct stream *s, const struct range *r, int stage,
                            struct err *e)
{
    double start = clock_seconds();
    enum status st =
        gram_add(w->gram[stage], w->acts.in, w->sizes.cols[stage], r->view.offset, r->view.n, e);
    s->seconds.hessian += clock_seconds() - start;
    return st;
}

static void clear_gram(struct workspace *w, int stage)
{
    int64_t n = w->sizes.cols[stage];
    memset(w->gram[stage], 0, (size_t)(n * n) * sizeof(double));
}

/* With a parallel residual STAGE_O's output does not touch the states: it is only made here for
 * ranges that keep it. */
static bool attention_ends(const struct workspace *w, int64_t range, int stage)
{
    return stage == STAGE_UP && (!w->sizes.parallel || range < w->kept_ranges);
}

static enum status calibrate_range(struct workspace *w, struct stream *s, const struct block *b,
                                   int stage, int64_t range, struct err *e)
{
    enum status st = OK;
    const struct range *r = range_at(w, range);
    float *x;
    TRY(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
    if (attention_ends(w, range, stage)) {
        end_half(w, range, b, STAGE_O, x);
        TRY(states_put(s->calibration, r->row, r->tokens, x, e));
        /* What is put may be rounded: the MLP reads what will be read again. */
        TRY(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
    }
    bool outlives = stage == STAGE_O || stage == STAGE_DOWN;
    struct own_buffers before = buffers_enter(w, outlives ? range : w->calibration.n);
    make_input(w, r, b, stage, x);
    st = add_gram(w, s, r, stage, e);
    buffers_leave(w, before);
done:
    return st;
}

enum status calibrate_stage(struct workspace *w, struct stream *s, const struct block *b, int stage,
                            struct err *e)
{
    enum status st = OK;
    double start = clock_seconds(), hessian = s->seconds.hessian;
    clear_gram(w, stage);
    for (int64_t i = 0; i < w->calibration.n; i++) TRY(calibrate_range(w, s, b, stage, i, e));
    s->seconds.forward += clock_seconds() - start - (s->seconds.hessian - hessian);
done:
    return st;
}

enum status calibrate_end(struct workspace *w, struct stream *s, const struct block *b,
                          struct err *e)
{
    enum status st = OK;
    double start = clock_seconds();
    for (int64_t i = 0; i < w->calibration.n; i++) {
        const struct range *r = range_at(w, i);
        float *x;
        TRY(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
        end_half(w, i, b, STAGE_DOWN, x);
        TRY(states_put(s->calibration, r->row, r->tokens, x, e));
    }
    s->seconds.forward += clock_seconds() - start;
done:
    return st;
}

enum status calibrate_block(struct workspace *w, struct stream *s, const struct block *b,
                            bool advance, struct err *e)
{
    enum status st = OK;
    double start = clock_seconds(), hessian = s->seconds.hessian;
    for (int stage = 0; stage < STAGE_N; stage++) clear_gram(w, stage);
    for (int64_t i = 0; i < w->calibration.n; i++) {
        const struct range *r = range_at(w, i);
        float *x = w->x;
        if (advance)
            TRY(states_take(s->calibration, r->row, r->tokens, w->x, &x, e));
        else
            TRY(states_copy(s->calibration, r->row, r->tokens, w->x, e));
        for (int stage = 0; stage < STAGE_N; stage++) {
            stage_input(w, r, b, stage, x);
            TRY(add_gram(w, s, r, stage, e));
            stage_output(w, r, b, stage, x);
        }
        if (advance) TRY(states_put(s->calibration, r->row, r->tokens, x, e));
    }
    s->seconds.forward += clock_seconds() - start - (s->seconds.hessian - hessian);
done:
    return st;
}

enum status forward_block(struct workspace *w, struct stream *s, const struct block *b,
                          struct states *states, const struct ranges *ranges, struct err *e)
{
    enum status st = OK;
    double start = clock_seconds();
    for (int64_t i = 0; i < ranges->n; i++) {
        const struct range *r = &ranges->range[i];
        float *x;
        TRY(states_take(states, r->row, r->tokens, w->x, &x, e));
        model_block_forward(w->model, b, &r->view, x, &w->acts);
        TRY(states_put(states, r->row, r->tokens, x, e));
    }
    s->seconds.forward += clock_seconds() - start;
done:
    return st;
}
