/* sizes: sizes of a model's parts, from its config.json alone, for memory and cost plans. */
#pragma once
#include "model/arch.h"
#include "model/model.h"

struct model_sizes {
    struct model_shape shape;
    struct spec spec;
    int64_t outside;               /* floats of the tensors outside the blocks */
    int64_t block;                 /* floats of a block as model_block_load holds it */
    int64_t linears;               /* weights of a block's linears */
    int64_t cols[STAGE_N];         /* input channels of each stage */
    int64_t rows[STAGE_N];         /* output channels of its widest linear */
    int64_t all_rows[STAGE_N];     /* of all its linears together */
    int64_t in_width, inner_width; /* of struct acts */
    int64_t rope;                  /* floats per token of the tables of RoPE angles */
    int64_t windowed;              /* layers whose attention sees spec.window tokens */
    bool parallel;                 /* parallel residual: attention and MLP read the same input */
};

/* Sizes of an open model. */
void model_sizes(const struct model *m, struct model_sizes *out);
/* Sizes, shape and family (spec.arch) from config.json; file: for messages. ERR_FORMAT, ERR_USAGE
 * as model_open. */
MUST_USE enum status model_sizes_read(const json_t *config, const char *file,
                                      struct model_sizes *out, struct err *e);

/* Bytes that model_acts_init allocates for so many tokens and threads. */
int64_t model_sizes_acts(const struct model_sizes *s, int64_t tokens, int64_t threads);
