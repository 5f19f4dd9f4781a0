/* prepared: the linears of a loaded block, prepared for the products of its model. */
#pragma once
#include "model/model.h"

struct prepared {
    struct product_weights *own[LINEARS_MAX];
};

static inline enum status prepare(const struct model *m, const float *w, int64_t rows, int64_t cols,
                                  struct product_weights **out, struct err *e)
{
    *out = NULL;
    if (!model_prepares(m)) return OK;
    PASS(model_prepare_begin(m, NULL, rows, cols, out, e));
    const int terms = product_weights_terms_of(*out, w, (struct product_part){0, 1});
    return product_weights_fill_own(*out, w, terms, e);
}

static inline enum status prepare_block(const struct model *m, struct block *b, struct prepared *p,
                                        struct err *e)
{
    *p = (struct prepared){{NULL}};
    for (int i = 0; i < b->n_linears; i++) {
        struct linear *l = &b->linear[i];
        PASS(prepare(m, l->w, l->rows, l->cols, &p->own[i], e));
        l->prepared = p->own[i];
    }
    return OK;
}

static inline void prepared_free(struct prepared *p)
{
    for (int i = 0; i < LINEARS_MAX; i++) product_weights_free(p->own[i]);
}
