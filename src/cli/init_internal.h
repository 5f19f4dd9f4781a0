/* init_internal: what the files of qtraj init share. */
#pragma once
#include "cli/args.h"
#include "util/texts.h"

/* What a checkpoint's folder says of its place in training. */
struct init_checkpoint {
    char *name; /* of the folder */
    int64_t step;
    double tokens, learning_rate;
    char *tokenizer; /* path; NULL: neither the folder nor the one above has one */
};                   /* not known: -1, NaN, NaN */

struct run_folder {
    char *path; /* without links */
    char *name, *table;
    char *parent; /* the run that its own table says it branches from, or NULL */
    bool own;     /* the table is the folder's own trajectory.csv, as of qtraj train */
    int64_t rows; /* of that table */
    int64_t n, capacity;
    struct init_checkpoint *checkpoints; // (n)
};

struct init {
    const char *out, *tokenizer;
    struct texts texts;
    bool force;
    char *folder;            /* of the sweep file, without links */
    char *stem;              /* its name without the ending */
    struct texts text_paths; /* of texts, from the root */
    char *tokenizer_path;
    int64_t n, capacity;
    struct run_folder *runs;
};

/* Checkpoints that a sweep over the run visits: those of the table, where the folder has one. */
int64_t init_swept(const struct run_folder *r);
/* Append to *text (the caller frees) a run's table of trajectory; the sweep file. ERR_USAGE: a
 * tokenizer is missing, a name is no UTF-8; ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status init_table_text(const struct run_folder *r, char **text, struct err *e);
MUST_USE enum status init_sweep_text(const struct init *o, char **text, struct err *e);
/* Prints which runs with tables of their own an edited sweep file lacks, as its models; nothing
 * if it cannot be read. Errors as above. */
MUST_USE enum status init_print_missing(const struct init *o, struct err *e);
