/* weights: where the weights of a model come from. A stored folder, or something made of other
 * sources while it loads: a weighted sum, quantized weights, a random direction. Each kind is one
 * line of the table in weights_open.c; everything that needs weights takes a source instead of a
 * path.
 */
#pragma once
#include "checkpoint/checkpoint.h"
#include "config/sweep.h"
#include "util/err.h"
#include "util/json.h"

enum weights_kind {
    WEIGHTS_STORED,    /* the folder at path */
    WEIGHTS_SUM,       /* sum of coefficient * part over the parts (checkpoint_combine) */
    WEIGHTS_QUANTIZED, /* the first part, its linears quantized as the variant says */
    WEIGHTS_RANDOM,    /* a direction with the norms of the first part's rows (checkpoint_random) */
    WEIGHTS_KIND_N
};

/* Of a method and a width. */
struct variant {
    struct method_entry method; /* its bits list is not used */
    int64_t bits;
    char *key; /* of the cell; NULL: of no cell */
};
void variant_free(struct variant *v); /* not the struct itself */
MUST_USE enum status variant_copy(const struct method_entry *m, int64_t bits, const char *key,
                                  struct variant *out, struct err *e);

/* Zero but for a path: a stored folder. */
struct weights {
    int kind;   /* enum weights_kind */
    char *name; /* what recipes call it; NULL: path */
    char *path; /* stored */
    int64_t n;
    struct weights *parts;  // (n) made of these
    double coefficient;     /* of this one in the sum that it is a part of; else unused */
    struct variant variant; /* quantized */
    uint64_t stream;        /* random: of the numbers (rng.h) */
};
void weights_free(struct weights *w); /* not the struct itself */
MUST_USE enum status weights_copy(const struct weights *from, struct weights *out, struct err *e);
/* A source of that kind made of one other, which is copied. */
MUST_USE enum status weights_derive(enum weights_kind kind, const struct weights *from,
                                    struct weights *out, struct err *e);

/* The fields of both, for their JSON form (options.h). */
extern const struct option_table variant_table, weights_table;

/* "stored", "sum", ..., NULL behind the last. */
extern const char *const weights_kinds[];
/* How it is made of stored ones, by their names; "" of a stored one. Keys hash it where it is not
 * "". The caller frees. ERR_NOMEM. */
MUST_USE enum status weights_recipe(const struct weights *w, char **out, struct err *e);
/* The stored folder that lends it config.json and tokenizer; borrowed. */
const char *weights_folder(const struct weights *w);
/* Whether all stored folders are there. */
bool weights_present(const struct weights *w);

struct part_context;
/* Opens it; close *out with checkpoint_close. Its identity is checkpoint_hash: of the files, and of
 * what is done with them. context: the visit (part.h), then collective on its group; NULL: this
 * process alone, where there is nobody to quantize (ERR_USAGE). ERR_IO, ERR_FORMAT, ERR_SHAPE: a
 * folder is not there, broken, or unlike the others. */
MUST_USE enum status weights_open(const struct weights *w, const struct part_context *context,
                                  struct checkpoint **out, struct err *e);
/* The same of parts (w->n) that are open already; not collective but for quantized ones. */
MUST_USE enum status weights_open_from(const struct weights *w, const struct part_context *context,
                                       struct checkpoint *const *parts, struct checkpoint **out,
                                       struct err *e);
/* The digest of its weights, opened for that alone. Errors as of weights_open. */
MUST_USE enum status weights_hash(const struct weights *w, char hash[HASH_HEX], struct err *e);
