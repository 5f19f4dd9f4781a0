/* hvp_engine: the insides of hvp, and of one call of it. Only hvp*.c include it, and the tests and
 * the bench that cut the head's slices themselves. */
#pragma once
#include "curvature/hvp.h"
#include "model/block.h"
#include "model/diff_block.h"

#define hvp_table_open   REAL_NAME(hvp_table_open)
#define hvp_table_close  REAL_NAME(hvp_table_close)
#define hvp_params       REAL_NAME(hvp_params)
#define hvp_params_outer REAL_NAME(hvp_params_outer)
#define hvp_outer_load   REAL_NAME(hvp_outer_load)
#define hvp_outer_free   REAL_NAME(hvp_outer_free)
#define hvp_rooms_open   REAL_NAME(hvp_rooms_open)
#define hvp_rooms_free   REAL_NAME(hvp_rooms_free)
#define hvp_bring        REAL_NAME(hvp_bring)
#define hvp_clear        REAL_NAME(hvp_clear)
#define hvp_fold         REAL_NAME(hvp_fold)
#define hvp_zero         REAL_NAME(hvp_zero)
#define hvp_room         REAL_NAME(hvp_room)
#define hvp_state_open   REAL_NAME(hvp_state_open)
#define hvp_state_close  REAL_NAME(hvp_state_close)
#define hvp_run          REAL_NAME(hvp_run)
#define hvp_head         REAL_NAME(hvp_head)
#define hvp_head_slice   REAL_NAME(hvp_head_slice)
#define hvp_head_bytes   REAL_NAME(hvp_head_bytes)
#define hvp_embed        REAL_NAME(hvp_embed)
#define hvp_embed_back   REAL_NAME(hvp_embed_back)

/* Tokens of a chunk, until hvp_chunk says otherwise. */
enum { HVP_CHUNK = 2048 };

/* What the head works on at once: so many positions, so many entries of the vocabulary. */
struct hvp_slice {
    int64_t rows, columns;
};

/* Where a tensor of the table stands in the model. */
struct hvp_place {
    struct slot slot;
    int64_t layer; /* -1: outside the blocks */
    int64_t room;  /* first number in a room, see below */
};

struct hvp {
    const struct model *m;
    const struct sequences *s;
    int64_t n, n_tensors, scored, total;

    /* The subset's tensors in the vector's order, and the same by layer: those of layer l are
     * by_layer[layer_at[l + 1] .. layer_at[l + 2]), l = -1 for those outside. */
    struct hvp_tensor *tensors; // (n_tensors), names owned
    struct hvp_place *places;   // (n_tensors)
    int64_t *by_layer;          // (n_tensors)
    int64_t *layer_at;          // (L + 2)

    struct space space;
    bool shared;
    struct hvp_share share;
    int64_t room; /* numbers of one */

    const real *direction; // (n) or NULL
    real step;
    int64_t chunk; /* tokens */
    bool keep;
    struct hvp_state *kept; /* since the first call after hvp_keep; or NULL */
    struct hvp_slice slice; /* hvp_head_slice's */
    struct diff_program program;
};

MUST_USE enum status hvp_table_open(struct hvp *h, enum hvp_subset subset, struct err *e);
void hvp_table_close(struct hvp *h);

/* --- hvp_share.c: rooms ---
 * Where vectors are cut over ranks, passes see rooms in their place, which hold whole what belongs
 * to one unit at a time: a layer, the embedding, or what stands behind the last layer (a tied
 * matrix comes with both). Else they see the vectors themselves, and all this does nothing. */
enum { HVP_EMBED = -1, HVP_HEAD = -2 };

/* Those of one call. */
struct hvp_rooms {
    int64_t k;
    /* For the passes: the vectors, or the rooms. */
    const real *const *v; // (k)
    real *const *hv;      // (k)
    real *g;              // or NULL
    /* The rooms, and this rank's parts of what they stand for. */
    real **v_room, **hv_room, *g_room; // (k, room), (k, room), (room) or NULL
    const real *const *v_here;
    real *const *hv_here, *g_here;
};
/* Free it whatever is returned. */
MUST_USE enum status hvp_rooms_open(const struct hvp *h, int64_t k, const real *const *v,
                                    real *const *hv, real *g, struct hvp_rooms *out, struct err *e);
void hvp_rooms_free(struct hvp_rooms *r);
/* The unit's tangents come; its sums are zeroed (locally), and go where they are kept. */
MUST_USE enum status hvp_bring(const struct hvp *h, const struct hvp_rooms *r, int64_t unit,
                               struct err *e);
void hvp_clear(const struct hvp *h, const struct hvp_rooms *r, int64_t unit);
MUST_USE enum status hvp_fold(const struct hvp *h, const struct hvp_rooms *r, int64_t unit,
                              struct err *e);
void hvp_zero(real *x, int64_t n);
/* Numbers of a room of the subset. */
int64_t hvp_room(const struct spec *s, enum hvp_subset subset);

/* A vector's parts that belong to a block, NULL for tensors outside the subset; v NULL: all NULL.
 * v as the passes see it. The callers take care not to write through a const vector. */
void hvp_params(const struct hvp *h, const real *v, int64_t layer, struct diff_params *out);
/* The same outside the blocks, by OUTER_*; a tied head is the embedding. */
struct hvp_outer {
    real *p[OUTER_N];
};
void hvp_params_outer(const struct hvp *h, const real *v, struct hvp_outer *out);

/* What stands outside the blocks in `real`, moved as h says: borrowed from the model, or a copy
 * where it must differ. */
struct hvp_outer_weights {
    struct hvp_outer at;
    real *owned[OUTER_N];
};
MUST_USE enum status hvp_outer_load(const struct hvp *h, struct hvp_outer_weights *w,
                                    struct err *e);
void hvp_outer_free(struct hvp_outer_weights *w);

/* --- hvp_state.c: what calls work in --- */

/* Whole sequences [s0, s1) that are worked on together: rows [row, row + tokens). */
struct hvp_chunk {
    int64_t s0, s1, row, tokens;
    int64_t *first; // (s1 - s0 + 1) rows relative to `row`
};

/* Of one call, or of many when it is kept. A kept one has lanes for each chunk of each block, so
 * that the way back computes nothing again, and the values and adjoints, which do not depend on the
 * vectors, serve all calls; vectors go through it one by one. */
struct hvp_state {
    bool kept;
    bool known; /* values and adjoints are there */
    int64_t L, T, C, k;
    struct hvp_chunk *chunks;
    int64_t *first;
    int64_t n_chunks, most_tokens, most_sequences, longest;
    struct diff_work work;
    struct hvp_outer_weights outer;
    int64_t levels;  /* hidden states kept: L + 1, or 2 when there is no way back */
    real *x, *dx;    // (levels, T, C), (k, levels, T, C) inputs of the blocks
    real *gx, *dgx;  // (T, C), (k, T, C) adjoints between the blocks
    int64_t n_lanes; /* of each of the three: L * n_chunks when kept, else 1 */
    struct diff_lane *value, *tangent, *adjoint;
    struct diff_lane adjoint_tangent; /* a kept state's others share what they need but briefly */
};
/* For calls with up to k vectors; kept: with one. *out is NULL before, and when it fails. */
MUST_USE enum status hvp_state_open(struct hvp_state **out, const struct hvp *h, int64_t k,
                                    bool backward, bool kept, struct err *e);
/* NULL afterwards; it may be before. */
void hvp_state_close(struct hvp_state **state);

/* One call. T: all tokens. */
struct hvp_call {
    struct hvp *h;
    bool backward; /* else the loss alone */
    int64_t k;
    const real *const *v;          // k vectors, as passes see them
    real *const *hv;               // k products, zeroed
    real *g;                       // the gradient, zeroed, or NULL
    const struct hvp_outer *outer; /* the weights */
    struct diff_work *work;

    real *x, *dx;     // (T, C), (k, T, C) of the last block's output, for the head
    int64_t dx_pitch; /* from a probe's dx to the next one's */
    real *gx, *dgx;   // (T, C), (k, T, C): the adjoints that it leaves
    double loss;
};
/* Runs blocks and head. */
MUST_USE enum status hvp_run(struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                             real *g, bool backward, double *loss, struct err *e);
/* Final norm, output matrix and cross-entropy with all their derivatives. */
MUST_USE enum status hvp_head(struct hvp_call *c, struct err *e);
/* The slices by the vocabulary alone: all of it at once while that leaves enough positions (no
 * logit is computed twice), else equal parts of it. */
struct hvp_slice hvp_head_slice(int64_t vocab);
/* Bytes that hvp_head takes in a call with k vectors. */
int64_t hvp_head_bytes(const struct hvp_slice *s, int64_t hidden, int64_t vocab, int64_t tokens,
                       int64_t k);
/* x (T, C) = the rows of the table that the ids name; table NULL: zeros. */
void hvp_embed(const struct hvp *h, const real *table, real *x);
/* The table's adjoint += g (T, C). */
void hvp_embed_back(const struct hvp *h, const real *g, real *table);
