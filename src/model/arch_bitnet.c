/* BitNet b1.58 (Microsoft 2025): Llama with norms before o and the last linear, and squared ReLU.
 * Its linears are ternary where quantization_config says so (checkpoint/packed.h), as in any
 * family.
 */
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    const struct model_shape *m = &s->shape;
    NEED(m->heads * m->head_dim == m->hidden, ERR_USAGE,
         "%s: %lld heads of %lld values and a hidden size of %lld: bitnet's attn_sub_norm needs "
         "equally many",
         c->name, (long long)m->heads, (long long)m->head_dim, (long long)m->hidden);
    return OK;
}

const struct arch arch_bitnet = {
    .name = "bitnet",
    .doc = "BitNet b1.58: Llama with norms inside the sublayers, squared ReLU",
    ARCH_LLAMA_NAMES,
    .final_norm = "model.norm",
    .attn_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .norm = NORM_RMS,
    .place = NORM_PRE,
    .eps_key = "rms_norm_eps",
    .activation = "relu2",
    .attn_sub_norm = "self_attn.attn_sub_norm",
    .mlp_sub_norm = "mlp.ffn_sub_norm",
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .eps = 1e-5,
    .rope = {.theta = 500000, .partial = 1},
    .kv_heads = 5,
    .configure = configure,
};
