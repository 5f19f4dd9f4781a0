/* weights: a source of a model's weights: a stored folder, or a combination of other sources that
 * is computed while it loads (a weighted sum, an average, quantized weights, a random direction).
 * Each kind is one line of the table in weights_open.c. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "config/sweep.h"
#include "util/err.h"
#include "util/json.h"

enum weights_kind {
    WEIGHTS_STORED,    /* the folder at path */
    WEIGHTS_SUM,       /* sum of coefficient * part over the parts (checkpoint_combine) */
    WEIGHTS_AVERAGE,   /* the mean of the parts by their coefficients (checkpoint_average) */
    WEIGHTS_GREEDY,    /* the mean of those parts that a text chooses (weights_greedy.h) */
    WEIGHTS_QUANTIZED, /* the first part with its linears quantized as `variant` */
    WEIGHTS_RANDOM,    /* a direction with the norms of the first part's rows (checkpoint_random) */
    WEIGHTS_KIND_N
};

/* A method and a bit-width, and on which calibration sequences. */
struct variant {
    struct method_entry method; /* its bits list and number of replicates are not used */
    int64_t bits;
    int64_t replicate; /* 0: a cell; else the number of the draw (eval/draws.h) it calibrates on */
    char *key;         /* key of its record; NULL: it has none */
    bool scored;       /* the cell's record exists; only its completion is computed */
    bool complete;     /* and its completion too: only what else is asked for */
    char *records;     /* further records that are asked for (wanted.h); NULL: none */
};
/* Whether the parts behind the blocks complete its record. */
static inline bool variant_is_completed(const struct variant *v)
{
    return v->replicate == 0 && !v->complete;
}
MUST_USE enum status variant_copy(const struct method_entry *m, int64_t bits, const char *key,
                                  struct variant *out, struct err *e);

/* A zero-initialised struct with a path is a stored folder. */
struct weights {
    int kind;             /* enum weights_kind */
    char *name;           /* its name in recipes; NULL: the path */
    char *path;           /* stored */
    char *config, *known; /* of a stored one with a config.json of the first digest, of one that
                             said the same: checkpoint_known_as; NULL: as it is */
    int64_t n;
    struct weights *parts; // (n) the sources that it is computed from
    double coefficient;    /* of this source in a sum or an average that it is a part of */
    bool f32;              /* average, greedy: its values are not rounded to the parts' type */
    struct data_options heldout;     /* greedy: the text */
    struct data_options calibration; /* greedy: of `variant` */
    char *identity; /* greedy: digest of the text and how it is cut, and who judges */
    bool evaluated; /* greedy: the text may share sequences with those that are evaluated on */
    bool chosen;    /* greedy: the choice is known: parts with a coefficient other than 0 */
    struct variant variant; /* quantized; greedy: judged so, no method: in full precision */
    uint64_t stream;        /* random: stream of the random numbers (rng.h) */
};
MUST_USE enum status weights_copy(const struct weights *from, struct weights *out, struct err *e);
/* *out = a source of that kind with a copy of `from` as its only part. */
MUST_USE enum status weights_derive(enum weights_kind kind, const struct weights *from,
                                    struct weights *out, struct err *e);

/* Option tables of both structs: their JSON form, and what options_free frees. */
extern const struct option_table variant_table, weights_table;

/* Frees what *w owns. */
static inline void weights_free(struct weights *w)
{
    options_free(&weights_table, w);
}

/* "stored", "sum", ..., NULL after the last. */
extern const char *const weights_kinds[];
/* *out (the caller frees) = a text that says how w is computed from stored sources, by their names:
 * "average(a, b)", "average f32(2 a, 1 b)", "sum(0.5 a, 0.5 b)"; coefficients that are all 1 are
 * left out of an average. "greedy(a, b, c; text DIGEST)" names all that it chooses from, "; judge
 * gptq 3 DIGEST" who judges. "" for a stored one. It is part of cell keys unless it is "".
 * ERR_NOMEM. */
MUST_USE enum status weights_recipe(const struct weights *w, char **out, struct err *e);
/* The stored folder whose config.json and tokenizer it uses; borrowed. */
const char *weights_folder(const struct weights *w);
/* Number of stored folders that are read to read it once; at most so many if it is greedy. */
int64_t weights_reads(const struct weights *w);
/* Whether all stored folders that it needs exist. */
bool weights_present(const struct weights *w);

struct part_context;
/* Opens the source; close *out with checkpoint_close. checkpoint_hash of *out identifies the files
 * and the computation. context: the running visit (part.h), then collective on its group; NULL:
 * local, without quantized weights and without a choice that is to be made (ERR_USAGE). ERR_IO,
 * ERR_FORMAT, ERR_SHAPE: a folder is missing, damaged, or does not match the others. */
MUST_USE enum status weights_open(const struct weights *w, const struct part_context *context,
                                  struct checkpoint **out, struct err *e);
/* The same from parts (w->n) that are already open; collective only if w is quantized. */
MUST_USE enum status weights_open_from(const struct weights *w, const struct part_context *context,
                                       struct checkpoint *const *parts, struct checkpoint **out,
                                       struct err *e);
/* Opens the source to get its checkpoint_hash. Local. Errors as weights_open. */
MUST_USE enum status weights_hash(const struct weights *w, char hash[HASH_HEX], struct err *e);

/* A file of the quantized linears of a checkpoint, in the order in which a visit quantizes them.
 * Local. */

/* Creates the file with a header for every linear of the checkpoint, in f32; *n_linears (may be
 * NULL) = their number. Append their values in the visit's order, then commit (safetensors.h).
 * ERR_IO, ERR_FULL, errors of model_parameters. */
MUST_USE enum status weights_file_create(const struct checkpoint *c, const char *path,
                                         int64_t *n_linears, struct safetensors_out **out,
                                         struct err *e);

/* *path (the caller ends it with temporary_end) = a temporary name (util/temporary.h) in the
 * scratch folder (option run.scratch), which may be shared with other hosts. ERR_USAGE: there is no
 * scratch folder; ERR_IO, ERR_NOMEM. */
MUST_USE enum status weights_file_scratch(const char *scratch, char **path, struct err *e);
