/* Quantizes one block for one variant: statistics, preparation, quantized weights. */
#include "engine/visit_internal.h"
#include "quant/job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>

enum status stream_note(struct stream *s, const struct linear *l, const struct quant_report *r,
                        struct err *e)
{
    char *name = NULL;
    PASS(mem_grow(&s->layers, s->n_layers, &s->layers_capacity, sizeof *s->layers, e));
    PASS(mem_string(&name, l->name, e));
    s->layers[s->n_layers++] = (struct layer_report){name, *r};
    s->squared_distance += r->squared_distance;
    s->bits += r->bits_per_weight * (double)(l->rows * l->cols);
    s->weights += (double)(l->rows * l->cols);
    return OK;
}

static void release_stage(struct workspace *w, int stage)
{
    if (w->prepared[stage]) w->prepared_for->method->release(w->prepared[stage]);
    w->prepared[stage] = NULL;
}

/* Frees what was prepared from a stream's own statistics. */
static void drop_stage(struct workspace *w, int stage)
{
    release_stage(w, stage);
    dist_free(w->dist[stage]);
    w->dist[stage] = NULL;
}

/* Frees the linears of the last quantized block that are computed at run time. */
static void free_linears(struct workspace *w)
{
    for (int i = 0; i < LINEARS_MAX; i++) {
        if (w->computing[i]) w->linears_of->free_linear(w->computing[i]);
        w->computing[i] = NULL;
    }
}

void quantize_end(struct workspace *w)
{
    free_linears(w);
    for (int i = 0; i < LINEARS_MAX; i++) {
        shared_products_close(&w->products[i]);
        shared_products_close(&w->products_unrounded[i]);
        shared_products_close(&w->codes[i]);
    }
    quantize_forget(w);
}

void quantize_forget(struct workspace *w)
{
    for (int stage = 0; stage < STAGE_N; stage++) release_stage(w, stage);
    w->prepared_for = NULL;
}

/* True if the prepared data can be used for this stream. */
static bool serves(const struct workspace *w, const struct stream *s)
{
    const struct stream *p = w->prepared_for;
    return p && !s->method->prepare_block && s->needs.shared && p->needs.shared &&
           p->method == s->method &&
           quant_shares_prepare(s->method, &p->variant->method.options,
                                &s->variant->method.options);
}

/* What activation_grid and quant_options have alike. */
struct outlier_rule {
    int64_t n, down_bits;
    int score;
    double least;
    bool relative;
};

/* How many channels of a stage's inputs are outliers. */
static int64_t outliers_of(const struct outlier_rule *r, const struct workspace *w, int stage,
                           const struct quant_input *in)
{
    const double *x = r->n > 0 ? in->statistic[outlier_statistic(r->score)] : NULL;
    const double least = r->least * (stage == STAGE_DOWN && r->down_bits > 0 ? 2 : 1);
    double most = 0;
    for (int64_t j = 0; x && j < in->cols; j++) most = fmax(most, x[j]);
    if (least > 0 && !(most > least)) return 0;
    return r->relative ? r->n * (in->cols / w->sizes.shape.hidden) : r->n;
}

/* The variant's options for the linears of a stage. */
static struct quant_options stage_options(const struct workspace *w, const struct stream *s,
                                          int stage, const struct quant_input *in)
{
    struct quant_options o = s->variant->method.options;
    const struct outlier_rule rule = {o.outlier_columns, o.down_bits, o.outlier_score,
                                      o.outlier_least, o.outlier_relative};
    o.outlier_columns = outliers_of(&rule, w, stage, in);
    return o;
}

/* Prepares stages [first, end) into w->prepared: each on the rank that has its statistics, several
 * ranks in parallel; then copies the results to all ranks. */
static enum status prepare_stages(struct workspace *w, struct stream *s, int first, int end,
                                  struct err *e)
{
    enum status st = OK, own[STAGE_N] = {OK};
    bool made[STAGE_N] = {false};
    double start = clock_seconds();
    if (!s->method->prepare) return OK;
    for (int stage = first; stage < end; stage++) {
        const struct quant_input input = workspace_input(w, s, stage);
        const struct quant_options options = stage_options(w, s, stage, &input);
        made[stage] = w->prepared[stage] == NULL;
        if (made[stage]) own[stage] = s->method->prepare(&input, &options, &w->prepared[stage], e);
    }
    for (int stage = first; stage < end; stage++) {
        const struct quant_input input = workspace_input(w, s, stage);
        if (!made[stage]) continue;
        enum status shared = s->method->share
                                 ? s->method->share(&input, w->prepared[stage], own[stage], e)
                                 : group_agree(w->group, own[stage], e);
        if (st == OK) st = shared;
    }
    s->seconds.factor += clock_seconds() - start;
    return st;
}

/* A variant's block with the stored weights, and with the weights on which later layers are
 * calibrated: shallow copies, which differ only if s->needs.unrounded. */
struct outcome {
    struct block *stored, prefix;
};

/* Where the weights with unrounded scales for q (in w->quantized) are stored; NULL for streams that
 * do not need them. */
static float *unrounded_of(const struct workspace *w, const struct stream *s, const float *q)
{
    return s->needs.unrounded ? w->unrounded.at + (q - w->quantized.at) : NULL;
}

/* to (rows, cols) = w with its rows in that order; back: from that order. */
static void move_rows(float *to, const float *w, const struct linear *l, const int32_t *order,
                      bool back)
{
    for (int64_t i = 0; i < l->rows; i++)
        memcpy(to + (back ? order[i] : i) * l->cols, w + (back ? i : order[i]) * l->cols,
               (size_t)l->cols * sizeof *to);
}

/* Where rows share scales, the job's become those in the order of the next linear's columns:
 * *order, and *moved its weights, which the caller frees; NULL: they stay. */
static enum status order_rows(const struct workspace *w, const struct stream *s,
                              const struct linear *l, struct quant_job *job, int32_t **order,
                              float **moved, struct err *e)
{
    const struct quant_input next = workspace_input(w, s, STAGE_DOWN);
    const struct quant_options o = stage_options(w, s, STAGE_DOWN, &next);
    if (l->stage != STAGE_UP || l->rows != next.cols || !quant_moves_rows(&o)) return OK;
    PASS(job_check(job, e));
    PASS(mem_alloc(order, l->rows, sizeof **order, "the order of rows", e));
    PASS(mem_alloc(moved, l->rows * l->cols, sizeof **moved, "rows in another order", e));
    PASS(activation_order(next.statistic[outlier_statistic(o.outlier_score)], l->rows, *order, e));
    move_rows(*moved, l->w, l, *order, false);
    job->w = *moved;
    job->grids = NULL;
    return OK;
}

/* Completes the rows of q on every rank, and moves them back if there is an order. */
static enum status complete_rows(const struct workspace *w, const struct group_memory *of, float *q,
                                 const struct linear *l, const int32_t *order, float *moved,
                                 struct err *e)
{
    if (!q) return OK;
    PASS(group_rows(w->group, of, q, l->rows, l->cols, e));
    if (!order) return OK;
    if (w->group->node_rank == 0) {
        memcpy(moved, q, (size_t)(l->rows * l->cols) * sizeof *q);
        move_rows(q, moved, l, order, true);
    }
    group_memory_sync(w->group, of);
    return OK;
}

/* Runs the method, and completes q, the unrounded weights and the grids on every rank. */
static enum status run_job(struct workspace *w, struct stream *s, struct quant_job *job,
                           const struct linear *l, struct quant_report *report, struct err *e)
{
    AUTO_FREE int32_t *order = NULL;
    AUTO_FREE float *moved = NULL;
    enum status st = group_agree(w->group, order_rows(w, s, l, job, &order, &moved, e), e);
    const struct quant_grids *g = job->grids;
    if (st == OK) st = s->method->run(job, report, e);
    if (st != OK) err_prefix(e, "%s", l->name);
    PASS(st);
    PASS(complete_rows(w, &w->quantized, job->q, l, order, moved, e));
    PASS(complete_rows(w, &w->unrounded, job->unrounded, l, order, moved, e));
    return g ? team_gather(job->team, g->grid, 2 * g->groups, 1, l->rows, e) : OK;
}

/* Points linear i of both blocks at its quantized weights q, and the stored one at their codes if
 * they have any on these grids (NULL: none). Collective. */
static enum status take_linear(struct workspace *w, struct stream *s, int i, const float *q,
                               const struct quant_grids *grids, int64_t bits, struct outcome *to,
                               struct err *e)
{
    struct integer_grids codes;
    struct err why = {0};
    struct linear *stored = &to->stored->linear[i], *prefix = &to->prefix.linear[i];
    const float *unrounded = unrounded_of(w, s, q);
    stored->w = prefix->w = q;
    stored->apply = prefix->apply = s->method->apply;
    stored->computing = prefix->computing = w->computing[i];
    if (unrounded) prefix->w = unrounded;
    if (s->method->apply) return OK;
    if (grids && quant_grids_integers(grids, bits, stored->cols, &codes)) {
        w->codes[i].grids = &codes;
        const enum status st = shared_products_make(w->group, w->model, q, stored->rows,
                                                    stored->cols, &w->codes[i], &why);
        NEED(st == OK || st == ERR_NUMERIC, st, "%s", why.text);
        if (st == OK) stored->integers = w->codes[i].w;
    }
    if (stored->integers && !s->needs.own) return OK;
    PASS(shared_products_make(w->group, w->model, q, stored->rows, stored->cols, &w->products[i],
                              e));
    stored->prepared = prefix->prepared = w->products[i].w;
    if (!unrounded) return OK;
    PASS(shared_products_make(w->group, w->model, unrounded, stored->rows, stored->cols,
                              &w->products_unrounded[i], e));
    prefix->prepared = w->products_unrounded[i].w;
    return OK;
}

static enum status quantize_linear(struct workspace *w, struct stream *s, const struct linear *l,
                                   int number, const struct quant_input *input, float *q,
                                   struct outcome *to, struct err *e)
{
    struct quant_report report = {0};
    CLEANUP(quant_grids_free) struct quant_grids grids = {0};
    struct quant_grid_form form;
    const bool coded =
        w->acts.codes.codes && activation_coded(&s->variant->method.grids.inputs) &&
        quant_grid_form_of(s->method, &s->variant->method.options, &form, NULL) == OK;
    const bool packs = s->method->describe_grids || s->method->describe_blocks;
    const bool wants = coded || (w->sink && w->sink->grids && packs);
    const struct quant_options options = stage_options(w, s, l->stage, input);
    struct quant_job job = {.team = w->group->size > 1 ? &w->group->team : NULL,
                            .bits =
                                quant_bits_at(&options, s->variant->bits, l->stage == STAGE_DOWN),
                            .options = &options,
                            .layer = w->original->layer,
                            .linear = number,
                            .replicate = s->variant->replicate,
                            .rows = l->rows,
                            .cols = l->cols,
                            .w = l->w,
                            .q = q,
                            .unrounded = unrounded_of(w, s, q),
                            .grids = wants ? &grids : NULL,
                            .input = input,
                            .prepared = w->prepared[l->stage]};
    double start = clock_seconds();
    if (wants)
        PASS(group_agree(w->group, quant_grids_init(&grids, job.options, l->rows, l->cols, e), e));
    PASS(run_job(w, s, &job, l, &report, e));
    s->seconds.sweep += clock_seconds() - start;
    log_trace(s->method->name, "%s %lld bits, %s: relative error %.3g, damping %.3g, %.3f s",
              s->variant->method.name, (long long)s->variant->bits, l->name, report.relative_error,
              report.damping, clock_seconds() - start);
    enum status st = stream_note(s, l, &report, e);
    if (st == OK && s->method->make_linear)
        st = s->method->make_linear(&job, w->longest, &w->computing[number], e);
    if (st == OK && w->sink) st = w->sink->linear(w->sink->context, s->variant, l, q, job.grids, e);
    PASS(group_agree(w->group, st, e));
    return take_linear(w, s, number, q, coded ? job.grids : NULL, job.bits, to, e);
}

/* Sets b's outlier channels of the stage's inputs. */
static enum status order_inputs(struct workspace *w, const struct stream *s, int stage,
                                struct block *b, struct err *e)
{
    const struct activation_grid *g = &s->variant->method.grids.inputs;
    const struct outlier_rule rule = {g->outliers, g->down_bits, g->outlier_score, g->outlier_least,
                                      g->outlier_relative};
    const struct quant_input in = workspace_input(w, s, stage);
    int64_t *n = &b->inputs[stage].outliers;
    *n = activation_quantizes(g) ? outliers_of(&rule, w, stage, &in) : 0;
    if (*n == 0) return OK;
    if (!w->order[stage])
        PASS(mem_alloc(&w->order[stage], in.cols, sizeof **w->order, "the order of channels", e));
    b->inputs[stage].order = w->order[stage];
    return activation_order(in.statistic[outlier_statistic(rule.score)], in.cols, w->order[stage],
                            e);
}

/* The range that the grid of the stage's inputs takes from its statistics, for both blocks. */
static void take_range(const struct workspace *w, const struct stream *s, int stage,
                       struct outcome *to)
{
    const struct quant_input in = workspace_input(w, s, stage);
    float most = 0;
    for (int64_t j = 0; j < in.cols; j++)
        most = fmaxf(most, (float)in.statistic[STATISTIC_LARGEST][j]);
    to->stored->inputs[stage].largest = to->prefix.inputs[stage].largest = most;
}

/* Quantizes the linears of the stages and points `to` at the results. */
static enum status quantize_stages(struct workspace *w, struct stream *s, const struct block *b,
                                   int first, int end, struct outcome *to, struct err *e)
{
    enum status st = OK;
    bool wants = s->needs.statistics || s->needs.scores;
    /* From here on a rank reads only its own rows of the weights. */
    if (wants && !s->turned) group_pages_forget(w->group, b->linear[0].w, w->sizes.linears);
    TRY(prepare_stages(w, s, first, end, e));
    float *q = w->quantized.at;
    for (int i = 0; i < b->n_linears; q += b->linear[i].rows * b->linear[i].cols, i++) {
        int stage = b->linear[i].stage;
        struct quant_input input = {0};
        if (stage < first || stage >= end) continue;
        if (wants) input = workspace_input(w, s, stage);
        TRY(quantize_linear(w, s, &b->linear[i], i, wants ? &input : NULL, q, to, e));
    }
    for (int stage = first; stage < end; stage++)
        if (s->variant->method.options.input_statistics & WANTS(STATISTIC_LARGEST))
            take_range(w, s, stage, to);
done:
    for (int stage = first; !s->needs.shared && stage < end; stage++) drop_stage(w, stage);
    return st;
}

/* Quantizes all stages, whose statistics are known. Only with several ranks are all stages prepared
 * before the first is quantized. */
static enum status quantize_all(struct workspace *w, struct stream *s, const struct block *b,
                                struct outcome *to, struct err *e)
{
    if (w->group->size > 1) return quantize_stages(w, s, b, 0, STAGE_N, to, e);
    for (int stage = 0; stage < STAGE_N; stage++)
        PASS(quantize_stages(w, s, b, stage, stage + 1, to, e));
    return OK;
}

/* Each stage sees the block's earlier stages quantized; this takes one forward pass of the
 * calibration sequences in total. */
static enum status quantize_in_sequence(struct workspace *w, struct stream *s,
                                        const struct block *b, struct outcome *to, struct err *e)
{
    for (int stage = 0; stage < STAGE_N; stage++) {
        PASS(calibrate_stage(w, s, &to->prefix, stage, e));
        PASS(quantize_stages(w, s, b, stage, stage + 1, to, e));
    }
    return calibrate_end(w, s, &to->prefix, e);
}

/* All stages see the block in full precision; then the calibration sequences pass through the
 * quantized block. */
static enum status quantize_at_once(struct workspace *w, struct stream *s, const struct block *b,
                                    struct outcome *to, struct err *e)
{
    PASS(calibrate_block(w, s, b, false, e));
    if (s->method->prepare_block) PASS(trial_prepare(w, s, b, e));
    PASS(quantize_all(w, s, b, to, e));
    return forward_block(w, s, &to->prefix, s->calibration, &w->calibration, e);
}

enum status quantize_block(struct workspace *w, struct stream *s, struct block *b,
                           struct block *quantized, struct err *e)
{
    enum status st = OK;
    free_linears(w);
    if (!serves(w, s)) quantize_forget(w);
    w->linears_of = s->method;
    w->prepared_for = s;
    w->original = b;
    for (int stage = 0; st == OK && stage < STAGE_N; stage++) st = order_inputs(w, s, stage, b, e);
    PASS(group_agree(w->group, st, e));
    *quantized = *b;
    quantized->storage = NULL;
    struct outcome to = {.stored = quantized, .prefix = *quantized};
    if (s->needs.shared && s->method->prepare_block) PASS(trial_prepare(w, s, b, e));
    if (!s->needs.own)
        PASS(quantize_all(w, s, b, &to, e));
    else if (s->needs.sequential)
        PASS(quantize_in_sequence(w, s, b, &to, e));
    else
        PASS(quantize_at_once(w, s, b, &to, e));
    return OK;
}
