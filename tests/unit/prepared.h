/* prepared: the linears of a loaded block, prepared for the products of its model. */
#pragma once
#include "model/model.h"

struct prepared {
    struct product_weights *own[LINEARS_MAX];
};

static inline enum status prepare_block(const struct model *m, struct block *b, struct prepared *p,
                                        struct err *e)
{
    *p = (struct prepared){{NULL}};
    for (int i = 0; i < b->n_linears; i++) {
        struct linear *l = &b->linear[i];
        PASS(model_prepare(m, l->w, l->rows, l->cols, &p->own[i], e));
        l->prepared = p->own[i];
    }
    return OK;
}

static inline void prepared_free(struct prepared *p)
{
    for (int i = 0; i < LINEARS_MAX; i++) product_weights_free(p->own[i]);
}
