/* sizes: what a model takes in memory, from its config.json alone, for plans. */
#pragma once
#include "model/arch.h"
#include "model/model.h"

struct model_sizes {
    struct model_shape shape;
    struct spec spec;
    int64_t outside;               /* floats outside the blocks */
    int64_t block;                 /* floats of a block as model_block_load holds it */
    int64_t linears;               /* weights of a block's linears */
    int64_t cols[STAGE_N];         /* inputs of each stage */
    int64_t rows[STAGE_N];         /* outputs of its widest linear */
    int64_t all_rows[STAGE_N];     /* of all its linears together */
    int64_t in_width, inner_width; /* of struct acts */
    int64_t rope;                  /* floats of a token in its tables of angles */
    bool
        parallel; /* attention and MLP read the same input: STAGE_UP's does not depend on STAGE_O */
};

void model_sizes(const struct model *m, struct model_sizes *out);
/* Errors as model_shape_read's. */
MUST_USE enum status model_sizes_read(const json_t *config, const char *file,
                                      struct model_sizes *out, struct err *e);

/* Bytes that model_acts_init takes for so many tokens. */
int64_t model_sizes_acts(const struct model_sizes *s, int64_t tokens, int64_t threads);
