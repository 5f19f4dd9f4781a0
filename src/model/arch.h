/* arch: what a family of architectures is, and what one model makes of it.
 *
 * A family is a const struct arch: the names of its tensors, the defaults of its config fields and
 * flags. A spec is the family plus one config.json: everything that the shared code interprets.
 * Internal to this folder and to curvature/hvp*. */
#pragma once
#include "model/hfconfig.h"
#include "model/model.h"
#include "model/rope.h"
#include "tensor/kern.h"

/* The linear layers that a block may have, in the order of the stages. */
enum role {
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_QKV, /* fused, rows interleaved per head: q, k, v of head 0, then of head 1, ... */
    ROLE_O,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_N
};

enum norm_kind { NORM_RMS, NORM_LAYER, NORM_LAYER_PLAIN /* no weight, no bias */ };
enum norm_place {
    NORM_PRE, /* x += f(norm(x)) */
    NORM_POST /* x += norm(f(x)) */
};
enum qk_norm { QK_NONE, QK_PROJECTION /* over all heads */, QK_HEAD /* over each head */ };
enum bias_rule { BIAS_NEVER, BIAS_ALWAYS, BIAS_CONFIG /* as attention_bias or mlp_bias say */ };
enum activation { ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_XIELU };

enum { LAYERS_MAX = 1024, LAYER_NO_ROPE = 1, LAYER_WINDOW = 2 };

struct spec {
    const struct arch *arch;
    struct model_shape shape;
    double eps; /* f32 kernels round it, as the models' own code does */
    enum qk_norm qk_norm;
    enum activation activation;
    bool gated, fused, parallel;
    bool bias_qkv, bias_o, bias_mlp;
    double clip; /* bound of q, k and v; 0: none */
    struct rope rope;
    int64_t window;            /* of the layers flagged LAYER_WINDOW */
    uint8_t flags[LAYERS_MAX]; // (L) LAYER_*
};

struct arch {
    const char *name, *alias, *doc; /* model_type; another that means the same, or NULL */

    /* Tensor names. ".weight" and ".bias" are appended; NULL: the family has none. */
    const char *embed, *final_norm, *head;
    const char *layers; /* prefix, "model.layers." */
    const char *linear[ROLE_N];
    const char *attn_norm, *mlp_norm;
    const char *q_norm, *k_norm, *q_norm_alias, *k_norm_alias;

    /* Wiring. */
    enum norm_kind norm;
    enum norm_place place;
    enum qk_norm qk_norm;
    enum bias_rule bias_qkv, bias_o, bias_mlp;

    /* config.json: keys that differ and defaults of absent ones. */
    const char *eps_key; /* NULL: eps is fixed */
    double eps;
    struct rope_defaults rope;
    bool tied, attention_bias, mlp_bias;
    int64_t kv_heads, head_dim; /* when the key is absent; 0: heads, hidden / heads */
    const char *activation;
    /* Reads the keys that only this family has; NULL: none. */
    enum status (*configure)(const struct hfconfig *c, struct spec *s, struct err *e);
};

/* config.json into a spec; `name` is the file for messages. */
MUST_USE enum status spec_read(const json_t *config, const char *name, struct spec *out,
                               struct err *e);
/* Flags the layers that see a sliding window: use_sliding_window and sliding_window must ask for
 * it, and layer_types names the layers; without layer_types, all from first_layer on, and only
 * those without RoPE if no_rope_only. */
MUST_USE enum status spec_read_window(const struct hfconfig *c, struct spec *s, int64_t first_layer,
                                      bool no_rope_only, struct err *e);

/* What a block has beside linears. The bias of a norm stands behind its weight. */
enum {
    EXTRA_ATTN_NORM,
    EXTRA_ATTN_NORM_BIAS,
    EXTRA_MLP_NORM,
    EXTRA_MLP_NORM_BIAS,
    EXTRA_Q_NORM,
    EXTRA_K_NORM,
    EXTRA_ALPHA_P,
    EXTRA_ALPHA_N,
    EXTRA_BETA,
    EXTRA_EPS,
    EXTRA_N
};
enum { OUTER_EMBED, OUTER_NORM, OUTER_NORM_BIAS, OUTER_HEAD, OUTER_N };
enum slot_kind { SLOT_WEIGHT, SLOT_BIAS, SLOT_EXTRA, SLOT_OUTER };

/* One tensor that a model must have. */
struct slot {
    const char *part, *alias, *suffix; /* name: layer prefix + part (or alias) + suffix */
    enum slot_kind kind;
    int index;    /* of the linear in the block, EXTRA_* or OUTER_* */
    int role;     /* of a weight or bias */
    int n_dims;   /* 0: one number, stored as [] or [1] */
    bool buffer;  /* not a parameter, and may be missing */
    int64_t n[2]; /* shape */
};
enum { SLOTS_MAX = 2 * LINEARS_MAX + EXTRA_N };
/* The tensors of a block, weights in the order of the stages; and those outside. Return how many.
 */
int slots_of_block(const struct spec *s, struct slot slots[SLOTS_MAX]);
int slots_outside(const struct spec *s, struct slot slots[OUTER_N]);
int64_t slot_elements(const struct slot *t);
/* Stage, rows and columns of a role. */
int role_stage(int role);
void role_shape(const struct spec *s, int role, int64_t *rows, int64_t *cols);
