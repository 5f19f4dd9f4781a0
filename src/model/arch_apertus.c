/* Apertus (Swiss AI 2025): q and k normed per head, MLP without gate, xIELU with learned scalars.
 */
#include "model/arch_table.h"

const struct arch arch_apertus = {
    .name = "apertus",
    .doc = "Apertus: per-head q/k RMSNorm, xIELU",
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layers = "model.layers.",
    .linear = {[ROLE_Q] = "self_attn.q_proj",
               [ROLE_K] = "self_attn.k_proj",
               [ROLE_V] = "self_attn.v_proj",
               [ROLE_O] = "self_attn.o_proj",
               [ROLE_UP] = "mlp.up_proj",
               [ROLE_DOWN] = "mlp.down_proj"},
    .attn_norm = "attention_layernorm",
    .mlp_norm = "feedforward_layernorm",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .norm = NORM_RMS,
    .place = NORM_PRE,
    .qk_norm = QK_HEAD,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .eps_key = "rms_norm_eps",
    .eps = 1e-5,
    .rope = {.theta = 12e6, .partial = 1, .llama3 = true},
    .activation = "xielu",
};
