/* part: what a visit is made of: cells, their second order, curvature, a point of a surface. Each
 * is one const struct, one line in the table of visit/parts.c.
 *
 * A visit is a source of weights and parts. The parts run one after the other in the order of the
 * table, each on all ranks of the group; what they have in common is the context. */
#pragma once
#include "group/group.h"
#include "group/provenance.h"
#include "group/task.h"
#include "memory/cost.h"
#include "memory/memory_after.h"

struct part_engine;

/* What the parts of a running visit share. */
struct part_context {
    const struct visit *visit;
    const struct visit_hooks *hooks;
    const struct visit_group *group, *self; /* self: this rank alone */
    struct visit_cache *cache;
    int64_t threads;
    double start;                  /* clock_seconds when the visit began */
    struct checkpoint *checkpoint; /* NULL where no part works on it, or it cannot be opened */
    struct model *model;           /* likewise */
    struct provenance provenance;
    void *state[PART_N]; /* each part's own, NULL until it is opened */
    const struct part_engine *engine;
};

/* Bytes that a rank may take; 0: no bound. */
static inline int64_t part_bound(const struct part_context *c)
{
    return c->visit->run.memory ? c->visit->run.memory : c->hooks->memory;
}

/* Emits a finished record, which is taken over; NULL: there was no memory for it (ERR_NOMEM). */
static inline enum status part_emit(const struct part_context *c, json_t *record, struct err *e)
{
    NEED(record, ERR_NOMEM, "out of memory for a record");
    enum status st = c->hooks->emit(c->hooks->context, record, e);
    json_decref(record);
    return st;
}

/* Where a pass of the blocks leaves quantized weights, in the order of the blocks' linears. */
struct weights_sink {
    void *context;
    /* On every rank, q (rows, cols) borrowed: the dequantized weights of l. */
    enum status (*linear)(void *context, const struct variant *v, const struct linear *l,
                          const float *q, struct err *e);
};

/* What the engine does for parts that lie below it. Collective on the context's group; the visit's
 * evaluation and calibration texts, memory bounds and hooks are used. */
struct part_engine {
    /* Quantizes checkpoint c as one variant; the weights go to the sink. Errors as of the
     * checkpoint, the inputs and the method; ERR_STOPPED. */
    enum status (*quantize)(const struct part_context *context, struct checkpoint *c,
                            const struct variant *variant, const struct weights_sink *sink,
                            struct err *e);
    /* *datasets (a new reference): {DATASET: {FIELD: number, ...}, ...}, what the metrics say of
     * checkpoint c in full precision; *planned: bytes of a rank at the peak. */
    enum status (*evaluate)(const struct part_context *context, struct checkpoint *c,
                            json_t **datasets, int64_t *planned, struct err *e);
};

/* Functions that are NULL have nothing to do. All but those of tasks are collective on the
 * context's group. */
struct part {
    const char *name; /* of its task in a visit's JSON */
    bool of_model;    /* it needs the visit's checkpoint open */
    bool of_cells;    /* its results are fields of the cells' records, which wait for it */

    /* Its task. wanted: whether the visit asks for it; NULL: if it has the task. */
    bool (*wanted)(const struct visit *v);
    const struct option_table *task; /* its fields; NULL: it has none */

    /* What it adds to a visit's work on such a text: once, and for each of its cells. */
    void (*cost)(const void *task, const struct model_sizes *m, const struct cost_tokens *t,
                 struct cost *once, struct cost *cell);
    /* What it takes after the blocks (memory_after.h), for plans and for a rank that begins.
     * may_keep: activations may be kept. ERR_NOMEM, ERR_USAGE: too little; *out is set all the
     * same. */
    enum status (*memory)(const void *task, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e);
    bool in_fixed_order; /* one rank does it where no bit may depend on how many there are
                            (run.reproducible) */

    size_t state; /* bytes of its state, which starts zeroed */
    /* Fills its state, also where the checkpoint could not be opened. */
    enum status (*open)(struct part_context *c, struct err *e);
    /* Before the blocks: makes what `linear` needs. */
    enum status (*begin)(struct part_context *c, struct err *e);
    /* A quantized linear of a variant of the visit, as weights_sink. */
    enum status (*linear)(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, struct err *e);
    /* Does its work. What is returned becomes the failure of its records, but for ERR_STOPPED,
     * ERR_FULL and ERR_MPI, which end the visit. */
    enum status (*run)(struct part_context *c, struct err *e);
    /* Adds its fields to the record of a cell (variant NULL: of the checkpoint). Rank 0 only. */
    void (*annotate)(const struct part_context *c, const struct variant *v, json_t *record);
    /* Emits its records. failure: code OK for none. Rank 0 only. */
    enum status (*emit)(struct part_context *c, const struct err *failure, struct err *e);
    void (*close)(struct part_context *c); /* frees what its state owns */
};
