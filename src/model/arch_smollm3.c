/* SmolLM3: Llama with layers that have no RoPE. no_rope_layers says 1 where RoPE is used. */
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    const json_t *layers;
    int64_t interval;
    PASS(hf_int(c, "no_rope_layer_interval", 4, 1, &interval, e));
    PASS(hf_array(c, "no_rope_layers", s->shape.layers, &layers, e));
    for (int64_t i = 0; i < s->shape.layers; i++) {
        const json_t *used = json_array_get(layers, (size_t)i);
        NEED(!layers || json_is_integer(used), ERR_FORMAT,
             "%s: no_rope_layers[%lld] is not an integer; expected 1 (RoPE) or 0 (none)", c->name,
             (long long)i);
        if (layers ? json_integer_value(used) == 0 : (i + 1) % interval == 0)
            s->flags[i] |= LAYER_NO_ROPE;
    }
    return spec_read_window(c, s, 0, true, e);
}

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .doc = "SmolLM3: Llama, tied, some layers without RoPE",
    ARCH_LLAMA,
    .bias_qkv = BIAS_CONFIG,
    .bias_o = BIAS_CONFIG,
    .bias_mlp = BIAS_CONFIG,
    .eps = 1e-6,
    .rope = {.theta = 2e6, .partial = 1},
    .tied = true,
    .kv_heads = 4,
    .configure = configure,
};
