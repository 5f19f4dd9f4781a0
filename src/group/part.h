/* part: one kind of work in a visit: its cells, their second order, curvature, movement, or a
 * point of a surface. Each is one const struct and one line in the table of visit/parts.c.
 *
 * A visit is a source of weights and parts. The parts run one after the other in the order of the
 * table, each on all ranks of the group; they share the context. */
#pragma once
#include "group/group.h"
#include "group/pace.h"
#include "group/provenance.h"
#include "group/task.h"
#include "memory/cost.h"
#include "memory/memory_after.h"
#include "quant/quant.h"
#include "saved/saved.h"

struct part_engine;

/* What the parts of a running visit share. */
struct part_context {
    const struct visit *visit;
    const struct visit_hooks *hooks;
    const struct visit_group *group, *self; /* self: this rank alone */
    struct visit_cache *cache;
    int64_t threads;
    enum products products;        /* of the forward passes, agreed by the ranks; not AUTO */
    double start;                  /* clock_seconds when the visit began */
    struct checkpoint *checkpoint; /* NULL if no part needs it or it cannot be opened */
    struct model *model;           /* as checkpoint */
    struct provenance provenance;
    struct pace *pace;           /* of this visit */
    struct saved *saved[PART_N]; /* state of the parts' work, ended with the visit (part_saved.h) */
    void *state[PART_N];         /* private state of each part, NULL until the part is opened */
    const struct part_engine *engine;
    char seen[PART_N][HASH_HEX];  /* of each part, when the visit began: visit_seen */
    struct err *lost;             /* why a record could not be given away, which ends the visit */
    struct greedy_choice *choice; /* of the visit's own weights (weights_greedy.h) */
};

/* Memory limit of a rank in bytes; 0: none. */
static inline int64_t part_bound(const struct part_context *c)
{
    return c->visit->run.memory ? c->visit->run.memory : c->hooks->memory;
}

/* Emits a finished record and releases it. NULL: it could not be allocated (ERR_NOMEM). */
MUST_USE enum status part_emit(const struct part_context *c, json_t *record, struct err *e);

/* Receives quantized weights during a pass over the blocks, in the order of the blocks' linears. */
struct weights_sink {
    void *context;
    /* Called on every rank with the dequantized weights q (rows, cols) of l, and their grids (NULL
     * unless wanted); both borrowed. */
    enum status (*linear)(void *context, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e);
    bool grids; /* wants the grids of methods that have them (quant_method.describe_grids) */
};

/* Functions of the engine (visit/) that parts in lower folders call. Collective on the context's
 * group. They use the visit's evaluation and calibration texts, memory limits and hooks. */
struct part_engine {
    /* Quantizes checkpoint c as one variant and passes the weights to the sink. Errors of the
     * checkpoint, the inputs and the method; ERR_STOPPED. */
    enum status (*quantize)(const struct part_context *context, struct checkpoint *c,
                            const struct variant *variant, const struct weights_sink *sink,
                            struct err *e);
    /* *datasets (a new reference) = the metrics of checkpoint c in full precision: {DATASET:
     * {FIELD: number, ...}, ...}; *planned = peak memory of a rank in bytes. text: what it is
     * evaluated on; NULL: the visit's texts, and the visit's pace is told. */
    enum status (*evaluate)(const struct part_context *context, struct checkpoint *c,
                            const struct data_options *text, json_t **datasets, int64_t *planned,
                            struct err *e);
    /* Emits the completion of the cell of a variant of the visit, whose parts are through with it,
     * unless the cell has failed or it is there. Not collective; only the group's rank 0 emits. */
    enum status (*complete)(const struct part_context *context, const struct variant *variant,
                            struct err *e);
};

/* Functions may be NULL. Those that take a context are collective on its group unless noted. */
struct part {
    const char *name; /* key of its task in a visit's JSON */
    bool of_model;    /* needs the visit's checkpoint open */
    bool of_cells;    /* its results complete the cells' records */

    /* Adds to a digest (seen.h) the input files of its records other than the visit's weights and
     * tokenizer. */
    void (*inputs)(const struct visit *v, char seen[HASH_HEX]);

    /* Whether the visit requests this part; NULL: it does if it has a task for it. */
    bool (*wanted)(const struct visit *v);
    const struct option_table *task; /* fields of its task; NULL: it has no task */

    /* Work that it adds to a visit on a text t: once, and for each cell. kept: activations are
     * retained, as `memory` decides. */
    void (*cost)(const void *task, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell);
    /* Memory that it takes after the blocks (memory_after.h), for plans and for running visits.
     * may_keep: activations may be retained. ERR_NOMEM, ERR_USAGE: a limit is too small; *out is
     * set anyway. */
    enum status (*memory)(const void *task, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e);
    bool in_fixed_order; /* with run.reproducible one rank does it, so that no bit depends on the
                            number of ranks */

    size_t state; /* bytes of its zero-initialised state */
    /* Initialises its state; called even if the checkpoint could not be opened. */
    enum status (*open)(struct part_context *c, struct err *e);
    /* Called before the blocks: prepares what `linear` needs. */
    enum status (*begin)(struct part_context *c, struct err *e);
    /* Receives a quantized linear of one of the visit's variants, as struct weights_sink. */
    enum status (*linear)(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e);
    /* Moves what `linear` has received of a variant into a saved state of the blocks or out of one
     * (saved.h); needed if it has `linear` and visits with this part save states. Not collective.
     */
    void (*move)(struct part_context *c, const struct variant *v, struct saved_move *m);
    /* Does its work. An error becomes the failure of its records, except ERR_STOPPED, ERR_FULL and
     * ERR_MPI, which end the visit. */
    enum status (*run)(struct part_context *c, struct err *e);
    /* Adds its fields to the completion of a cell's record (variant NULL: of the checkpoint's), and
     * to "completes" the digest of its settings, also if they could not be computed. failure: why
     * the part was not run; code OK for none. Called on rank 0 only. */
    void (*annotate)(const struct part_context *c, const struct variant *v,
                     const struct err *failure, json_t *record);
    /* Emits its records. failure: code OK for none. Called on rank 0 only. */
    enum status (*emit)(struct part_context *c, const struct err *failure, struct err *e);
    void (*close)(struct part_context *c); /* frees what its state owns */
};
