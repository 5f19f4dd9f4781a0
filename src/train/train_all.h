/* train_all: trains the runs of a runs file by groups of ranks. A group takes the next run that
 * nobody trains and whose beginning is there: locks say so, so that groups, processes and jobs that
 * see the same folder share the work without a master (docs/decisions/0036-training.md). */
#pragma once
#include "train/runs.h"
#include "util/hash.h"
#include <mpi.h>

/* The tokens of a recipe. */
struct train_source {
    char path[1024], hash[HASH_HEX];
    int64_t vocab; /* of the tokenizer */
    int32_t eos;   /* -1: unknown */
};

struct train_job {
    const struct runs *runs;
    const bool *wanted;      // (runs->n) with the runs that they branch from
    bool (*must_stop)(void); /* asked between steps, by the first rank of a group */
    int64_t memory;          /* of a rank, for activations (trainer.h) */
    MPI_Comm world;
    /* Filled by train_all. */
    struct train_source *sources; // (n_recipes)
};

struct train_totals {
    int64_t wanted, done, diverged;
};

/* Trains all that is wanted and not done. A run that cannot be trained is reported and left out, a
 * diverged one ends; the rest goes on. Collective on world. ERR_STOPPED: as must_stop said, all
 * states are saved; ERR_FULL, ERR_IO, ERR_NOMEM: a restart goes on; errors of corpus_prepare. */
MUST_USE enum status train_all(struct train_job *job, struct train_totals *out, struct err *e);

/* s->vocab, s->eos = those of the recipe's tokenizer. Local. Errors of tokenizer_open. */
MUST_USE enum status train_tokenizer(const struct recipe *r, struct train_source *s, struct err *e);

/* --- one run; internal --- */
struct run_files;
/* The config.json of a recipe, and what the weights of a run depend on; new references. */
MUST_USE enum status train_settings(const struct train_job *job, const struct run *r,
                                    json_t **config, json_t **settings, struct err *e);
/* Trains a run from its last state to its end. files: of the first rank, taken over. Collective on
 * group. Errors as above. */
MUST_USE enum status train_run(const struct train_job *job, int64_t run, MPI_Comm group,
                               struct run_files *files, const json_t *config, struct err *e);
