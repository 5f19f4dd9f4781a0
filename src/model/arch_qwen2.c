/* Qwen2 and Qwen2.5: Llama with biases on q, k and v. */
#include "model/arch.h"
#include "model/arch_table.h"

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .doc = "Qwen2, Qwen2.5: Llama with q/k/v biases",
    ARCH_LLAMA_NAMES,
    .final_norm = "model.norm",
    .attn_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .norm = NORM_RMS,
    .place = NORM_PRE,
    .bias_qkv = BIAS_ALWAYS,
    .eps_key = "rms_norm_eps",
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
    .kv_heads = 32,
    .activation = "silu",
    .configure = spec_read_upper_window,
};
