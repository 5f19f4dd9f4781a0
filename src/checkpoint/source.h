/* source: the insides of a checkpoint. A folder reads its files; the others (derived.c) make their
 * numbers of other checkpoints' while they are read. Internal to this folder. */
#pragma once
#include "checkpoint/checkpoint.h"

struct checkpoint {
    int64_t more_owners; /* beyond the first, see checkpoint_retain */
    char *dir;
    json_t *config; /* owned, also where it is another checkpoint's */
    char config_hash[HASH_HEX], hash[HASH_HEX];
    int64_t n;
    struct tensor_entry *entries; /* sorted; names are the files' own, or those of `base` */

    /* dst (n) = elements [first, first + n) of t, one of `entries`. Thread-safe. */
    enum status (*read)(const struct checkpoint *c, const struct tensor_entry *t, int64_t first,
                        int64_t n, float *dst, struct err *e);

    /* A folder's files, or the file of an overlay. */
    int64_t n_files;
    struct safetensors *files;

    /* What a derived checkpoint is made of, retained; the first part is the one whose tensors it
     * has. */
    int64_t n_parts;
    struct checkpoint_part *parts; // (n_parts)
    uint64_t stream;               /* of random directions */
};
