/* Opens a model: checks its tensors and loads those outside the blocks. */
#include "math/kern_bf16.h"
#include "model/model_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

void slot_name(const struct model *m, const struct slot *t, int64_t layer, char name[NAME_MAX_LEN])
{
    char prefix[64] = "";
    if (layer >= 0)
        snprintf(prefix, sizeof prefix, "%s%lld.", m->spec.arch->layers, (long long)layer);
    snprintf(name, NAME_MAX_LEN, "%s%s%s", prefix, t->part, t->suffix);
    if (!t->alias || checkpoint_find(m->checkpoint, name)) return;
    char other[NAME_MAX_LEN];
    snprintf(other, sizeof other, "%s%s%s", prefix, t->alias, t->suffix);
    if (checkpoint_find(m->checkpoint, other)) memcpy(name, other, sizeof other);
}

/* Checks that the checkpoint has the tensor with the shape that the config implies. */
static enum status slot_check(const struct model *m, const struct slot *t, int64_t layer,
                              struct err *e)
{
    char name[NAME_MAX_LEN];
    slot_name(m, t, layer, name);
    const struct shape_text want = tensor_shape_text(t->n, t->n_dims);
    const struct tensor_entry *entry = checkpoint_find(m->checkpoint, name);
    if (!entry && t->buffer) return OK;
    NEED(entry, ERR_FORMAT,
         "%s: tensor %s is missing; a %s of this config.json has it, shape %s: "
         "is a weight file missing, or config.json of another model?",
         checkpoint_dir(m->checkpoint), name, m->spec.arch->name, want.text);
    bool same = t->n_dims == 0 ? entry->n_elements == 1 : tensor_has_shape(entry, t->n_dims, t->n);
    NEED(same, ERR_SHAPE,
         "%s: tensor %s has shape %s; config.json asks for %s: is it of another model?",
         checkpoint_dir(m->checkpoint), name, tensor_shape_text(entry->shape, entry->n_dims).text,
         want.text);
    NEED(dtype_is_float(entry->dtype), ERR_FORMAT, "%s: tensor %s is %s; expected a floating type",
         checkpoint_dir(m->checkpoint), name, dtype_name(entry->dtype));
    return OK;
}

enum status slot_read(const struct model *m, const struct slot *t, int64_t layer, float *dst,
                      struct err *e)
{
    char name[NAME_MAX_LEN];
    slot_name(m, t, layer, name);
    const struct tensor_entry *entry = checkpoint_find(m->checkpoint, name);
    NEED(entry, ERR_FORMAT, "%s: tensor %s is missing", checkpoint_dir(m->checkpoint), name);
    bool scalar = t->n_dims == 0;
    return checkpoint_read_f32(m->checkpoint, name, scalar ? entry->n_dims : t->n_dims,
                               scalar ? entry->shape : t->n, dst, e);
}

/* Without anything loaded. */
static enum status open_checked(struct checkpoint *c, struct model **out, struct err *e)
{
    CLEANUP(model_close_at) struct model *m = NULL;
    struct slot slots[SLOTS_MAX];
    PASS(mem_zero(&m, 1, sizeof *m, "model", e));
    m->checkpoint = c;
    PASS(fsx_is_file(checkpoint_dir(c))
             ? mem_string(&m->file, checkpoint_dir(c), e)
             : mem_format(&m->file, e, "%s/config.json", checkpoint_dir(c)));
    PASS(spec_read(checkpoint_config(c), m->file, &m->spec, e));
    for (int64_t layer = -1; layer < m->spec.shape.layers; layer++) {
        const int n = slots_of(&m->spec, layer, slots);
        for (int i = 0; i < n; i++) PASS(slot_check(m, &slots[i], layer, e));
    }
    PASS(leftover_check(m, e));
    *out = TAKE(m);
    return OK;
}

enum status model_open(struct checkpoint *c, struct model **out, struct err *e)
{
    CLEANUP(model_close_at) struct model *m = NULL;
    struct slot slots[SLOTS_MAX];
    PASS(open_checked(c, &m, e));
    const int n = slots_of(&m->spec, -1, slots);
    for (int i = 0; i < n; i++) {
        float **dst = &m->outer[slots[i].index];
        PASS(mem_alloc(dst, slot_elements(&slots[i]), sizeof(float), slots[i].part, e));
        PASS(slot_read(m, &slots[i], -1, *dst, e));
    }
    *out = TAKE(m);
    return OK;
}

enum status model_check(struct checkpoint *c, struct err *e)
{
    CLEANUP(model_close_at) struct model *m = NULL;
    return open_checked(c, &m, e);
}

void model_close(struct model *m)
{
    if (!m) return;
    rotation_free(m->rotation);
    if (!m->borrows) free(m->file);
    for (int i = 0; !m->borrows && i < OUTER_N; i++) free(m->outer[i]);
    free(m);
}

void model_set_products(struct model *m, enum products kind)
{
    m->products = kind;
}

enum products model_products(const struct model *m)
{
    return m->products;
}

void model_prepare_f32(struct model *m, bool prepares)
{
    m->prepares_f32 = prepares;
}

bool model_prepares(const struct model *m)
{
    return m->products != PRODUCTS_F32 || (m->prepares_f32 && products_prepare(PRODUCTS_F32));
}

void model_set_rounding(struct model *m, bool bf16)
{
    m->rounded = bf16;
}

void model_straight_through(struct model *m)
{
    m->straight_through = true;
}

bool model_rounding(const struct model *m)
{
    return m->rounded;
}

const struct model_shape *model_shape(const struct model *m)
{
    return &m->spec.shape;
}

enum status model_check_ids(const struct model *m, const struct sequences *s, struct err *e)
{
    int64_t V = m->spec.shape.vocab;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++)
            NEED(s->ids[t] >= 0 && s->ids[t] < V, ERR_FORMAT,
                 "sequence %lld, token %lld: id %d is outside the vocabulary of %lld of %s",
                 (long long)i, (long long)(t - s->offset[i]), s->ids[t], (long long)V, m->file);
    return OK;
}

enum status model_embed(const struct model *m, const struct sequences *s, float *x, struct err *e)
{
    int64_t C = m->spec.shape.hidden;
    PASS(model_check_ids(m, s, e));
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < s->offset[s->n]; t++) {
        memcpy(x + t * C, m->outer[OUTER_EMBED] + s->ids[t] * C, (size_t)C * sizeof *x);
        rotation_stream(m, x + t * C, 1, false);
        if (m->rounded) kern_bf16_round(x + t * C, x + t * C, C);
    }
    return OK;
}

void norm_rows(const struct model *m, bool rms, const float *w, const float *b, int64_t n,
               const float *x, int64_t ldx, int64_t T, float *y)
{
    const bool centred = !rms && m->spec.arch->norm != NORM_RMS;
    const struct kern_norm f = {.n = n,
                                .eps = (float)m->spec.eps,
                                .centred = centred,
                                .w = w,
                                .b = b,
                                .rounded = m->rounded,
                                .between = !centred && !m->spec.arch->rounds_last};
    kern_norm(&f, y, ldx, x, ldx, T);
}

void model_final_norm(const struct model *m, const float *x, int64_t T, float *y)
{
    const int64_t C = m->spec.shape.hidden;
    const bool turned = m->rotation && m->rotation->places & ROTATE_R1;
    if (turned && x != y) memcpy(y, x, (size_t)(T * C) * sizeof *y);
    if (turned) rotation_stream(m, y, T, true);
    norm_rows(m, turned, m->outer[OUTER_NORM], m->outer[OUTER_NORM_BIAS], C, turned ? y : x, C, T,
              y);
}

const float *model_head(const struct model *m)
{
    return m->outer[m->spec.shape.tied ? OUTER_EMBED : OUTER_HEAD];
}
