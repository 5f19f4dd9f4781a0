/* Runs a visit: opens its checkpoint, then runs its parts one after the other. */
#include "engine/part_saved.h"
#include "engine/visit_internal.h"
#include "engine/weights_greedy.h"
#include "math/linalg.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/mem.h"
#include <omp.h>

/* How the group multiplies: AUTO is f32 unless all nodes have something faster, and codes are
 * multiplied as such if all can. Collective. */
static void choose_products(struct part_context *c, enum products kind)
{
    const bool slow = products_resolve(kind) == PRODUCTS_F32;
    c->products = group_max(c->group, slow) ? PRODUCTS_F32 : products_resolve(kind);
    c->integers = group_max(c->group, !integers_run()) == 0 && products_in_f32(c->products);
}

void visit_set_numbers(const struct part_context *c, struct model *m)
{
    model_set_products(m, c->products);
    model_set_rounding(m, c->visit->run.rounding == ROUNDING_BF16);
}

/* Opens the checkpoint and its model if a part needs them. */
static enum status open_checkpoint(struct part_context *c, struct err *e)
{
    bool needed = false;
    NEED(!c->hooks->refusal, ERR_PEER, "%s", c->hooks->refusal);
    for (int i = 0; i < MEASURES_N; i++)
        needed = needed || (measures[i]->of_model && visit_wants(c->visit, i));
    if (!needed) return OK;
    PASS(weights_open(&c->visit->weights, c, &c->checkpoint, e));
    c->provenance.weights_hash = checkpoint_hash(c->checkpoint);
    PASS(model_open(c->checkpoint, &c->model, e));
    visit_set_numbers(c, c->model);
    return OK;
}

enum status part_emit(const struct part_context *c, json_t *record, struct err *e)
{
    enum status st = ERR_NOMEM;
    if (record && json_failures() == 0)
        st = c->hooks->emit(c->hooks->context, record, c->lost);
    else
        err_set(c->lost, st, __FILE__, __LINE__, "out of memory for a record");
    json_decref(record);
    NEED(st == OK, st, "%s", c->lost->text);
    return OK;
}

/* Runs part i unless the visit has already failed; stores an error in *failure. */
static enum status run_part(struct part_context *c, int i, struct err *failure, struct err *e)
{
    if (failure->code != OK) return OK;
    pace_begin(c->pace, i);
    c->began[i] = clock_seconds();
    enum status worked = measures[i]->run ? measures[i]->run(c, failure) : OK;
    worked = err_agree(c->group->comm, worked, failure);
    if (worked == OK) worked = reads_finish(c->provenance.reads, c->group, failure);
    enum status lost = c->lost->code;
    if (lost != OK) err_set(e, lost, __FILE__, __LINE__, "%s", c->lost->text);
    PASS(err_agree(c->group->comm, lost, e));
    /* These errors end the visit; others become failed records. */
    if (worked == ERR_STOPPED || worked == ERR_FULL || worked == ERR_MPI)
        RAISE(worked, "%s", failure->text);
    if (worked == OK) err_clear(failure);
    return OK;
}

/* Runs part i (after the cells also the parts that complete their records) and emits its records
 * that have not been emitted yet. */
static enum status run_and_emit(struct part_context *c, int i, struct err *failure, struct err *e)
{
    enum status st = OK;
    const struct measure *p = measures[i];
    PASS(run_part(c, i, failure, e));
    for (int j = 0; i == MEASURE_cell && j < MEASURES_N; j++)
        if (measures[j]->of_cells && visit_wants(c->visit, j)) PASS(run_part(c, j, failure, e));
    if (c->group->rank == 0)
        st = p->emit ? p->emit(c, failure, e) : parts_emit_of_cells(c, i, failure, e);
    return err_agree(c->group->comm, st, e);
}

/* A failure of the checkpoint or of the cells also fails the later parts; a failure of another part
 * concerns only that part. */
static enum status run_parts(struct part_context *c, struct err *e)
{
    enum status st = OK;
    struct err failure = {0};
    const bool opened = group_agree(c->group, open_checkpoint(c, &failure), &failure) == OK;
    if (opened) err_clear(&failure);
    struct reads *reads = c->provenance.reads;
    const int64_t own_reads = reads->n;
    for (int i = 0; i < MEASURES_N; i++) {
        const struct measure *p = measures[i];
        if (!visit_wants(c->visit, i)) continue;
        c->began[i] = clock_seconds();
        st = p->state_of_variant
                 ? mem_zero(&c->state[i], c->visit->n_variants, p->state_of_variant, p->name, e)
                 : mem_zero(&c->state[i], 1, p->state, p->name, e);
        if (st == OK && p->open) st = p->open(c, e);
        PASS(group_agree(c->group, st, e));
    }
    for (int i = 0; i < MEASURES_N; i++) {
        struct err own = failure;
        if (!visit_wants(c->visit, i) || measures[i]->of_cells) continue;
        PASS(run_and_emit(c, i, &own, e));
        if (i == MEASURE_cell) failure = own;
        reads_drop(reads, own_reads);
    }
    return OK;
}

static void close_parts(struct part_context *c, enum status st)
{
    for (int i = MEASURES_N - 1; i >= 0; i--) {
        part_saved_end(c, c->saved[i], st);
        if (c->state[i] && measures[i]->close) measures[i]->close(c);
        free(c->state[i]);
    }
    free(c->ranks_fingerprint);
}

/* *own (the caller frees) = the fingerprint of cells; sets that with the group's ranks too. */
static enum status set_fingerprints(struct part_context *c, char **own, struct err *e)
{
    const struct run_options *o = &c->visit->run;
    MPI_Comm comm = c->group->comm;
    PASS(visit_fingerprint(comm, o, false, c->products, c->integers, own, e));
    c->provenance.fingerprint = *own;
    return visit_fingerprint(comm, o, true, c->products, c->integers, &c->ranks_fingerprint, e);
}

enum status visit_run(const struct visit *v, MPI_Comm comm, struct visit_cache *cache,
                      const struct visit_hooks *hooks, struct err *e)
{
    enum status st = OK;
    struct visit_group group = {0}, self = {0};
    struct pace pace;
    char *fingerprint = NULL;
    struct err lost = {0};
    struct greedy_choice choice = {0};
    struct reads reads = {0};
    struct part_context c = {.visit = v,
                             .hooks = hooks,
                             .group = &group,
                             .self = &self,
                             .cache = cache,
                             .threads = omp_get_max_threads(),
                             .start = clock_seconds(),
                             .provenance = {.visit = v, .weights_hash = "", .reads = &reads},
                             .pace = &pace,
                             .engine = &streams_engine,
                             .lost = &lost,
                             .choice = &choice};
    pace_open(&pace, v, hooks, cache);
    TRY(group_open(comm, &group, e));
    TRY(group_open(MPI_COMM_SELF, &self, e));
    TRY(err_agree(comm, linalg_reserve(c.threads, e), e));
    clock_utc(c.provenance.utc_start);
    choose_products(&c, (enum products)v->run.products);
    TRY(set_fingerprints(&c, &fingerprint, e));
    c.provenance.memory_limit = part_bound(&c);
    c.provenance.stamp = c.stamp[MEASURE_cell];
    visit_inputs_trim(cache);
    visit_states_remove(cache); /* the master has handed this visit out after the records before */
    /* Before they are read: what changes from now on counts as changed. */
    for (int i = 0; i < MEASURES_N; i++)
        if (group.rank == 0 && visit_wants(v, i)) visit_stamp(v, i, c.stamp[i]);
    TRY(run_parts(&c, e));
    pace_close(&pace);
done:
    close_parts(&c, st);
    greedy_choice_end(&c, st);
    model_close(c.model);
    checkpoint_close(c.checkpoint);
    reads_close(&reads);
    group_close(&group);
    group_close(&self);
    free(fingerprint);
    return st;
}
