/* OLMo 2 (OLMo team 2024): norms after the sublayers, q and k normed over the whole projection.
 * Early uploads call it olmo_1124. */
#include "model/arch_table.h"

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .alias = "olmo_1124",
    .doc = "OLMo 2: RMSNorm after the sublayers, q/k RMSNorm over the projection",
    ARCH_LLAMA_NAMES,
    .final_norm = "model.norm",
    .attn_norm = "post_attention_layernorm",
    .mlp_norm = "post_feedforward_layernorm",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .norm = NORM_RMS,
    .place = NORM_POST,
    .qk_norm = QK_PROJECTION,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .eps_key = "rms_norm_eps",
    .eps = 1e-5,
    .rope = {.theta = 10000, .partial = 1},
    .activation = "silu",
};
