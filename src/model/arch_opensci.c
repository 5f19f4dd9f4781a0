/* open-sci-ref: Qwen3 with biases in attention and MLP. Its two converters name the q/k norms
 * differently. */
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    bool normed = true;
    enum status st = hf_bool(c, "qk_layernorm", true, &normed, e);
    if (!normed) s->qk_norm = QK_NONE;
    return st;
}

const struct arch arch_opensci = {
    .name = "opensci",
    .doc = "open-sci-ref: Qwen3 with biases in attention and MLP",
    ARCH_LLAMA,
    .q_norm = "self_attn.q_layernorm",
    .k_norm = "self_attn.k_layernorm",
    .q_norm_alias = "self_attn.q_norm",
    .k_norm_alias = "self_attn.k_norm",
    .qk_norm = QK_HEAD,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .bias_mlp = BIAS_CONFIG,
    .eps = 1e-5,
    .rope = {.theta = 10000, .partial = 1},
    .tied = true,
    .attention_bias = true,
    .mlp_bias = true,
    .configure = configure,
};
