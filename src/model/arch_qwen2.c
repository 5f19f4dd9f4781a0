/* Qwen2 and Qwen2.5: Llama with biases on q, k and v. */
#include "model/arch.h"
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    enum status st = OK;
    int64_t first;
    TRY(hf_int(c, "max_window_layers", 28, 0, &first, e));
    TRY(spec_read_window(c, s, first, false, e));
done:
    return st;
}

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .doc = "Qwen2, Qwen2.5: Llama with q/k/v biases",
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layers = "model.layers.",
    .linear = {[ROLE_Q] = "self_attn.q_proj",
               [ROLE_K] = "self_attn.k_proj",
               [ROLE_V] = "self_attn.v_proj",
               [ROLE_O] = "self_attn.o_proj",
               [ROLE_GATE] = "mlp.gate_proj",
               [ROLE_UP] = "mlp.up_proj",
               [ROLE_DOWN] = "mlp.down_proj"},
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
    .configure = configure,
};
