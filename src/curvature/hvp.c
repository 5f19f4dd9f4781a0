#include "curvature/hvp.h"
#include "curvature/hvp_internal.h"
#include "util/mem.h"

enum status hvp_open(const struct model *m, const struct sequences *s, enum hvp_subset subset,
                     struct hvp **out, struct err *e)
{
    CLEANUP(hvp_close_at) struct hvp *h = NULL;
    const bool trains = m->straight_through && sizeof(real) == sizeof(float);
    NEED(m->spec.linears == BITNET_NONE || (trains && m->spec.linears == BITNET_ONLINE), ERR_USAGE,
         "%s: the inputs of its linears are rounded to 8 bits, which has no derivative", m->file);
    PASS(mem_zero(&h, 1, sizeof *h, "derivatives", e));
    h->m = m;
    h->s = s;
    h->products = model_products(m);
    h->chunk = HVP_CHUNK;
    h->rows = hvp_head_rows(m->spec.shape.vocab);
    diff_program(&m->spec, &h->program);
    PASS(model_check_ids(m, s, e));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t T = s->offset[i + 1] - s->offset[i];
        h->scored += T > 1 ? T - 1 : 0;
    }
    h->total = h->scored;
    PASS(hvp_table_open(h, subset, e));
    NEED(h->n > 0, ERR_USAGE, "%s has no tensors of the subset %s", m->file, hvp_subsets[subset]);
    h->space = space_alone(h->n);
    *out = TAKE(h);
    return OK;
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
    return &h->entries[i].tensor;
}

int64_t hvp_scored(const struct hvp *h)
{
    return h->scored;
}

void hvp_total(struct hvp *h, int64_t tokens)
{
    if (tokens != h->total) hvp_state_close(&h->kept);
    h->total = tokens;
}

static enum status check_targets(struct hvp *h, const struct sequences *s, const int32_t *targets,
                                 struct err *e)
{
    const int64_t T = s->offset[s->n];
    h->scored = 0;
    for (int64_t t = 0; t < T; t++) {
        NEED(targets[t] >= -1 && targets[t] < h->m->spec.shape.vocab, ERR_FORMAT,
             "target %lld is %d, outside the vocabulary of %lld", (long long)t, targets[t],
             (long long)h->m->spec.shape.vocab);
        h->scored += targets[t] >= 0;
    }
    return OK;
}

enum status hvp_targets(struct hvp *h, const int32_t *targets, struct err *e)
{
    PASS(check_targets(h, h->s, targets, e));
    hvp_state_close(&h->kept);
    h->targets = targets;
    hvp_total(h, h->scored);
    return OK;
}

enum status hvp_next(struct hvp *h, const struct sequences *s, const int32_t *targets,
                     struct err *e)
{
    PASS(model_check_ids(h->m, s, e));
    PASS(check_targets(h, s, targets, e));
    if (h->kept) h->kept->known = false;
    h->s = s;
    h->targets = targets;
    return OK;
}

void hvp_blocks(struct hvp *h, const struct block *blocks)
{
    hvp_state_close(&h->kept);
    h->blocks = blocks;
}

void hvp_z_loss(struct hvp *h, double coefficient)
{
    if (coefficient != h->z_loss) hvp_state_close(&h->kept);
    h->z_loss = coefficient;
}

double hvp_z_part(const struct hvp *h)
{
    return h->z_part;
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
    return hvp_run(h, 0, 0, NULL, NULL, NULL, false, loss, e);
}

enum status hvp_gradient(struct hvp *h, real *g, double *loss, struct err *e)
{
    return hvp_run(h, 0, 0, NULL, NULL, g, true, loss, e);
}

enum status hvp_apply(struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                      struct err *e)
{
    return hvp_run(h, 0, k, v, hv, NULL, true, NULL, e);
}

enum status hvp_apply_layer(struct hvp *h, int64_t layer, int64_t k, const real *const *v,
                            real *const *hv, struct err *e)
{
    return hvp_run(h, layer > 0 ? layer : 0, k, v, hv, NULL, true, NULL, e);
}

void hvp_multiply(struct hvp *h, enum products kind)
{
    hvp_state_close(&h->kept);
    h->products = kind;
}

void hvp_move(struct hvp *h, const real *direction, real step)
{
    hvp_state_close(&h->kept);
    h->direction = direction;
    h->step = step;
}

static bool layer_here(const struct hvp *h, int64_t layer)
{
    int64_t begin, at;
    for (int64_t i = h->layer_at[layer + 1]; i < h->layer_at[layer + 2]; i++)
        if (hvp_tensor_here(h, h->by_layer[i], &begin, &at) > 0) return true;
    return false;
}

enum status hvp_weights(struct hvp *h, real *w, struct err *e)
{
    CLEANUP(hvp_outer_free) struct hvp_outer_weights outer = {0};
    struct diff_weights block = {0};
    const struct diff_params none = {0};
    struct hvp unmoved = *h;
    unmoved.direction = NULL;
    PASS(hvp_outer_load(&unmoved, &outer, e));
    for (int64_t l = -1; l < h->m->spec.shape.layers; l++) {
        if (!layer_here(h, l)) continue;
        if (l >= 0) PASS(diff_weights_load(h->m, l, &none, 0, &block, e));
        for (int64_t i = h->layer_at[l + 1]; i < h->layer_at[l + 2]; i++) {
            int64_t t = h->by_layer[i];
            const struct slot *slot = &h->entries[t].slot;
            const real *stored = l < 0 ? outer.at.p[slot->index] : *diff_param(&block.params, slot);
            int64_t begin, at, n = hvp_tensor_here(h, t, &begin, &at);
            if (n > 0) memcpy(w + at, stored + begin, (size_t)n * sizeof *w);
        }
        diff_weights_free(&block);
    }
    return OK;
}

void hvp_keep(struct hvp *h, bool keep)
{
    if (!keep) hvp_state_close(&h->kept);
    h->keep = keep;
}

void hvp_keep_values(struct hvp *h, bool keep)
{
    if (!keep) hvp_state_close(&h->kept);
    h->keep_values = keep;
}

void hvp_watch(struct hvp *h, void (*moved)(void *context, double products), void *context)
{
    h->moved = moved;
    h->watcher = context;
}

#ifndef QTRAJ_REAL_F64
float *hvp_place(const struct hvp *h, int64_t i)
{
    const struct hvp_entry *t = &h->entries[i];
    const int64_t l = t->tensor.layer;
    return l < 0 ? h->m->outer[t->slot.index]
                 : (float *)(uintptr_t)diff_loaded(&h->blocks[l], &t->slot);
}
#endif
