/* The first part of a visit: runs the checkpoint and its variants through the blocks and the head.
 * Records are emitted as soon as they are scored; what other parts add to them follows as
 * completions. */
#include "engine/stamp.h"
#include "engine/visit_internal.h"
#include "records/rows.h"
#include "util/mem.h"
#include "util/words.h"

/* --- its records --- */

#define CELL_FIELD(metric, name, spread, units, text)                                              \
    {#name, #name, IN_INNER, FIELD_REAL, STABLE, units, text},

static const struct field fields[] = {
    {STATUS_FIELD("status")},
    {MESSAGE_FIELD("message")},

    {"weight_distance", "weight_distance", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean distance of the quantized weights from the weights"},
    {"bits_per_weight", "bits_per_weight", IN_VALUES, FIELD_REAL, STABLE, "bit",
     "bits per quantized weight, scales and zeros included"},
    {"first_order", "first_order", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "g'd: first order of the change of loss by d = Q-W, on curvature's tokens"},
    {"second_order", "second_order", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "d'Hd/2: second order of that change"},
    {"true_difference", "true_difference", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "loss of the quantized model minus that of the full-precision one, on the same tokens"},
    {"curvature_along_delta", "curvature_along_delta", IN_VALUES, FIELD_REAL, STABLE, "1",
     "d'Hd/|d|^2, the curvature along the change"},
    {"critical_sharpness", "critical_sharpness_delta", IN_VALUES, FIELD_REAL, STABLE, "1",
     "2/step at which the loss begins to rise along d, in units of d, on curvature's tokens"},
    {SECONDS_FIELD("seconds", "seconds", "time of the work for this cell alone")},
    {SECONDS_FIELD("seconds_forward", "seconds_forward", "time of the cell's forward passes")},
    {SECONDS_FIELD("seconds_hessian", "seconds_hessian", "time of the Hessian sums")},
    {SECONDS_FIELD("seconds_factor", "seconds_factor", "time of the factorisations")},
    {SECONDS_FIELD("seconds_sweep", "seconds_sweep", "time of the quantizer's column sweeps")},
    {SECONDS_FIELD("seconds_read", "seconds_read", "even part of the visit's waiting for weights")},
    {SECONDS_FIELD("seconds_head", "seconds_head", "even part of the visit's time at the head")},
    {SECONDS_FIELD("seconds_second_order", "seconds_second_order",
                   "time of the second-order prediction, shared by the variants of a pass")},
    {"peak_memory", "peak_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak resident memory of a process of the group so far"},

    METRIC_CELL_FIELDS(CELL_FIELD) RECORD_FIELDS,
};

static const struct field layer_fields[] = {
    {"error", "error", IN_LIST, FIELD_REAL, STABLE, "1",
     "the method's objective for the layer, damping included"},
    {"relative_error", "relative_error", IN_LIST, FIELD_REAL, STABLE, "1",
     "tr((W-Q)H(W-Q)') / tr(W H W'), without the damping's part"},
    {"damping", "damping", IN_LIST, FIELD_REAL, STABLE, "1",
     "share of the mean of the Hessian's diagonal that was added to it"},
    {"squared_distance", "squared_distance", IN_LIST, FIELD_REAL, STABLE, "1",
     "squared Frobenius norm of W-Q"},
    {"first_order", "first_order", IN_LIST, FIELD_REAL, STABLE, "nat",
     "the layer's part of the first order"},
    {"second_order", "second_order", IN_LIST, FIELD_REAL, STABLE, "nat",
     "the layer's part of the second order, interactions with other layers halved between them"},
    {"diagonal", "diagonal", IN_LIST, FIELD_REAL, STABLE, "nat",
     "second order of the layer's change alone"},
    {0},
};

static const struct record_list layers = {
    .name = "layers",
    .group = "layers",
    .axis = "layer",
    .label = "name",
    .long_name = "tensor of the layer's weights",
    .fields = layer_fields,
};

static enum status add_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e)
{
    return rows_add_cells(out, m, c, a->models[m].checkpoints[c].key, NULL, e);
}

/* --- its state --- */

/* How far the record of a cell or of the checkpoint is. */
struct cell {
    bool recorded;  /* emitted, here or by an earlier run, or not to be made */
    bool done;      /* as one that is done, which may be completed */
    bool completed; /* emitted */
    bool answered;  /* the records of its accuracies are emitted */
};

struct cells {
    struct visit visit; /* shallow: without texts to evaluate where nothing is scored */
    struct run run;
    struct weights_sink sink;
    struct cell checkpoint;
    struct cell *cells; // (variants)
    char *tasks;        /* those that accuracies are asked of; NULL: none */
};

static bool wanted(const struct visit *v)
{
    return !v->cells_only || v->n_variants > 0 || v->records || visit_observes(v);
}

static bool scores_checkpoint(const struct visit *v)
{
    return !v->cells_only && !v->scored;
}

static bool scores(const struct visit *v)
{
    for (int64_t i = 0; i < v->n_variants; i++)
        if (!v->variants[i].scored) return true;
    return scores_checkpoint(v);
}

/* Whether it completes records with texts. */
static bool scores_texts(const struct visit *v)
{
    bool any = wanted_count(v->records, measure_cell.name, NULL) > 0;
    for (int64_t i = 0; i < v->n_variants; i++)
        any = any || wanted_count(v->variants[i].records, measure_cell.name, NULL) > 0;
    return any;
}

/* --- emitting them --- */

static enum status record(const struct part_context *c, int64_t i, const struct err *failure,
                          struct err *e)
{
    struct cells *s = c->state[MEASURE_cell];
    struct cell *cell = i < 0 ? &s->checkpoint : &s->cells[i];
    const enum status own = i < 0 ? OK : s->run.streams[i].st;
    if (cell->recorded) return OK;
    PASS(part_emit(
        c, i < 0 ? record_checkpoint(c, &s->run, failure) : record_cell(c, &s->run, i, failure),
        e));
    cell->recorded = true;
    cell->done = failure->code == OK && own == OK;
    return OK;
}

static bool is_accuracy(const struct wanted *w)
{
    const struct measure *k = measure_find(w->measure);
    return k->scored && k != &measure_cell;
}

/* Those of accuracies, and the texts that complete what is there. */
static enum status answer(const struct part_context *c, int64_t i, const struct err *failure,
                          struct err *e)
{
    struct cells *s = c->state[MEASURE_cell];
    struct cell *cell = i < 0 ? &s->checkpoint : &s->cells[i];
    const char *at = i < 0 ? c->visit->records : c->visit->variants[i].records;
    struct wanted one;
    if (cell->answered) return OK;
    while (wanted_next(&at, &one))
        if (is_accuracy(&one)) PASS(part_emit(c, record_accuracy(c, &s->run, i, &one, failure), e));
    const char *all = i < 0 ? c->visit->records : c->visit->variants[i].records;
    if (wanted_count(all, measure_cell.name, NULL))
        PASS(part_emit(c, record_texts(c, &s->run, i, all, failure), e));
    cell->answered = true;
    return OK;
}

static enum status record_all(const struct part_context *c, int64_t i, const struct err *failure,
                              struct err *e)
{
    PASS(record(c, i, failure, e));
    return answer(c, i, failure, e);
}

static enum status complete(const struct part_context *c, int64_t i, const struct err *failure,
                            struct err *e)
{
    struct cells *s = c->state[MEASURE_cell];
    struct cell *cell = i < 0 ? &s->checkpoint : &s->cells[i];
    if (!cell->done || cell->completed) return OK;
    if (i >= 0 && !variant_is_completed(&c->visit->variants[i])) return OK;
    PASS(part_emit(c, record_completion(c, &s->run, i, failure), e));
    cell->completed = true;
    return OK;
}

const struct err *cells_failure(const struct part_context *c, int64_t i)
{
    return &((const struct cells *)c->state[MEASURE_cell])->run.streams[i].err;
}

enum status cells_complete(const struct part_context *c, const struct variant *v, struct err *e)
{
    const struct err none = {0};
    return c->group->rank == 0 ? complete(c, v - c->visit->variants, &none, e) : OK;
}

/* At the end of a wave. */
static enum status scored(const struct part_context *c, struct stream *const *streams, int64_t n,
                          bool first, struct err *e)
{
    enum status st = OK;
    const struct cells *s = c->state[MEASURE_cell];
    const struct err none = {0};
    PASS(reads_finish(c->provenance.reads, c->group, e));
    if (c->group->rank == 0 && first) st = record_all(c, -1, &none, e);
    for (int64_t i = 0; c->group->rank == 0 && st == OK && i < n; i++)
        st = record_all(c, streams[i] - s->run.streams, &none, e);
    return group_agree(c->group, st, e);
}

/* Failed ones, and what completes those that are done. */
static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct cells *s = c->state[MEASURE_cell];
    const bool completes = parts_complete(c->visit);
    PASS(record_all(c, -1, failure, e));
    if (completes || s->run.waves > 1) PASS(complete(c, -1, failure, e));
    for (int64_t i = 0; i < s->run.n; i++) {
        const struct err *own = &s->run.streams[i].err;
        PASS(record_all(c, i, failure, e));
        if (completes) PASS(complete(c, i, failure->code == OK ? own : failure, e));
    }
    return OK;
}

/* --- the part --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    stamp_data(stamp, &v->calibration);
    for (int64_t i = 0; i < v->n_evaluations; i++) stamp_data(stamp, &v->evaluations[i]);
}

/* Appends the tasks of these records to a list that does not have them yet. */
static enum status add_tasks(char **list, const char *records, struct err *e)
{
    struct wanted one;
    while (wanted_next(&records, &one)) {
        if (!is_accuracy(&one)) continue;
        if (*list && words_have(*list, ",", one.label, strlen(one.label))) continue;
        PASS(mem_append(list, e, "%s%s", *list ? "," : "", one.label));
    }
    return OK;
}

/* Nothing is scored that no record is asked of. */
static enum status choose_scored(struct cells *s, const struct visit *v, struct err *e)
{
    PASS(add_tasks(&s->tasks, v->records, e));
    for (int64_t i = 0; i < v->n_variants; i++)
        PASS(add_tasks(&s->tasks, v->variants[i].records, e));
    if (!scores(v) && !scores_texts(v) && !visit_observes(v)) s->visit.n_evaluations = 0;
    if (!s->run.hooks->answers) s->visit.requests.tasks = s->tasks;
    return OK;
}

/* Records of failed variants need the variants too. */
static enum status open_cells(struct part_context *c, struct err *e)
{
    struct cells *s = c->state[MEASURE_cell];
    const struct visit *v = c->visit;
    s->visit = *v;
    s->sink = (struct weights_sink){c, parts_linear, c->hooks->grids || parts_want_grids(v)};
    s->checkpoint =
        (struct cell){.recorded = !scores_checkpoint(v), .done = !v->cells_only && v->scored};
    PASS(mem_zero(&s->cells, v->n_variants, sizeof *s->cells, "cells", e));
    for (int64_t i = 0; i < v->n_variants; i++)
        s->cells[i].recorded = s->cells[i].done = v->variants[i].scored;
    PASS(streams_init(&s->run, c, &s->visit, c->model, e));
    PASS(choose_scored(s, v, e));
    s->run.sink = &s->sink;
    s->run.scored = scored;
    s->run.pace = c->pace;
    return OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    struct run *r = &((struct cells *)c->state[MEASURE_cell])->run;
    if (!scores(c->visit) && !scores_texts(c->visit) && !visit_observes(c->visit) && r->n == 0 &&
        !r->visit->requests.tasks)
        return OK;
    PASS(streams_prepare(r, e));
    c->provenance.memory_planned = streams_planned(r);
    PASS(group_agree(c->group, parts_begin(c, e), e));
    return streams_run(r, e);
}

static void close_cells(struct part_context *c)
{
    struct cells *s = c->state[MEASURE_cell];
    streams_free(&s->run);
    free(s->cells);
    free(s->tasks);
}

const struct measure measure_cell = {
    .name = "cell",
    .group = "cells",
    .axes = {&axis_model, &axis_checkpoint, &axis_bits, &axis_quantizer},
    .inner = &axis_dataset,
    .fields = fields,
    .sequences = true,
    .list = &layers,
    .scored = true,
    .add_rows = add_rows,
    .number = "cell",
    .number_long_name = "number of the cell, as in layers/",
    .axis_long_names = {"trajectory of the cell", "checkpoint of the cell", "bits of the cell",
                        "quantizer of the cell"},
    .report = REPORT_MODELS,
    .prefix = "",
    .noun = "cells",
    .doing = "cells",
    .of_model = true,
    .inputs = inputs,
    .wanted = wanted,
    .state = sizeof(struct cells),
    .open = open_cells,
    .run = run,
    .emit = emit,
    .close = close_cells,
};
