/* The state of a trainer in a file: w, m and v as flat vectors, and the step. */
#include "checkpoint/safetensors_parts.h"
#include "train/trainer_internal.h"
#include "util/agree.h"

static enum status begin(struct trainer *t, int64_t k, const char *path, struct safetensors_out **o,
                         struct err *e)
{
    const struct tensor_shape shapes[] = {{"step", DTYPE_I64, 1, {1}},
                                          {"w", DTYPE_F32, 1, {t->n}},
                                          {"m", DTYPE_F32, 1, {t->n}},
                                          {"v", DTYPE_F32, 1, {t->n}}};
    PASS(safetensors_create(path, shapes, t->v ? 4 : 3, o, e));
    PASS(safetensors_append(*o, &k, 1, e));
    for (int64_t i = 0; i < t->n_tensors; i++)
        PASS(safetensors_append(*o, t->tensors[i].w, hvp_tensor(t->table, i)->elements, e));
    return OK;
}

enum status trainer_save(struct trainer *t, int64_t k, const char *path, struct err *e)
{
    enum status st = OK;
    CLEANUP(safetensors_out_close_at) struct safetensors_out *o = NULL;
    if (t->rank == 0) st = begin(t, k, path, &o, e);
    PASS(err_agree(t->o.ranks, st, e));
    PASS(safetensors_append_parts(t->o.ranks, t->m, t->held, o, e));
    if (t->v) PASS(safetensors_append_parts(t->o.ranks, t->v, t->held, o, e));
    if (t->rank == 0) st = safetensors_commit(o, e);
    return err_agree(t->o.ranks, st, e);
}

static enum status read_flat(const struct trainer *t, const struct safetensors *s, const char *name,
                             int64_t first, int64_t n, float *dst, struct err *e)
{
    const struct tensor_entry *x = safetensors_find(s, name);
    NEED(x && x->n_elements == t->n, ERR_FORMAT,
         "%s: %s: expected %lld numbers, as many as this run's model has", s->path, name,
         (long long)t->n);
    return safetensors_read_range(s, x, first, n, dst, e);
}

enum status trainer_load(struct trainer *t, const char *path, int64_t *k, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    PASS(safetensors_open(path, &s, e));
    const struct tensor_entry *step = safetensors_find(&s, "step");
    NEED(step && step->n_elements == 1, ERR_FORMAT,
         "%s: no step in it: not a state of a training run?", path);
    PASS(safetensors_read_stored(&s, step, 0, 1, k, e));
    for (int64_t i = 0; i < t->n_tensors; i++) {
        const struct hvp_tensor *x = hvp_tensor(t->table, i);
        PASS(read_flat(t, &s, "w", x->offset, x->elements, t->tensors[i].w, e));
    }
    PASS(read_flat(t, &s, "m", t->first, t->held, t->m, e));
    if (t->v) PASS(read_flat(t, &s, "v", t->first, t->held, t->v, e));
    for (int64_t l = 0; l < model_shape(t->model)->layers; l++) model_block_complete(&t->blocks[l]);
    return OK;
}
