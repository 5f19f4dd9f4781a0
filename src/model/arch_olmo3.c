/* OLMo 3 (OLMo team 2025): OLMo 2 with sliding-window attention in most layers. RoPE is scaled in
 * the layers with full attention only. */
#include "model/arch_table.h"

/* The window, 4096 if config.json does not mention it; the class in transformers makes every fourth
 * layer a full one unless layer_types lists them. */
static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    int64_t windowed = 0;
    PASS(hf_int(c, "sliding_window", 4096, 1, &s->window, e));
    for (int64_t i = 0; i < s->shape.layers; i++)
        if ((i + 1) % 4 != 0) s->flags[i] |= LAYER_WINDOW;
    PASS(spec_read_layer_types(c, s, e));
    for (int64_t i = 0; i < s->shape.layers; i++) windowed += spec_window(s, i) > 0;
    NEED(windowed == 0 || hf_value(c, "sliding_window") || !hf_has(c, "sliding_window"), ERR_FORMAT,
         "%s: \"sliding_window\" is null, but %lld layers are sliding_attention; expected the "
         "number of tokens that they see",
         c->name, (long long)windowed);
    return OK;
}

const struct arch arch_olmo3 = {
    .name = "olmo3",
    .doc = "OLMo 3: OLMo 2 with sliding-window attention, RoPE scaled in full layers only",
    ARCH_OLMO2,
    .rope = {.theta = 0, .partial = 1, .by_layer = true},
    .configure = configure,
};
