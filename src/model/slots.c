/* The list of tensors that a spec asks for: what is checked, counted and loaded is this one list.
 */
#include "model/arch.h"

int role_stage(int role)
{
    static const int stage[ROLE_N] = {
        [ROLE_Q] = STAGE_QKV,   [ROLE_K] = STAGE_QKV,    [ROLE_V] = STAGE_QKV,
        [ROLE_QKV] = STAGE_QKV, [ROLE_O] = STAGE_O,      [ROLE_GATE] = STAGE_UP,
        [ROLE_UP] = STAGE_UP,   [ROLE_DOWN] = STAGE_DOWN};
    return stage[role];
}

void role_shape(const struct spec *s, int role, int64_t *rows, int64_t *cols)
{
    const struct model_shape *m = &s->shape;
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const int64_t shape[ROLE_N][2] = {
        [ROLE_Q] = {q, m->hidden},
        [ROLE_K] = {kv, m->hidden},
        [ROLE_V] = {kv, m->hidden},
        [ROLE_QKV] = {q + 2 * kv, m->hidden},
        [ROLE_O] = {m->hidden, q},
        [ROLE_GATE] = {m->intermediate, m->hidden},
        [ROLE_UP] = {m->intermediate, m->hidden},
        [ROLE_DOWN] = {m->hidden, m->intermediate},
    };
    *rows = shape[role][0];
    *cols = shape[role][1];
}

static bool has_bias(const struct spec *s, int role)
{
    switch (role_stage(role)) {
    case STAGE_QKV:
        return s->bias_qkv;
    case STAGE_O:
        return s->bias_o;
    default:
        return s->bias_mlp;
    }
}

int64_t slot_elements(const struct slot *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->n[i];
    return n;
}

static int add_linears(const struct spec *s, struct slot *slots)
{
    int n = 0, index = 0;
    for (int role = 0; role < ROLE_N; role++) {
        const char *part = s->arch->linear[role];
        if (!part) continue;
        int64_t rows, cols;
        role_shape(s, role, &rows, &cols);
        slots[n++] = (struct slot){.part = part,
                                   .suffix = ".weight",
                                   .kind = SLOT_WEIGHT,
                                   .index = index,
                                   .role = role,
                                   .n_dims = 2,
                                   .n = {rows, cols}};
        if (has_bias(s, role))
            slots[n++] = (struct slot){.part = part,
                                       .suffix = ".bias",
                                       .kind = SLOT_BIAS,
                                       .index = index,
                                       .role = role,
                                       .n_dims = 1,
                                       .n = {rows}};
        index++;
    }
    return n;
}

static int add_norm(const char *part, const char *alias, enum slot_kind kind, int index,
                    int bias_index, int64_t n, struct slot *slots)
{
    int used = 0;
    if (!part) return 0;
    slots[used++] = (struct slot){.part = part,
                                  .alias = alias,
                                  .suffix = ".weight",
                                  .kind = kind,
                                  .index = index,
                                  .n_dims = 1,
                                  .n = {n}};
    if (bias_index >= 0)
        slots[used++] = (struct slot){.part = part,
                                      .suffix = ".bias",
                                      .kind = kind,
                                      .index = bias_index,
                                      .n_dims = 1,
                                      .n = {n}};
    return used;
}

static int add_xielu(struct slot *slots)
{
    static const struct slot scalars[] = {
        {.part = "mlp.act_fn.alpha_p", .suffix = "", .kind = SLOT_EXTRA, .index = EXTRA_ALPHA_P},
        {.part = "mlp.act_fn.alpha_n", .suffix = "", .kind = SLOT_EXTRA, .index = EXTRA_ALPHA_N},
        {.part = "mlp.act_fn.beta",
         .suffix = "",
         .kind = SLOT_EXTRA,
         .index = EXTRA_BETA,
         .buffer = true},
        {.part = "mlp.act_fn.eps",
         .suffix = "",
         .kind = SLOT_EXTRA,
         .index = EXTRA_EPS,
         .buffer = true},
    };
    enum { N = sizeof scalars / sizeof *scalars };
    for (int i = 0; i < N; i++) slots[i] = scalars[i];
    return N;
}

int slots_of_block(const struct spec *s, struct slot slots[SLOTS_MAX])
{
    const struct arch *a = s->arch;
    const struct model_shape *m = &s->shape;
    bool bias = a->norm == NORM_LAYER, whole = s->qk_norm == QK_PROJECTION;
    int n = add_linears(s, slots);
    n += add_norm(a->attn_norm, NULL, SLOT_EXTRA, EXTRA_ATTN_NORM, bias ? EXTRA_ATTN_NORM_BIAS : -1,
                  m->hidden, slots + n);
    n += add_norm(a->mlp_norm, NULL, SLOT_EXTRA, EXTRA_MLP_NORM, bias ? EXTRA_MLP_NORM_BIAS : -1,
                  m->hidden, slots + n);
    if (s->qk_norm != QK_NONE) {
        n += add_norm(a->q_norm, a->q_norm_alias, SLOT_EXTRA, EXTRA_Q_NORM, -1,
                      m->head_dim * (whole ? m->heads : 1), slots + n);
        n += add_norm(a->k_norm, a->k_norm_alias, SLOT_EXTRA, EXTRA_K_NORM, -1,
                      m->head_dim * (whole ? m->kv_heads : 1), slots + n);
    }
    if (s->activation == ACT_XIELU) n += add_xielu(slots + n);
    return n;
}

int slots_outside(const struct spec *s, struct slot slots[OUTER_N])
{
    const struct arch *a = s->arch;
    int n = 0;
    slots[n++] = (struct slot){.part = a->embed,
                               .suffix = ".weight",
                               .kind = SLOT_OUTER,
                               .index = OUTER_EMBED,
                               .n_dims = 2,
                               .n = {s->shape.vocab, s->shape.hidden}};
    n += add_norm(a->final_norm, NULL, SLOT_OUTER, OUTER_NORM,
                  a->norm == NORM_LAYER ? OUTER_NORM_BIAS : -1, s->shape.hidden, slots + n);
    if (!s->shape.tied)
        slots[n++] = (struct slot){.part = a->head,
                                   .suffix = ".weight",
                                   .kind = SLOT_OUTER,
                                   .index = OUTER_HEAD,
                                   .n_dims = 2,
                                   .n = {s->shape.vocab, s->shape.hidden}};
    return n;
}
