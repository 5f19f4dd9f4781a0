/* train_job: what is trained, by whom, and what the weights of a run depend on. Local. */
#pragma once
#include "train/runs.h"
#include "util/hash.h"
#include <mpi.h>

/* The tokens of a recipe. */
struct train_source {
    char path[1024], hash[HASH_HEX];
    int64_t vocab;  /* of the tokenizer */
    int64_t tokens; /* of the text, at least */
    int32_t eos;    /* -1: unknown */
};

struct train_job {
    struct runs *runs;       /* known_runs.h may rename some */
    const bool *wanted;      // (runs->n) with the runs that they branch from
    bool (*must_stop)(void); /* asked between steps, by the first rank of a group */
    int64_t memory;          /* of a rank, for activations (trainer.h) */
    MPI_Comm world;
    /* Filled by train_all. */
    struct train_source *sources; // (n_recipes)
};

/* s->vocab, s->eos = those of the recipe's tokenizer. Local. Errors of tokenizer_open. */
MUST_USE enum status train_tokenizer(const struct recipe *r, struct train_source *s, struct err *e);

/* Whether two recipes train on the same tokens. */
bool train_same_data(const struct recipe *a, const struct recipe *b);

/* The config.json of a recipe, and what the weights of a run depend on; new references. */
MUST_USE enum status train_settings(const struct train_job *job, const struct run *r,
                                    json_t **config, json_t **settings, struct err *e);

/* How many of so many ranks train one run together. */
int64_t train_group_size(const struct train_job *job, int64_t ranks);
