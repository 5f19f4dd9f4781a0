/* The first part of a visit: runs the checkpoint and its variants through the blocks and the head.
 * Records are emitted as soon as they are scored; what other parts add to them follows as
 * completions. */
#include "group/seen.h"
#include "util/mem.h"
#include "util/words.h"
#include "visit/visit_internal.h"
#include <stdlib.h>
#include <string.h>

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
    return !v->task[PART_SURFACE] && (!v->cells_only || v->n_variants > 0 || v->accuracies);
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

/* --- records --- */

static enum status record(const struct part_context *c, int64_t i, const struct err *failure,
                          struct err *e)
{
    struct cells *s = c->state[PART_CELLS];
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

/* Those of accuracies. */
static enum status answer(const struct part_context *c, int64_t i, const struct err *failure,
                          struct err *e)
{
    struct cells *s = c->state[PART_CELLS];
    struct cell *cell = i < 0 ? &s->checkpoint : &s->cells[i];
    const char *at = i < 0 ? c->visit->accuracies : c->visit->variants[i].accuracies;
    struct accuracy_wanted one;
    if (cell->answered) return OK;
    while (accuracies_next(&at, &one))
        PASS(part_emit(c, record_accuracy(c, &s->run, i, &one, failure), e));
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
    struct cells *s = c->state[PART_CELLS];
    struct cell *cell = i < 0 ? &s->checkpoint : &s->cells[i];
    if (!cell->done || cell->completed) return OK;
    if (i >= 0 && !variant_is_completed(&c->visit->variants[i])) return OK;
    PASS(part_emit(c, record_completion(c, &s->run, i, failure), e));
    cell->completed = true;
    return OK;
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
    const struct cells *s = c->state[PART_CELLS];
    const struct err none = {0};
    PASS(reads_settle(c->provenance.reads, c->group, e));
    if (c->group->rank == 0 && first) st = record_all(c, -1, &none, e);
    for (int64_t i = 0; c->group->rank == 0 && st == OK && i < n; i++)
        st = record_all(c, streams[i] - s->run.streams, &none, e);
    return group_agree(c->group, st, e);
}

/* Failed ones, and what completes those that are done. */
static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct cells *s = c->state[PART_CELLS];
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

static void inputs(const struct visit *v, char seen[HASH_HEX])
{
    seen_data(seen, &v->calibration);
    for (int64_t i = 0; i < v->n_evaluations; i++) seen_data(seen, &v->evaluations[i]);
}

/* Appends the tasks of these records to a list that does not have them yet. */
static enum status add_tasks(char **list, const char *accuracies, struct err *e)
{
    struct accuracy_wanted one;
    while (accuracies_next(&accuracies, &one)) {
        char *longer;
        if (*list && words_have(*list, ",", one.task, strlen(one.task))) continue;
        PASS(mem_format(&longer, e, "%s%s%s", *list ? *list : "", *list ? "," : "", one.task));
        free(*list);
        *list = longer;
    }
    return OK;
}

/* Nothing is scored that no record is asked of. */
static enum status choose_scored(struct cells *s, const struct visit *v, struct err *e)
{
    PASS(add_tasks(&s->tasks, v->accuracies, e));
    for (int64_t i = 0; i < v->n_variants; i++)
        PASS(add_tasks(&s->tasks, v->variants[i].accuracies, e));
    if (!scores(v)) s->visit.n_evaluations = 0;
    if (!s->run.hooks->answers) s->visit.requests.tasks = s->tasks;
    return OK;
}

/* Records of failed variants need the variants too. */
static enum status open_cells(struct part_context *c, struct err *e)
{
    struct cells *s = c->state[PART_CELLS];
    const struct visit *v = c->visit;
    s->visit = *v;
    s->sink =
        (struct weights_sink){c, parts_linear, c->hooks->grids || visit_wants(v, PART_EXPORT)};
    s->checkpoint =
        (struct cell){.recorded = !scores_checkpoint(v), .done = !v->cells_only && v->scored};
    PASS(mem_zero(&s->cells, v->n_variants, sizeof *s->cells, "cells", e));
    for (int64_t i = 0; i < v->n_variants; i++)
        s->cells[i].recorded = s->cells[i].done = v->variants[i].scored;
    PASS(walk_init(&s->run, c, &s->visit, c->model, e));
    PASS(choose_scored(s, v, e));
    s->run.sink = &s->sink;
    s->run.scored = scored;
    s->run.pace = c->pace;
    return OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    struct run *r = &((struct cells *)c->state[PART_CELLS])->run;
    if (!scores(c->visit) && r->n == 0 && !r->visit->requests.tasks) return OK;
    PASS(walk_prepare(r, e));
    c->provenance.memory_planned = walk_planned(r);
    PASS(group_agree(c->group, parts_begin(c, e), e));
    return walk_go(r, e);
}

static void close_cells(struct part_context *c)
{
    struct cells *s = c->state[PART_CELLS];
    walk_free(&s->run);
    free(s->cells);
    free(s->tasks);
}

const struct part cells_part = {
    .name = "cells",
    .of_model = true,
    .inputs = inputs,
    .wanted = wanted,
    .state = sizeof(struct cells),
    .open = open_cells,
    .run = run,
    .emit = emit,
    .close = close_cells,
};
