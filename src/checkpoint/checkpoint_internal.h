/* checkpoint_internal: the representation of a checkpoint, for checkpoint.c and derived.c only.
 * The weights of a stored checkpoint are read from its files; those of a derived one (derived.c)
 * are computed from other checkpoints while they are read. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "checkpoint/packed.h"
#include "checkpoint/weight_format.h"

struct checkpoint {
    int64_t more_owners; /* beyond the first, see checkpoint_retain */
    char *dir;
    json_t *config; /* a reference, possibly shared with other checkpoints */
    char hash[HASH_HEX];
    int64_t n;
    struct tensor_entry *entries; /* sorted by name; names are borrowed from the files' entries */

    /* dst (n) = elements [first, first + n) of t, one of `entries`. Thread-safe. */
    enum status (*read)(const struct checkpoint *c, const struct tensor_entry *t, int64_t first,
                        int64_t n, float *dst, struct err *e);
    /* The same in t's type; NULL: there is no such form. Thread-safe. */
    enum status (*read_stored)(const struct checkpoint *c, const struct tensor_entry *t,
                               int64_t first, int64_t n, void *dst, struct err *e);

    /* The files of a folder, or the file of an overlay. */
    int64_t n_files;
    struct safetensors *files;
    const struct weight_format *format; /* of a folder */
    struct digests *digests;            /* of a folder's slices; NULL: derived */
    /* config.json and the index of a folder; path NULL: there is none. */
    struct checkpoint_text {
        char *path, hash[HASH_HEX];
        struct stat opened;
    } texts[2];

    /* Packed linears of a folder (packed.h), by the names of the weights that they stand for; these
     * are among the entries, in f32, instead of the tensors that they are stored in. */
    struct packed_layout layout;
    struct block_code code; /* of format qtraj */
    int64_t n_packed;
    struct packed_tensor *packed; // (n_packed)
    struct tensor_entry *stored;  /* what they refer to: the tensors of the files */

    /* Parts of a derived checkpoint, retained; it has the tensors of the first one. */
    int64_t n_parts;
    struct checkpoint_part *parts; // (n_parts)
    uint64_t stream;               /* random directions: number of the random stream */
    double divisor;                /* averages: the sum of the coefficients */
};

/* --- checkpoint.c --- */

/* dst = elements [first, first + n) of t as they are in a file of c: `read_stored` of a folder. */
MUST_USE enum status checkpoint_read_file(const struct checkpoint *c, const struct tensor_entry *t,
                                          int64_t first, int64_t n, void *dst, struct err *e);

/* --- checkpoint_packed.c --- */

/* Replaces the tensors of packed linears by the weights that they stand for, if config.json says
 * that there are any, and takes what says so out of the configuration. Errors as packed_layout_read
 * and packed_tensor_find; ERR_NOMEM. */
MUST_USE enum status checkpoint_unpack(struct checkpoint *c, struct err *e);
