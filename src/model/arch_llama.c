/* Llama 1 to 3, Amber, SmolLM 1 and 2 (Touvron et al. 2023). */
#include "model/arch_table.h"

const struct arch arch_llama = {
    .name = "llama",
    .doc = "Llama 1-3, Amber, SmolLM 1 and 2: RMSNorm before, gated SiLU",
    ARCH_LLAMA,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .bias_mlp = BIAS_CONFIG,
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
};
