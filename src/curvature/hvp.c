#include "curvature/hvp.h"
#include "curvature/hvp_engine.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

static enum status check_ids(const struct hvp *h, struct err *e)
{
    enum status st = OK;
    const struct sequences *s = h->s;
    int64_t V = h->m->spec.shape.vocab;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++)
            ENSURE(s->ids[t] >= 0 && s->ids[t] < V, ERR_FORMAT,
                   "sequence %lld, token %lld: id %d is outside the vocabulary of %lld of %s",
                   (long long)i, (long long)(t - s->offset[i]), s->ids[t], (long long)V,
                   h->m->file);
done:
    return st;
}

enum status hvp_open(const struct model *m, const struct sequences *s, enum hvp_subset subset,
                     struct hvp **out, struct err *e)
{
    enum status st = OK;
    struct hvp *h = NULL;
    TRY(mem_zero(&h, 1, sizeof *h, "derivatives", e));
    h->m = m;
    h->s = s;
    h->chunk = HVP_CHUNK;
    diff_program(&m->spec, &h->program);
    TRY(check_ids(h, e));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t T = s->offset[i + 1] - s->offset[i];
        h->scored += T > 1 ? T - 1 : 0;
    }
    h->total = h->scored;
    TRY(hvp_table_open(h, subset, e));
    ENSURE(h->n > 0, ERR_USAGE, "%s has no tensors of the subset %s", m->file,
           hvp_subset_name(subset));
    *out = h;
    h = NULL;
done:
    hvp_close(h);
    return st;
}

void hvp_close(struct hvp *h)
{
    if (!h) return;
    hvp_table_close(h);
    free(h);
}

int64_t hvp_n(const struct hvp *h)
{
    return h->n;
}

int64_t hvp_n_tensors(const struct hvp *h)
{
    return h->n_tensors;
}

const struct hvp_tensor *hvp_tensor(const struct hvp *h, int64_t i)
{
    return &h->tensors[i];
}

int64_t hvp_scored(const struct hvp *h)
{
    return h->scored;
}

void hvp_total(struct hvp *h, int64_t tokens)
{
    h->total = tokens;
}

enum status hvp_loss(struct hvp *h, double *loss, struct err *e)
{
    return hvp_run(h, 0, NULL, NULL, NULL, false, loss, e);
}

enum status hvp_gradient(struct hvp *h, real *g, double *loss, struct err *e)
{
    return hvp_run(h, 0, NULL, NULL, g, true, loss, e);
}

enum status hvp_apply(struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                      struct err *e)
{
    enum status st = OK;
    TRY(hvp_run(h, k, v, hv, NULL, true, NULL, e));
    h->products += k;
done:
    return st;
}

void hvp_move(struct hvp *h, const real *direction, real step)
{
    h->direction = direction;
    h->step = step;
}

static void copy_params(const struct hvp *h, struct diff_params *from, int64_t layer, real *w)
{
    for (int64_t i = h->layer_at[layer + 1]; i < h->layer_at[layer + 2]; i++) {
        int64_t t = h->by_layer[i];
        memcpy(w + h->tensors[t].offset, *diff_param(from, &h->places[t].slot),
               (size_t)h->tensors[t].elements * sizeof *w);
    }
}

enum status hvp_weights(struct hvp *h, real *w, struct err *e)
{
    enum status st = OK;
    struct hvp_outer_weights outer = {0};
    struct diff_weights block = {0};
    struct hvp still = *h;
    still.direction = NULL;
    TRY(hvp_outer_load(&still, &outer, e));
    for (int64_t i = h->layer_at[0]; i < h->layer_at[1]; i++) {
        const struct hvp_tensor *t = &h->tensors[h->by_layer[i]];
        memcpy(w + t->offset, outer.at.p[h->places[h->by_layer[i]].slot.index],
               (size_t)t->elements * sizeof *w);
    }
    for (int64_t l = 0; l < h->m->spec.shape.layers; l++) {
        const struct diff_params none = {0};
        TRY(diff_weights_load(h->m, l, &none, 0, &block, e));
        copy_params(h, &block.params, l, w);
        diff_weights_free(&block);
    }
done:
    hvp_outer_free(&outer);
    return st;
}

void hvp_chunk(struct hvp *h, int64_t tokens)
{
    h->chunk = tokens;
}

void hvp_keep(struct hvp *h, bool keep)
{
    h->keep = keep;
}

int64_t hvp_products(const struct hvp *h)
{
    return h->products;
}

#ifndef QTRAJ_REAL_F64
static enum status apply(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e)
{
    return hvp_apply(context, k, x, y, e);
}

void hvp_operator(struct hvp *h, struct operator* out)
{
    *out = (struct operator){.n = h->n, .apply = apply, .context = h};
}
#endif
