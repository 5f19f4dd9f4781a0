/* task: the description of one visit, and what connects it with its caller. */
#pragma once
#include "config/sweep.h"
#include "group/weights.h"
#include "model/model.h"
#include "util/err.h"
#include "util/json.h"
#include <mpi.h>

struct lru;

/* What a visit is made of, in the order in which it runs (visit/parts.c has the table). */
enum part_id { PART_CELLS, PART_SECOND_ORDER, PART_CURVATURE, PART_SURFACE, PART_N };

/* Everything that a worker needs to know. */
struct visit {
    char *model, *checkpoint; /* labels */
    struct weights weights;   /* of the checkpoint */
    char *tokenizer;          /* file, NULL: as visit_tokenizer finds it */
    char *key;                /* of the record of the checkpoint, or of the point of a surface */
    struct run_options run;   /* threads, bounds of memory, what states are held as */
    int64_t n_variants;
    struct variant *variants;
    struct data_options calibration; /* neither text nor ids: none */
    int64_t n_evaluations;
    struct data_options *evaluations;
    bool cells_only;    /* the checkpoint has its record, or another piece of the visit makes it */
    void *task[PART_N]; /* of the parts that have one of their own; NULL: not asked for */
};

/* What outlives a visit: tokenizer and token sequences of the inputs last used, a surface's plane.
 * Zero-initialise; owned by the caller. */
struct visit_cache {
    struct lru *inputs;   /* inputs.h */
    struct lru *surfaces; /* surface.h */
};

/* How a visit talks to its caller. All may be NULL but emit. */
struct visit_hooks {
    void *context;
    /* What `auto` is for run.memory_per_rank (0: no bound), and the ranks that share the node's
     * scratch. */
    int64_t memory, ranks;
    /* One finished record (borrowed). */
    enum status (*emit)(void *context, const json_t *record, struct err *e);
    /* Asked once a block: true drops the visit (ERR_STOPPED). Collective on the group. */
    bool (*should_stop)(void *context);
    /* A quantized linear, on every rank: dequantized weights (rows, cols), borrowed.
     * Single-checkpoint commands write them out. */
    enum status (*weights)(void *context, const struct variant *v, const struct linear *original,
                           const float *q, struct err *e);
    /* The full-precision stream at the end: hidden states (tokens, C) before the final norm,
     * borrowed. */
    enum status (*hidden)(void *context, const struct model *m, const struct sequences *s,
                          const float *x, struct err *e);
};
