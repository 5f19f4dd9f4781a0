/* Mistral 7B (Jiang et al. 2023): Llama with a sliding window in all layers, unless it is null. */
#include "model/arch_table.h"

static enum status configure(const struct hfconfig *c, struct spec *s, struct err *e)
{
    const bool none = hf_has(c, "sliding_window") && !hf_value(c, "sliding_window");
    PASS(hf_int(c, "sliding_window", 4096, 1, &s->window, e));
    for (int64_t i = 0; !none && i < s->shape.layers; i++) s->flags[i] |= LAYER_WINDOW;
    return OK;
}

const struct arch arch_mistral = {
    .name = "mistral",
    .doc = "Mistral: Llama with sliding-window attention",
    ARCH_LLAMA,
    .eps = 1e-6,
    .rope = {.theta = 10000, .partial = 1},
    .kv_heads = 8,
    .configure = configure,
};
