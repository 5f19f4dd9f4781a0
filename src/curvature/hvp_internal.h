/* hvp_internal: internal structs and functions of hvp. Only hvp*.c include it, and tests and
 * benches that set the head's slices themselves. */
#pragma once
#include "curvature/hvp.h"
#include "model/diff_block.h"
#include "model/model_internal.h"

/* Tokens that a block processes together (whole sequences, at least one), by default. The order of
 * sums over tokens depends on it. */
enum { HVP_CHUNK = 2048 };

/* One tensor of the subset. */
struct hvp_entry {
    struct hvp_tensor tensor; /* name owned */
    struct slot slot;
    int64_t at; /* offset in the buffer of its unit (hvp_share.c) */
};

struct hvp {
    const struct model *m;
    const struct sequences *s;
    enum products products;
    int64_t n, n_tensors, scored, total;
    const int32_t *targets;     // (T) hvp_targets, or NULL
    const struct block *blocks; // (L) hvp_blocks, or NULL
    double z_loss, z_part;      /* coefficient; part of the last call's loss */

    /* The subset's tensors in the vector's order, and the same by layer: those of layer l are
     * by_layer[layer_at[l + 1] .. layer_at[l + 2]), l = -1 for those outside the blocks. */
    struct hvp_entry *entries; // (n_tensors)
    int64_t *by_layer;         // (n_tensors)
    int64_t *layer_at;         // (L + 2)

    struct space space;
    bool shared; /* vectors are distributed: hvp_share_over was called */
    struct hvp_share share;
    int64_t buffer; /* numbers of a unit's buffer */

    const real *direction; // (n) or NULL
    real step;
    int64_t chunk;                                 /* tokens */
    void (*moved)(void *context, double products); /* hvp_watch */
    void *watcher;                                 /* its context */
    bool keep, keep_values;
    struct hvp_state *kept; /* retained since the first call after hvp_keep(_values); or NULL */
    int64_t rows;           /* positions of a slice of the head */
    struct diff_program program;
};

/* --- hvp_table.c: the parameters of the subset --- */

/* Fills in h's table of the parameters in the subset, and frees it. ERR_NOMEM, ERR_FORMAT. */
MUST_USE enum status hvp_table_open(struct hvp *h, enum hvp_subset subset, struct err *e);
void hvp_table_close(struct hvp *h);
/* The part of a tensor that this rank holds: numbers [*begin, *begin + n) of the tensor, at *at in
 * the rank's vectors. Returns n, 0 for none. */
int64_t hvp_tensor_here(const struct hvp *h, int64_t tensor, int64_t *begin, int64_t *at);

/* *out points to the tensors of a block in the vector v, as the passes see it; NULL for tensors
 * outside the subset, and all NULL if v is. Callers must not write through a const vector. */
void hvp_params(const struct hvp *h, const real *v, int64_t layer, struct diff_params *out);
/* The same for the tensors outside the blocks, by OUTER_*; a tied head is the embedding. */
struct hvp_outer {
    real *p[OUTER_N];
};
void hvp_params_outer(const struct hvp *h, const real *v, struct hvp_outer *out);

/* --- hvp_share.c: buffers of distributed vectors ---
 * Where vectors are distributed, the passes work on buffers instead, one per vector, which hold all
 * numbers of one unit at a time. A unit is a layer, the embedding, or what follows the last layer
 * (a tied matrix belongs to both). Where vectors are not distributed, the passes work on the
 * vectors themselves and hvp_gather, hvp_clear and hvp_reduce do nothing. */
enum { HVP_EMBED = -1, HVP_HEAD = -2 };

/* The vectors of one call. */
struct hvp_buffers {
    int64_t k;
    /* What the passes read and write: the vectors, or the buffers. */
    const real *const *v; // (k)
    real *const *hv;      // (k)
    real *g;              // or NULL
    /* The buffers, and this rank's parts of the vectors that they stand for. */
    real **v_buffer, **hv_buffer, *g_buffer; // (k, buffer), (k, buffer), (buffer) or NULL
    const real *const *v_here;
    real *const *hv_here, *g_here;
};
/* Free with hvp_buffers_free whatever is returned. ERR_NOMEM. */
MUST_USE enum status hvp_buffers_open(const struct hvp *h, int64_t k, const real *const *v,
                                      real *const *hv, real *g, struct hvp_buffers *out,
                                      struct err *e);
void hvp_buffers_free(struct hvp_buffers *b);
/* Collective: fills the buffers of v with the unit. Errors of the callback. */
MUST_USE enum status hvp_gather(const struct hvp *h, const struct hvp_buffers *b, int64_t unit,
                                struct err *e);
/* Local: zeroes the unit in the buffers of hv and g. */
void hvp_clear(const struct hvp *h, const struct hvp_buffers *b, int64_t unit);
/* Collective: adds the sum over the ranks of the unit in the buffers of hv and g to the parts of
 * the ranks that hold it. Errors of the callback. */
MUST_USE enum status hvp_reduce(const struct hvp *h, const struct hvp_buffers *b, int64_t unit,
                                struct err *e);
/* x (n) = 0. Parallel. */
void hvp_zero(real *x, int64_t n);
/* Numbers of a unit's buffer for a subset. */
int64_t hvp_buffer_numbers(const struct spec *s, enum hvp_subset subset);

/* --- hvp_outer.c: weights outside the blocks --- */

/* In `real`, moved as hvp_move says: borrowed from the model, or a copy where they differ. Free
 * with hvp_outer_free whatever is returned. */
struct hvp_outer_weights {
    struct hvp_outer at;
    real *owned[OUTER_N];
};
MUST_USE enum status hvp_outer_load(const struct hvp *h, struct hvp_outer_weights *w,
                                    struct err *e);
void hvp_outer_free(struct hvp_outer_weights *w);
/* x (T, C) = the rows of the table that the token ids name; table NULL: zeros. Parallel. */
void hvp_embed(const struct hvp *h, const real *table, real *x);
/* The adjoint of hvp_embed: adds the rows of g (T, C) to those of table; NULL: does nothing. */
void hvp_embed_back(const struct hvp *h, const real *g, real *table);

/* --- hvp_state.c: the memory of a call --- */

/* Whole sequences [s0, s1) that are processed together: rows [row, row + tokens). */
struct hvp_chunk {
    int64_t s0, s1, row, tokens;
    int64_t *first; // (s1 - s0 + 1) first rows of the sequences, relative to `row`
};

/* What the head has for some positions. */
struct hvp_logits {
    real *gh; // (positions, C) adjoints of its input
    real *z;  // (positions, V) logits, then their adjoints
    real *p;  // (positions) the losses' weights times the targets' probabilities
    real *dz; // (positions of a slice, V) tangents of logits; empty without vectors
};

/* Of one call, or retained for many (hvp_keep). A retained state has lanes for each chunk of each
 * block, so that the backward pass recomputes nothing; values and adjoints, which do not depend on
 * the vectors, serve all calls; vectors are processed one by one. With hvp_keep_values only values
 * have so many lanes. T: all tokens. */
enum hvp_kept { HVP_KEPT_NONE, HVP_KEPT_VALUES, HVP_KEPT_ALL };
struct hvp_state {
    enum hvp_kept kept;
    bool known; /* values and adjoints are valid */
    int64_t L, T, C, k;
    struct hvp_chunk *chunks; // (n_chunks)
    int64_t *first;           /* owner of the chunks' first */
    int64_t n_chunks, max_tokens, max_sequences, longest;
    struct diff_work work;
    struct hvp_outer_weights outer;
    int64_t levels;            /* of hidden states: L + 1, or 2 without a backward pass */
    real *x, *dx;              // (levels, T, C), (k, levels, T, C) inputs of the blocks
    real *gx, *dgx;            // (T, C), (k, T, C) adjoints between the blocks
    struct hvp_logits logits;  /* of all T positions, if all is retained; of a slice, if values */
    double loss;               /* of this rank's sequences, if known */
    int64_t n_values, n_lanes; /* of values, of the other two: L * n_chunks if retained, else 1 */
    struct diff_lane *value, *tangent, *adjoint;
    /* If all are retained, the others borrow short-lived buffers from it; if values, those do from
     * the adjoints. */
    struct diff_lane adjoint_tangent;
};
/* For calls with up to k vectors (kept: one at a time). *out is NULL before, and on failure.
 * ERR_NOMEM; errors of the checkpoint. */
MUST_USE enum status hvp_state_open(struct hvp_state **out, const struct hvp *h, int64_t k,
                                    bool backward, enum hvp_kept kept, struct err *e);
/* Frees *state and sets it to NULL; it may be NULL. */
void hvp_state_close(struct hvp_state **state);
/* Block `layer`'s input from row `row` on, and vector j's tangent of it. */
static inline real *hvp_level(const struct hvp_state *s, int64_t layer, int64_t row)
{
    return s->x + ((layer % s->levels) * s->T + row) * s->C;
}
static inline real *hvp_tangent_level(const struct hvp_state *s, int64_t j, int64_t layer,
                                      int64_t row)
{
    return s->dx + ((j * s->levels + layer % s->levels) * s->T + row) * s->C;
}

/* --- hvp_run.c and hvp_head.c: one call --- */

struct hvp_call {
    struct hvp *h;
    bool backward; /* false: the loss alone */
    bool known;    /* s has values and adjoints from an earlier call: only tangents are missing */
    int64_t from;  /* the vectors are zero in front of this layer, and no product is wanted there */
    struct hvp_buffers b;
    struct hvp_state *s;
    double loss, z_part; /* z_part: while the head sums, that of weight 1 */
};
/* Computes loss, gradient g (or NULL) and products hv[i] (n) = H v[i], i < k. loss may be NULL.
 * from: 0, or as hvp_apply_layer says. */
MUST_USE enum status hvp_run(struct hvp *h, int64_t from, int64_t k, const real *const *v,
                             real *const *hv, real *g, bool backward, double *loss, struct err *e);
/* Final norm, output matrix and cross-entropy with all derivatives, from the last level of the
 * state: sets the loss of this rank's sequences and the adjoints s->gx and s->dgx. ERR_NOMEM. */
MUST_USE enum status hvp_head(struct hvp_call *c, struct err *e);
/* Positions of a slice of the head, whose logits exist at the same time. */
int64_t hvp_head_rows(int64_t vocab);
/* For so many positions, and tangents of so many. Free with hvp_logits_close whatever is returned.
 * ERR_NOMEM. */
MUST_USE enum status hvp_logits_open(struct hvp_logits *l, const struct model_shape *m,
                                     int64_t rows, int64_t tangent_rows, struct err *e);
void hvp_logits_close(struct hvp_logits *l);
int64_t hvp_logits_bytes(int64_t hidden, int64_t vocab, int64_t rows, int64_t tangent_rows);
/* Bytes that hvp_head allocates in a call with k vectors, with a retained state or without. */
int64_t hvp_head_bytes(int64_t hidden, int64_t vocab, int64_t tokens, int64_t k, bool kept);
