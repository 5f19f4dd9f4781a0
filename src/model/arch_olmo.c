/* OLMo 1 in the -hf format (Groeneveld et al. 2024): norms without parameters, eps fixed. */
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    double clip;
    PASS(hf_number(c, "clip_qkv", 0, &clip, e));
    NEED(clip >= 0, ERR_FORMAT, "%s: clip_qkv is %g; expected null or a positive number", c->name,
         clip);
    s->clip = clip;
    return OK;
}

const struct arch arch_olmo = {
    .name = "olmo",
    .doc = "OLMo 1 (-hf): LayerNorm without parameters, clip_qkv",
    ARCH_LLAMA_NAMES,
    .norm = NORM_LAYER_PLAIN,
    .place = NORM_PRE,
    .rounds_last = true,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .eps = 1e-5,
    .rope = {.theta = 10000, .partial = 1},
    .activation = "silu",
    .configure = configure,
};
