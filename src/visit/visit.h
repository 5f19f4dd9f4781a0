/* visit: one checkpoint opened once, for its own metrics and a batch of its variants.
 *
 * A visit walks the decoder blocks once. The full-precision stream carries the evaluation
 * sequences; each variant has a stream of its own with evaluation sequences and, if its method
 * wants them, calibration sequences, which go stage by stage: a stage's input comes from the
 * variant's own already quantized earlier stages. At the head all streams are scored together. See
 * docs/architecture.md.
 */
#pragma once
#include "config/sweep.h"
#include "model/model.h"
#include "util/err.h"
#include "util/json.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct variant {
    struct method_entry method; /* its bits list is not used */
    int64_t bits;
    char *key; /* of the cell */
};

/* Everything that a worker needs to know. */
struct visit {
    char *model, *checkpoint; /* labels */
    char *path;               /* the checkpoint's folder */
    char *tokenizer;          /* file, NULL: as visit_tokenizer finds it */
    char *key;                /* of the checkpoint record */
    struct run_options run;   /* threads, bounds of memory, what states are held as */
    int64_t n_variants;
    struct variant *variants;
    struct data_options calibration; /* neither text nor ids: none */
    int64_t n_evaluations;
    struct data_options *evaluations;
    bool cells_only; /* another piece of the visit gives the checkpoint's own record, or it is there
                        and only curvature is missing */
    struct curvature_task *curvature; /* (curvature.h), NULL: none */
    struct surface_task *surface;     /* a point of a loss surface instead of the checkpoint at path
                                         (surface.h); NULL: the checkpoint */
    struct second_order_task *second_order; /* of each variant (second_order.h); NULL: no */
};
void visit_free(struct visit *v);
/* A new reference, NULL when out of memory; and back. */
json_t *visit_to_json(const struct visit *v);
MUST_USE enum status visit_from_json(const json_t *json, struct visit *out, struct err *e);

/* A visit can be run in pieces. Its parts: 0 is the checkpoint's own record, i + 1 its variant i,
 * the last one its curvature, if that is asked for. Keeps the n parts (ascending) of v. */
void visit_keep_parts(struct visit *v, const int64_t *parts, int64_t n);

/* What outlives a visit: tokenizer and token sequences of the inputs last used, a surface's plane.
 * Zero-initialise; owned by the caller. */
struct visit_cache {
    struct kept *inputs;   /* see inputs.c */
    struct kept *surfaces; /* see surface.c */
};
void visit_cache_free(struct visit_cache *c);

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

/* Runs the visit and emits one checkpoint record (unless cells_only), one cell record a variant,
 * then the curvature record if that is asked for. What is wrong with the checkpoint, its inputs, a
 * variant or the curvature becomes failed records (status OK here). Collective on group; only its
 * rank 0 emits. ERR_STOPPED: dropped, with all that was not emitted before; others: of the hooks,
 * or ERR_NOMEM while writing the records. */
MUST_USE enum status visit_run(const struct visit *v, MPI_Comm group, struct visit_cache *cache,
                               const struct visit_hooks *hooks, struct err *e);

/* The tokenizer.json of a checkpoint folder, or of the folder above it, which a trajectory's
 * checkpoints may share. *path is NULL when there is none; the caller frees. ERR_NOMEM. */
MUST_USE enum status visit_tokenizer(const char *checkpoint, char **path, struct err *e);

/* What the last bits of a result may depend on: versions, BLAS kernel, ranks of the group (any
 * when the numbers are made not to depend on them, which those of curvature never are). The caller
 * frees. */
MUST_USE enum status visit_fingerprint(MPI_Comm group, const struct run_options *o, bool curvature,
                                       char **out, struct err *e);
