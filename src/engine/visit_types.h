/* visit_types: the description of one visit, and the hooks through which it talks to its caller. */
#pragma once
#include "config/sweep.h"
#include "engine/weights.h"
#include "model/model.h"
#include "records/measures.h"
#include "task/accuracy.h"
#include "util/err.h"
#include "util/json.h"
#include <mpi.h>

struct lru;
struct saved;

/* Everything that a worker needs to know about a visit. */
struct visit {
    char *model, *checkpoint; /* labels */
    char *known;            /* the model's name in digests of weights (reads.h); NULL: the label */
    struct weights weights; /* of the checkpoint */
    char *tokenizer;        /* path; NULL: visit_tokenizer finds it */
    json_t *inputs; /* {NAME: digest} of what the visit reads but its weights, by which the keys of
                       its records were made (inputs.h); NULL: nothing is planned. Owned */
    char *key;      /* key of the checkpoint's record, or of the surface point's */
    struct run_options run; /* threads, memory limits, type of the hidden states */
    int64_t n_variants;
    struct variant *variants;
    struct data_options calibration; /* neither text nor ids: none */
    int64_t seed;                    /* of the replicates' calibration sequences */
    int64_t n_evaluations;
    struct data_options *evaluations;
    char *texts; /* their digests, by which records name them, one a line; NULL: labels do */
    /* Texts that the replicates' calibration avoids, and their digests as in texts; none: it avoids
     * the evaluations. */
    int64_t n_drawn;
    struct data_options *drawn;
    char *drawn_texts;
    struct requests_options requests; /* multiple-choice tasks; tasks NULL: none. A visit of a
                                         sweep scores those that records are asked of */
    bool log_likelihoods;             /* their records have those of all choices */
    char *records;                    /* further records of the checkpoint (wanted.h); NULL: none */
    bool cells_only;         /* no checkpoint record: it exists or another batch emits it */
    bool scored;             /* the checkpoint's record exists; only its completion is emitted */
    void *setup[MEASURES_N]; /* setups of the measures; NULL: not requested */
    char *record_key[MEASURES_N]; /* keys of the records that they make of the checkpoint; NULL:
                                     none */
};

/* Seconds of work: as planned, of that what turned out to be needed (a search may end early), and
 * what that took. */
struct pace_measured {
    double planned, needed, taken;
};
/* What earlier visits of a model took (pace.h). */
struct pace_past {
    uint64_t model; /* a hash of its name; the next model starts over */
    struct pace_measured parts[MEASURES_N];
};

/* Data cached between visits: recently used token sequences and planes of surfaces.
 * Zero-initialise; owned by the caller. */
struct visit_cache {
    struct lru *inputs;   /* inputs.h */
    struct lru *surfaces; /* surface.h */
    struct pace_past past;
    struct saved *ended; /* states of finished work whose records may be on their way (saved.h) */
};

/* Callbacks of a visit. All except emit may be NULL. */
struct visit_hooks {
    void *context;
    /* The value of run.memory_per_rank if that is `auto` (0: no limit), and the number of ranks
     * that share the node's scratch. */
    int64_t memory, ranks;
    /* Receives one finished record (borrowed). Called on the group's rank 0. */
    enum status (*emit)(void *context, const json_t *record, struct err *e);
    /* Called once per block: true aborts the visit (ERR_STOPPED). Collective on the group. */
    bool (*should_stop)(void *context);
    /* How far the visit is, on every rank (pace.h): what it does, and the seconds that its rest
     * takes; `once`: those spent so far on what later visits find ready; last: it is done. planned
     * (MEASURES_N): what each of its parts is expected to take; NULL: not known. */
    void (*progress)(void *context, const char *what, double left, double once, bool last);
    const double *planned;
    /* Not NULL: nothing is run, all records of the visit are failed ones with this message. */
    const char *refusal;
    /* Receives each quantized linear on every rank: dequantized weights q (rows, cols) and, with
     * `grids`, their integer grids (NULL: the method has none); both borrowed. `qtraj quantize`
     * writes them to files. */
    enum status (*weights)(void *context, const struct variant *v, const struct linear *original,
                           const float *q, const struct quant_grids *grids, struct err *e);
    bool grids;
    /* Receives the full-precision final hidden states (tokens, C) before the norm, borrowed. */
    enum status (*hidden)(void *context, const struct model *m, const struct sequences *s,
                          const float *x, struct err *e);
    /* Receives what the full-precision model gives to the requests of the tasks, borrowed. */
    enum status (*answers)(void *context, const struct requests *r, const struct answers *a,
                           struct err *e);
};
