/* GPT-NeoX, Pythia (Black et al. 2022, Biderman et al. 2023): biases everywhere, fused q, k, v,
 * RoPE on a part of each head, attention and MLP in parallel unless the config says otherwise. */
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    return hf_bool(c, "use_parallel_residual", true, &s->parallel, e);
}

const struct arch arch_gpt_neox = {
    .name = "gpt_neox",
    .doc = "GPT-NeoX, Pythia: LayerNorm, fused q/k/v, partial RoPE, parallel residual",
    .embed = "gpt_neox.embed_in",
    .final_norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .head_alias = "lm_head", /* which transformers reads too */
    .layers = "gpt_neox.layers.",
    .linear = {[ROLE_QKV] = "attention.query_key_value",
               [ROLE_O] = "attention.dense",
               [ROLE_UP] = "mlp.dense_h_to_4h",
               [ROLE_DOWN] = "mlp.dense_4h_to_h"},
    .attn_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .norm = NORM_LAYER,
    .place = NORM_PRE,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .bias_mlp = BIAS_ALWAYS,
    .eps_key = "layer_norm_eps",
    .eps = 1e-5,
    .rope = {.theta = 10000, .partial = 0.25},
    .attention_bias = true,
    .activation = "gelu",
    .configure = configure,
};
