/* arch: descriptions of architectures. A family is a const struct arch: tensor names, wiring, and
 * defaults of config.json's keys. A spec is a family plus one config.json: all that the shared code
 * needs to know of a model. Internal to this folder and to curvature/hvp*. Nothing here
 * communicates. */
#pragma once
#include "checkpoint/packed.h"
#include "math/kern.h"
#include "model/hfconfig.h"
#include "model/rope.h"
#include "model/shape.h"

/* The linear layers that a block may have, in the order of the stages (shape.h). */
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
enum activation { ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_XIELU, ACT_RELU2 };

enum { LAYERS_MAX = 1024, LAYER_NO_ROPE = 1, LAYER_WINDOW = 2 };

struct spec {
    const struct arch *arch;
    struct model_shape shape;
    double eps; /* of the norms; the f32 kernels round it to f32, as transformers does */
    enum qk_norm qk_norm;
    enum activation activation;
    bool gated, fused, parallel; /* gated MLP; fused q, k, v; parallel residual */
    bool bias_qkv, bias_o, bias_mlp;
    enum bitnet_linears linears; /* not NONE: their inputs are rounded to 8 bits */
    double clip;                 /* q, k and v are clipped to [-clip, clip]; 0: not */
    struct rope rope[ROPES_MAX]; // (n_ropes) by spec_rope; they rotate equally many values
    int n_ropes;
    int64_t window;            /* tokens that attention sees in layers flagged LAYER_WINDOW */
    uint8_t flags[LAYERS_MAX]; // (L) LAYER_* bits
};

struct arch {
    const char *name, *alias, *doc; /* model_type; a second one or NULL; one line for people */

    /* Tensor names without ".weight" and ".bias"; NULL: the family has no such tensor. */
    const char *embed, *final_norm, *head, *head_alias;
    const char *layers; /* prefix of the blocks, "model.layers." */
    const char *linear[ROLE_N];
    const char *attn_norm, *mlp_norm;
    const char *attn_sub_norm, *mlp_sub_norm; /* of the inputs of o and of the last linear */
    const char *q_norm, *k_norm, *q_norm_alias, *k_norm_alias;

    /* Wiring. */
    enum norm_kind norm;
    enum norm_place place;
    enum qk_norm qk_norm;
    enum bias_rule bias_qkv, bias_o, bias_mlp;
    bool rounds_last; /* with results in bf16, RMSNorm and RoPE round their result alone, not what
                         they compute on the way (math/kern_bf16.h) */

    /* config.json: names of keys that differ between families, and values of absent keys. */
    const char *eps_key; /* NULL: eps is no key, but fixed */
    double eps;
    struct rope_defaults rope;
    bool tied, attention_bias, mlp_bias;
    int64_t kv_heads, head_dim; /* 0: as many as heads; hidden / heads */
    const char *activation;
    /* Optional: reads keys that only this family has, after all others. */
    enum status (*configure)(const struct hfconfig *c, struct spec *s, struct err *e);
};
/* Whether the norm before attention and MLP absorbs factors of the input channels: there is one,
 * and it has weights. */
static inline bool arch_norm_absorbs(const struct arch *a)
{
    return a->place == NORM_PRE && a->norm != NORM_LAYER_PLAIN;
}

/* Reads config.json into *out; `name`: the file, for messages. ERR_USAGE: a family or feature that
 * is not supported; ERR_FORMAT: a wrong or missing key. */
MUST_USE enum status spec_read(const json_t *config, const char *name, struct spec *out,
                               struct err *e);
/* Which of the RoPEs a layer uses. */
static inline enum rope_layers spec_rope(const struct spec *s, int64_t layer)
{
    return s->n_ropes > 1 && s->flags[layer] & LAYER_WINDOW ? ROPE_WINDOW : ROPE_FULL;
}
/* Tokens that attention sees in a layer; 0: all. */
static inline int64_t spec_window(const struct spec *s, int64_t layer)
{
    return s->flags[layer] & LAYER_WINDOW ? s->window : 0;
}
/* For configure: flags the layers with sliding-window attention as layer_types says; without it
 * they stay as they are. ERR_FORMAT. */
MUST_USE enum status spec_read_layer_types(const struct hfconfig *c, struct spec *s, struct err *e);
/* For configure: flags the layers with sliding-window attention, if use_sliding_window and
 * sliding_window ask for it. layer_types names the layers; if it is absent, they are all from
 * first_layer on, or only those of them without RoPE if no_rope_only. ERR_FORMAT. */
MUST_USE enum status spec_read_window(const struct hfconfig *c, struct spec *s, int64_t first_layer,
                                      bool no_rope_only, struct err *e);

/* The same with first_layer = max_window_layers, as Qwen2 and Qwen3 do. */
MUST_USE enum status spec_read_upper_window(const struct hfconfig *c, struct spec *s,
                                            struct err *e);

/* Tensors of a block other than linears. The bias of a norm follows its weight. */
enum {
    EXTRA_ATTN_NORM,
    EXTRA_ATTN_NORM_BIAS,
    EXTRA_MLP_NORM,
    EXTRA_MLP_NORM_BIAS,
    EXTRA_ATTN_SUB_NORM,
    EXTRA_ATTN_SUB_NORM_BIAS,
    EXTRA_MLP_SUB_NORM,
    EXTRA_MLP_SUB_NORM_BIAS,
    EXTRA_Q_NORM,
    EXTRA_K_NORM,
    EXTRA_ALPHA_P,
    EXTRA_ALPHA_N,
    EXTRA_BETA,
    EXTRA_EPS,
    EXTRA_N
};
/* Tensors outside the blocks. */
enum { OUTER_EMBED, OUTER_NORM, OUTER_NORM_BIAS, OUTER_HEAD, OUTER_N };
enum slot_kind { SLOT_WEIGHT, SLOT_BIAS, SLOT_EXTRA, SLOT_OUTER };

/* One tensor of a model, by its spec. */
struct slot {
    const char *part, *alias, *suffix; /* name: prefix of the layer, part (or alias), suffix */
    enum slot_kind kind;
    int index;    /* number of the linear in the block, EXTRA_* or OUTER_* */
    int stage;    /* of a linear's weight */
    int n_dims;   /* 0: one number, stored as [] or [1] */
    bool buffer;  /* not a parameter; may be missing */
    int64_t n[2]; /* shape */
};
enum { SLOTS_MAX = 2 * LINEARS_MAX + EXTRA_N };
/* Fills slots with the tensors of a block (the same in all layers; linears in the order of the
 * stages), or for layer < 0 with those outside the blocks. Returns how many. */
int slots_of(const struct spec *s, int64_t layer, struct slot slots[SLOTS_MAX]);
int64_t slot_elements(const struct slot *t);
