/* Qwen3: q and k normed per head, head size of its own. */
#include "model/arch_table.h"

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .doc = "Qwen3: Llama with per-head q/k RMSNorm",
    ARCH_LLAMA,
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .qk_norm = QK_HEAD,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
    .kv_heads = 32,
    .head_dim = 128,
    .configure = spec_read_upper_window,
};
