/* describe: the names and shapes of the tensors of a model, from its config.json. */
#pragma once
#include "model/model.h"
#include "util/hash.h"

enum { DESCRIBE_NAME = 256, DESCRIBE_MAX = 64 };

struct tensor_description {
    char name[DESCRIBE_NAME]; /* as the family's checkpoints have it (some have an alias) */
    bool linear;              /* the weight of a linear layer, which quantization changes */
    int stage;                /* of a linear */
    int64_t layer;            /* -1: outside the blocks */
    bool bias;                /* of the linear before it in the list */
    int norm_of;              /* weight or bias of the norm that makes the input of a stage: which;
                                 -1: not */
    int n_dims;               /* 0: one number */
    int64_t shape[2];
};

/* out[0..*n) = the tensors of one block, linears first in the order of the stages, or, for layer
 * -1, those outside the blocks. file: for messages. Errors as model_sizes_read. */
MUST_USE enum status model_describe(const json_t *config, const char *file, int64_t layer,
                                    struct tensor_description out[DESCRIBE_MAX], int *n,
                                    struct err *e);

/* *out (*n) = all parameters of a checkpoint (no buffers; a tied head once) with the names that it
 * uses: those outside the blocks, then block by block. The caller frees *out. Errors as above,
 * ERR_NOMEM. */
MUST_USE enum status model_parameters(const struct checkpoint *c, struct tensor_description **out,
                                      int64_t *n, struct err *e);

/* How many numbers the tensor has. */
int64_t tensor_elements(const struct tensor_description *t);

/* out = digest of all that config.json says and that is read of it: what the forward pass depends
 * on, however it is written, positions, ids of padding, and how weights are packed. The keys with
 * the same effect have the same digest; no key hashes it (plan_alike.c). Errors as model_describe.
 */
MUST_USE enum status model_config_digest(const json_t *config, const char *file, char out[HASH_HEX],
                                         struct err *e);

/* "qkv", "o", "up" or "down". Static string. */
const char *model_stage_name(int stage);
