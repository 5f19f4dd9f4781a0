/* Qwen2 and Qwen2.5: Llama with biases on q, k and v. */
#include "model/arch_table.h"

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .doc = "Qwen2, Qwen2.5: Llama with q/k/v biases",
    ARCH_LLAMA,
    .bias_qkv = BIAS_ALWAYS,
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
    .kv_heads = 32,
    .configure = spec_read_upper_window,
};
