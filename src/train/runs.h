/* runs: the runs file: what is trained. Local. */
#pragma once
#include "checkpoint/safetensors.h"
#include "train/corpus.h"
#include "train/initial.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include <stdio.h>

enum { RUNS_FROM_MAX = 256, RUNS_MAX = 100000 };

struct batch_options {
    int64_t sequences, length, micro; /* micro: sequences of a micro-batch */
};
struct checkpoint_options {
    int64_t every, n_at; /* every 0: only `at` and the last */
    int64_t at[RUNS_FROM_MAX];
    int dtype; /* 0: float32, 1: bfloat16 */
    bool states;
};
struct branch_options {
    char *name, *of; /* with {from}; NULL: of the run itself */
    int64_t n_from, from[RUNS_FROM_MAX], steps;
    struct schedule schedule;
    bool own_peak;
};
struct train_run_options {
    int64_t ranks; /* that train one run together; 0: auto */
    int products;
    char *save; /* time between states of a run in training */
    double save_seconds;
};

/* A runs file with one combination of its grid. */
struct recipe {
    char *name, *output, *tokenizer, *then;
    int64_t steps, seed;
    struct model_options model;
    struct corpus_options data;
    struct batch_options batch;
    struct optimizer_options optimizer;
    struct schedule schedule;
    struct checkpoint_options checkpoints;
    int64_t n_branches;
    struct branch_options *branches;
    struct train_run_options run;
};
extern const struct option_table recipe_table;

/* Steps (first, last] of a model's training. */
struct run {
    char *name; /* its folder in the recipe's output */
    const struct recipe *recipe;
    int64_t parent;   /* the run that it branches from, before it in the list; -1: none */
    const char *left; /* its name, borrowed; NULL: none */
    int64_t first, last;
    struct schedule schedule; /* resolved; its texts are borrowed */
    int64_t others;           /* states up to this step may be another file's (known_runs.h) */
};

struct runs {
    int64_t n_recipes, n;
    struct recipe *recipes; // (n_recipes)
    struct run *runs;       // (n) each combination's own run, then its branches
    bool grid;              /* of several combinations or keys: they are named after their values */
};

/* Reads a runs file. overrides: n texts "key=value". Free with runs_free. ERR_USAGE with file,
 * line, key, what was expected; ERR_IO, ERR_NOMEM. */
MUST_USE enum status runs_read(const char *path, const char *const *overrides, int64_t n,
                               struct runs *out, struct err *e);
void runs_free(struct runs *r);
/* Prints every key of a runs file, and *out (a new reference) = the same as JSON, as of a sweep
 * file. ERR_NOMEM. */
void runs_print_options(FILE *out);
MUST_USE enum status runs_options_json(json_t **out, struct err *e);
/* Whether the run has a checkpoint at a step; whether a branch of it begins there. */
bool run_has_checkpoint(const struct run *r, int64_t step);
bool run_is_left_at(const struct runs *all, int64_t run, int64_t step);
/* The number of its checkpoints behind a step of it, or its first. */
int64_t run_checkpoints(const struct run *r, int64_t step);
/* Tokens of one step. */
int64_t run_step_tokens(const struct run *r);
/* *out (the caller frees) = the path of `name` in the run's folder; "" and %s as of printf. */
MUST_USE enum status run_path(const struct run *r, char **out, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
