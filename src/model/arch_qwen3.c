/* Qwen3: q and k normed per head, head size of its own. */
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

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .doc = "Qwen3: Llama with per-head q/k RMSNorm",
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
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .norm = NORM_RMS,
    .place = NORM_PRE,
    .qk_norm = QK_HEAD,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .eps_key = "rms_norm_eps",
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
    .kv_heads = 32,
    .head_dim = 128,
    .activation = "silu",
    .configure = configure,
};
