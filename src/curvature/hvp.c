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
    h->slice = hvp_head_slice(m->spec.shape.vocab);
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
    h->space = space_alone(h->n);
    *out = h;
    h = NULL;
done:
    hvp_close(h);
    return st;
}

void hvp_close(struct hvp *h)
{
    if (!h) return;
    hvp_state_close(&h->kept);
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
    hvp_state_close(&h->kept);
}

void hvp_share_over(struct hvp *h, const struct hvp_share *share)
{
    hvp_state_close(&h->kept);
    h->share = *share;
    h->space = share->space;
    h->shared = true;
}

const struct space *hvp_space(const struct hvp *h)
{
    return &h->space;
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
done:
    return st;
}

void hvp_move(struct hvp *h, const real *direction, real step)
{
    hvp_state_close(&h->kept);
    h->direction = direction;
    h->step = step;
}

/* What of a tensor is here: numbers [*begin, *begin + n) of it, n returned, which go to w + *at. */
static int64_t part_here(const struct hvp *h, int64_t tensor, int64_t *begin, int64_t *at)
{
    int64_t offset = h->tensors[tensor].offset, end = offset + h->tensors[tensor].elements;
    *at = offset;
    space_meet(&h->space, at, &end);
    *begin = *at + h->space.first - offset;
    return end - *at;
}

static void copy_params(const struct hvp *h, struct diff_params *from, int64_t layer, real *w)
{
    int64_t begin, at;
    for (int64_t i = h->layer_at[layer + 1]; i < h->layer_at[layer + 2]; i++) {
        int64_t t = h->by_layer[i], n = part_here(h, t, &begin, &at);
        if (n > 0)
            memcpy(w + at, *diff_param(from, &h->places[t].slot) + begin, (size_t)n * sizeof *w);
    }
}

static bool layer_here(const struct hvp *h, int64_t layer)
{
    int64_t begin, at;
    for (int64_t i = h->layer_at[layer + 1]; i < h->layer_at[layer + 2]; i++)
        if (part_here(h, h->by_layer[i], &begin, &at) > 0) return true;
    return false;
}

enum status hvp_weights(struct hvp *h, real *w, struct err *e)
{
    enum status st = OK;
    struct hvp_outer_weights outer = {0};
    struct diff_weights block = {0};
    struct hvp still = *h;
    int64_t begin, at;
    still.direction = NULL;
    TRY(hvp_outer_load(&still, &outer, e));
    for (int64_t i = h->layer_at[0]; i < h->layer_at[1]; i++) {
        int64_t t = h->by_layer[i], n = part_here(h, t, &begin, &at);
        if (n > 0)
            memcpy(w + at, outer.at.p[h->places[t].slot.index] + begin, (size_t)n * sizeof *w);
    }
    for (int64_t l = 0; l < h->m->spec.shape.layers; l++) {
        const struct diff_params none = {0};
        if (!layer_here(h, l)) continue;
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
    hvp_state_close(&h->kept);
    h->chunk = tokens;
}

void hvp_keep(struct hvp *h, bool keep)
{
    if (!keep) hvp_state_close(&h->kept);
    h->keep = keep;
}

#ifndef QTRAJ_REAL_F64
static enum status apply(void *context, int64_t k, const float *const *x, float *const *y,
                         struct err *e)
{
    return hvp_apply(context, k, x, y, e);
}

void hvp_operator(struct hvp *h, struct operator* out)
{
    *out = (struct operator){.space = h->space, .apply = apply, .context = h};
}
#endif
