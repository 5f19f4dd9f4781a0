/* Llama 1 to 3, Amber, SmolLM 1 and 2 (Touvron et al. 2023). */
#include "model/arch.h"
#include "model/arch_table.h"

const struct arch arch_llama = {
    .name = "llama",
    .doc = "Llama 1-3, Amber, SmolLM 1 and 2: RMSNorm before, gated SiLU",
    ARCH_LLAMA_NAMES,
    .final_norm = "model.norm",
    .attn_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .norm = NORM_RMS,
    .place = NORM_PRE,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .bias_mlp = BIAS_CONFIG,
    .eps_key = "rms_norm_eps",
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
    .activation = "silu",
};
