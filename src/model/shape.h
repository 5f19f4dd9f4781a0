/* shape: the stages of a block, and what config.json alone says of a model: sizes and family. */
#pragma once
#include "util/err.h"

/* The stages of a block, always in this order (the subsets of GPTQ's "true sequential"): linears,
 * and their input. */
enum {
    STAGE_QKV,  /* q, k, v (or the fused qkv); the block input, normed unless norms come after */
    STAGE_O,    /* the attention output; attention of the rotated q, k and v */
    STAGE_UP,   /* gate and up (or up alone); the normed residual stream (parallel residual: the
                   block input again, with the MLP's own norm) */
    STAGE_DOWN, /* the MLP output; the activation */
    STAGE_N
};
enum { LINEARS_MAX = 7 };

struct model_shape {
    int64_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate;
    bool tied; /* the output matrix is the embedding */
    int64_t parameters,
        parameters_non_embedding; /* with norms and biases; a tied head counts once */
};

/* The family of a model_type of config.json ("llama", "smollm3", ...); NULL: not supported. */
struct arch;
const struct arch *arch_find(const char *model_type);
/* Its name, and one line that describes it. Static strings. */
const char *arch_name(const struct arch *a);
const char *arch_doc(const struct arch *a);
/* The i-th family of the table, NULL after the last. */
const struct arch *arch_at(int i);
