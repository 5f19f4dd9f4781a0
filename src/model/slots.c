/* The list of tensors that a model has, by its spec. Checking, counting and loading use this list.
 */
#include "model/arch.h"

/* The stage of a linear. */
static int role_stage(int role)
{
    static const int stage[ROLE_N] = {
        [ROLE_Q] = STAGE_QKV,   [ROLE_K] = STAGE_QKV,    [ROLE_V] = STAGE_QKV,
        [ROLE_QKV] = STAGE_QKV, [ROLE_O] = STAGE_O,      [ROLE_GATE] = STAGE_UP,
        [ROLE_UP] = STAGE_UP,   [ROLE_DOWN] = STAGE_DOWN};
    return stage[role];
}

/* Rows and columns of its weight. */
static void role_shape(const struct spec *s, int role, int64_t *rows, int64_t *cols)
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

static bool has_bias(const struct spec *s, int stage)
{
    const bool bias[STAGE_N] = {[STAGE_QKV] = s->bias_qkv,
                                [STAGE_O] = s->bias_o,
                                [STAGE_UP] = s->bias_mlp,
                                [STAGE_DOWN] = s->bias_mlp};
    return bias[stage];
}

int64_t slot_elements(const struct slot *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->n[i];
    return n;
}

static struct slot slot_make(enum slot_kind kind, int index, const char *part, const char *suffix,
                             int n_dims, int64_t rows, int64_t cols)
{
    return (struct slot){.kind = kind,
                         .index = index,
                         .part = part,
                         .suffix = suffix,
                         .n_dims = n_dims,
                         .n = {rows, cols}};
}

static int add_linears(const struct spec *s, struct slot *slots)
{
    int n = 0, index = 0;
    for (int role = 0; role < ROLE_N; role++) {
        const char *part = s->arch->linear[role];
        int64_t rows, cols;
        if (!part) continue;
        role_shape(s, role, &rows, &cols);
        slots[n] = slot_make(SLOT_WEIGHT, index, part, ".weight", 2, rows, cols);
        slots[n++].stage = role_stage(role);
        if (has_bias(s, role_stage(role)))
            slots[n++] = slot_make(SLOT_BIAS, index, part, ".bias", 1, rows, 0);
        index++;
    }
    return n;
}

/* The weight of a norm of n values and, in families with LayerNorm, its bias at the next index;
 * none if part is NULL. */
static int add_norm(const struct spec *s, enum slot_kind kind, int index, const char *part,
                    int64_t n, struct slot *slots)
{
    if (!part) return 0;
    slots[0] = slot_make(kind, index, part, ".weight", 1, n, 0);
    if (s->arch->norm != NORM_LAYER) return 1;
    slots[1] = slot_make(kind, index + 1, part, ".bias", 1, n, 0);
    return 2;
}

static int add_qk_norm(const struct spec *s, int index, const char *part, const char *alias,
                       int64_t heads, struct slot *slots)
{
    if (!part) return 0;
    int64_t n = s->shape.head_dim * (s->qk_norm == QK_PROJECTION ? heads : 1);
    slots[0] = slot_make(SLOT_EXTRA, index, part, ".weight", 1, n, 0);
    slots[0].alias = alias;
    return 1;
}

static int add_xielu(struct slot *slots)
{
    slots[0] = slot_make(SLOT_EXTRA, EXTRA_ALPHA_P, "mlp.act_fn.alpha_p", "", 0, 0, 0);
    slots[1] = slot_make(SLOT_EXTRA, EXTRA_ALPHA_N, "mlp.act_fn.alpha_n", "", 0, 0, 0);
    slots[2] = slot_make(SLOT_EXTRA, EXTRA_BETA, "mlp.act_fn.beta", "", 0, 0, 0);
    slots[3] = slot_make(SLOT_EXTRA, EXTRA_EPS, "mlp.act_fn.eps", "", 0, 0, 0);
    slots[2].buffer = slots[3].buffer = true;
    return 4;
}

static int block_slots(const struct spec *s, struct slot *slots)
{
    const struct arch *a = s->arch;
    const struct model_shape *m = &s->shape;
    int n = add_linears(s, slots);
    n += add_norm(s, SLOT_EXTRA, EXTRA_ATTN_NORM, a->attn_norm, m->hidden, slots + n);
    n += add_norm(s, SLOT_EXTRA, EXTRA_MLP_NORM, a->mlp_norm, m->hidden, slots + n);
    n += add_norm(s, SLOT_EXTRA, EXTRA_ATTN_SUB_NORM, a->attn_sub_norm, m->hidden, slots + n);
    n += add_norm(s, SLOT_EXTRA, EXTRA_MLP_SUB_NORM, a->mlp_sub_norm, m->intermediate, slots + n);
    if (s->qk_norm != QK_NONE) {
        n += add_qk_norm(s, EXTRA_Q_NORM, a->q_norm, a->q_norm_alias, m->heads, slots + n);
        n += add_qk_norm(s, EXTRA_K_NORM, a->k_norm, a->k_norm_alias, m->kv_heads, slots + n);
    }
    if (s->activation == ACT_XIELU) n += add_xielu(slots + n);
    return n;
}

int slots_of(const struct spec *s, int64_t layer, struct slot slots[SLOTS_MAX])
{
    const struct arch *a = s->arch;
    int64_t V = s->shape.vocab, C = s->shape.hidden;
    if (layer >= 0) return block_slots(s, slots);
    int n = 0;
    slots[n++] = slot_make(SLOT_OUTER, OUTER_EMBED, a->embed, ".weight", 2, V, C);
    n += add_norm(s, SLOT_OUTER, OUTER_NORM, a->final_norm, C, slots + n);
    if (s->shape.tied) return n;
    slots[n] = slot_make(SLOT_OUTER, OUTER_HEAD, a->head, ".weight", 2, V, C);
    slots[n++].alias = a->head_alias;
    return n;
}
