/* part: the work of a measure (records/measures.h) in a visit: what those of a running visit share,
 * and what they may ask of the engine. */
#pragma once
#include "engine/group.h"
#include "engine/pace.h"
#include "engine/provenance.h"
#include "engine/visit_types.h"
#include "memory/cost.h"
#include "memory/memory_after.h"
#include "quant/quant.h"
#include "records/saved.h"

struct part_engine;

/* What the parts of a running visit share. */
struct part_context {
    const struct visit *visit;
    const struct visit_hooks *hooks;
    const struct visit_group *group, *self; /* self: this rank alone */
    struct visit_cache *cache;
    int64_t threads;
    enum products products;   /* of the forward passes, agreed by the ranks; not AUTO */
    bool integers;            /* codes are multiplied as such (integers_run), agreed likewise */
    double start;             /* clock_seconds when the visit began, */
    double began[MEASURES_N]; /* and when each part did */
    struct checkpoint *checkpoint; /* NULL if no part needs it or it cannot be opened */
    struct model *model;           /* as checkpoint */
    struct provenance provenance;
    char *ranks_fingerprint; /* of measures that are by_ranks */
    struct pace *pace;       /* of this visit */
    struct saved
        *saved[MEASURES_N];  /* state of the parts' work, ended with the visit (part_saved.h) */
    void *state[MEASURES_N]; /* private state of each part, NULL until the part is opened */
    const struct part_engine *engine;
    char stamp[MEASURES_N][HASH_HEX]; /* of each part, when the visit began: visit_stamp */
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

/* A new record of measure i of the checkpoint, as provenance_record but without datasets; its
 * "seconds" are those since the part began. */
json_t *part_record(const struct part_context *c, int i, const struct err *failure);

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
     * {FIELD: number, ...}, ...}; *planned = peak memory of a rank in bytes. */
    enum status (*evaluate)(const struct part_context *context, struct checkpoint *c,
                            json_t **datasets, int64_t *planned, struct err *e);
    /* *loss = that of checkpoint c on the text that w, a greedy soup, is chosen by, quantized as it
     * says. */
    enum status (*judge)(const struct part_context *context, struct checkpoint *c,
                         const struct weights *w, double *loss, struct err *e);
    /* Emits the completion of the cell of a variant of the visit, which the parts have finished,
     * unless the cell has failed or it is there. Not collective; only the group's rank 0 emits. */
    enum status (*complete)(const struct part_context *context, const struct variant *variant,
                            struct err *e);
};
