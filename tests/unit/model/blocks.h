/* blocks: the hidden states behind all blocks of a model, for tests. Include it after cmocka.h. */
#pragma once
#include "model/model.h"

static void must(enum status st, const struct err *e)
{
    if (st != OK) fail_msg("%s", e->text);
}

/* (s->offset[s->n], hidden), which the caller frees; activations have room for so many tokens. */
static inline float *forward(const struct model *m, const struct sequences *s, int64_t room)
{
    struct acts a;
    struct block b;
    struct err e = {0};
    float *x = malloc((size_t)(s->offset[s->n] * model_shape(m)->hidden) * sizeof *x);
    must(model_acts_init(m, room, &a, &e), &e);
    must(model_embed(m, s, x, &e), &e);
    for (int64_t layer = 0; layer < model_shape(m)->layers; layer++) {
        must(model_block_load(m, layer, &b, &e), &e);
        model_block_forward(m, &b, s, x, &a);
        model_block_free(&b);
    }
    model_acts_free(&a);
    return x;
}
