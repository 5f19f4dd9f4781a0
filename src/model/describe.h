/* describe: what a model consists of, from its config.json alone. */
#pragma once
#include "model/model.h"

enum { DESCRIBE_NAME = 256, DESCRIBE_MAX = 64 };

struct tensor_description {
    char name[DESCRIBE_NAME]; /* as the family's files have it; a second spelling may be in use */
    bool linear;              /* the weight of a linear layer: what quantization touches */
    int stage;                /* of a linear */
    int n_dims;               /* 0: one number */
    int64_t shape[2];
};

/* The tensors of one block in the order of its stages, or, for layer -1, those outside the blocks.
 * *n of them. file stands in messages. Errors as model_shape_read's. */
MUST_USE enum status model_describe(const json_t *config, const char *file, int64_t layer,
                                    struct tensor_description out[DESCRIBE_MAX], int *n,
                                    struct err *e);

/* All parameters of a checkpoint (buffers and a tied head left out), by the names that it uses:
 * those outside the blocks, then block by block. The caller frees *out. Errors as above. */
MUST_USE enum status model_parameters(const struct checkpoint *c, struct tensor_description **out,
                                      int64_t *n, struct err *e);

/* "qkv", "o", "up", "down". */
const char *model_stage_name(int stage);
