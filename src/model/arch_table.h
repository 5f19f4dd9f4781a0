/* arch_table: the list of families, and what many of them have in common. X(llama) is `const struct
 * arch arch_llama`, defined in its file; a new family is its file and its line here
 * (docs/extending.md). */
#pragma once
#include "model/arch.h"

#define ARCHS(X)                                                                                   \
    X(llama)                                                                                       \
    X(olmo)                                                                                        \
    X(olmo2)                                                                                       \
    X(olmo3)                                                                                       \
    X(smollm3)                                                                                     \
    X(apertus)                                                                                     \
    X(gpt_neox)                                                                                    \
    X(qwen2)                                                                                       \
    X(qwen3)                                                                                       \
    X(opensci)                                                                                     \
    X(bitnet)
#define ARCH_DECLARE(name) extern const struct arch arch_##name;
ARCHS(ARCH_DECLARE)

/* The tensor names of Llama that most families use, as initialisers of struct arch: embedding,
 * head, attention and gated MLP. Norms differ and are named by each family. */
#define ARCH_LLAMA_NAMES                                                                           \
    .embed = "model.embed_tokens", .head = "lm_head", .layers = "model.layers.",                   \
    .linear = {[ROLE_Q] = "self_attn.q_proj", [ROLE_K] = "self_attn.k_proj",                       \
               [ROLE_V] = "self_attn.v_proj", [ROLE_O] = "self_attn.o_proj",                       \
               [ROLE_GATE] = "mlp.gate_proj", [ROLE_UP] = "mlp.up_proj",                           \
               [ROLE_DOWN] = "mlp.down_proj"}

/* What Llama's descendants have in common besides: RMSNorm before the sublayers, gated SiLU. */
#define ARCH_LLAMA                                                                                 \
    ARCH_LLAMA_NAMES, .final_norm = "model.norm", .attn_norm = "input_layernorm",                  \
                      .mlp_norm = "post_attention_layernorm", .norm = NORM_RMS, .place = NORM_PRE, \
                      .eps_key = "rms_norm_eps", .activation = "silu"

/* What OLMo 2 and 3 have in common: RMSNorm after the sublayers, q and k normed over the whole
 * projection. */
#define ARCH_OLMO2                                                                                 \
    ARCH_LLAMA_NAMES, .final_norm = "model.norm", .attn_norm = "post_attention_layernorm",         \
                      .mlp_norm = "post_feedforward_layernorm", .q_norm = "self_attn.q_norm",      \
                      .k_norm = "self_attn.k_norm", .norm = NORM_RMS, .place = NORM_POST,          \
                      .qk_norm = QK_PROJECTION, .rounds_last = true, .bias_qkv = BIAS_CONFIG,      \
                      .bias_o = BIAS_CONFIG, .eps_key = "rms_norm_eps", .eps = 1e-5,               \
                      .activation = "silu"

/* text (size bytes) = the names of all families, "llama, olmo, ...", cut where it is full. */
void arch_list(char *text, size_t size);
