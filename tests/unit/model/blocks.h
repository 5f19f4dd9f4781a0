/* blocks: models of the fixtures and the hidden states behind all blocks, for tests. Include it
 * after cmocka.h. */
#pragma once
#include "model/model.h"

static void must(enum status st, const struct err *e)
{
    if (st != OK) fail_msg("%s", e->text);
}

/* A model of the fixtures. */
struct opened {
    struct checkpoint *checkpoint;
    struct model *model;
};

static inline struct opened open_fixture(const char *name)
{
    struct opened o;
    struct err e = {0};
    char dir[512];
    snprintf(dir, sizeof dir, "%s/models/%s", FIXTURES, name);
    must(checkpoint_open(dir, &o.checkpoint, &e), &e);
    must(model_open(o.checkpoint, &o.model, &e), &e);
    return o;
}

static inline void close_fixture(struct opened *o)
{
    model_close(o->model);
    checkpoint_close(o->checkpoint);
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
