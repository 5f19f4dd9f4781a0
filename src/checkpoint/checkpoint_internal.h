/* checkpoint_internal: the representation of a checkpoint, for checkpoint.c and derived.c only. The
 * weights of a stored checkpoint are read from its files; those of a derived one (derived.c) are
 * computed from other checkpoints while they are read. */
#pragma once
#include "checkpoint/checkpoint.h"

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

    /* The files of a folder, or the file of an overlay. */
    int64_t n_files;
    struct safetensors *files;

    /* Parts of a derived checkpoint, retained; it has the tensors of the first one. */
    int64_t n_parts;
    struct checkpoint_part *parts; // (n_parts)
    uint64_t stream;               /* random directions: number of the random stream */
};
