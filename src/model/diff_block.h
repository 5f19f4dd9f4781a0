/* diff: a block forward and backward, and the tangents of both (Pearlmutter 1994), in the scalar
 * type `real`. docs/math/hvp.md derives it.
 *
 * A block is a short program of operations on named buffers; each operation has four forms (value,
 * tangent, adjoint, tangent of the adjoint), and a pass runs one form over the program. The wiring
 * of a family is thus written once, in diff_program.c.
 *
 * A lane is one set of the buffers for the tokens of a chunk: values, tangents, adjoints, or
 * tangents of the adjoints. */
#pragma once
#include "model/block.h"
#include "model/model.h"
#include "tensor/diff.h"
#include "tensor/real.h"

#define diff_program          REAL_NAME(diff_program)
#define diff_lane_init        REAL_NAME(diff_lane_init)
#define diff_lane_free        REAL_NAME(diff_lane_free)
#define diff_lane_bytes       REAL_NAME(diff_lane_bytes)
#define diff_work_init        REAL_NAME(diff_work_init)
#define diff_work_bytes       REAL_NAME(diff_work_bytes)
#define diff_work_free        REAL_NAME(diff_work_free)
#define diff_work_cut         REAL_NAME(diff_work_cut)
#define diff_values           REAL_NAME(diff_values)
#define diff_tangents         REAL_NAME(diff_tangents)
#define diff_adjoints         REAL_NAME(diff_adjoints)
#define diff_adjoint_tangents REAL_NAME(diff_adjoint_tangents)
#define diff_param            REAL_NAME(diff_param)
#define diff_weights_load     REAL_NAME(diff_weights_load)
#define diff_weights_free     REAL_NAME(diff_weights_free)
#define diff_angles           REAL_NAME(diff_angles)
#define diff_norm_of          REAL_NAME(diff_norm_of)
#define diff_partial_add      REAL_NAME(diff_partial_add)

enum diff_buffer {
    DIFF_X0,   // (T, C) the block's input
    DIFF_N1,   // (T, C) normed
    DIFF_RAW,  // (T, W) q, k, v as projected (clipped), side by side
    DIFF_QKV,  // (T, W) normed and rotated
    DIFF_ATT,  // (T, NH*HD) attention
    DIFF_O,    // (T, C) its projection
    DIFF_B1,   // (T, C) normed, where norms come after
    DIFF_X1,   // (T, C) residual stream
    DIFF_N2,   // (T, C) normed
    DIFF_UP,   // (T, 2I or I) gate and up
    DIFF_ACT,  // (T, I) activation
    DIFF_DOWN, // (T, C) MLP's output
    DIFF_B2,   // (T, C) normed, where norms come after
    DIFF_X2,   // (T, C) the block's output
    DIFF_BUFFERS
};

struct diff_lane {
    real *b[DIFF_BUFFERS]; /* X0 and X2 are the caller's; NULL: not in the program */
    real *log_sum;         // (T, NH) of the attention's softmaxes, in the lane of values
    real *storage;
};

/* One number for each tensor of a block: weights, directions, or where gradients are added up.
 * NULL: the family has none, or it is not wanted. */
struct diff_params {
    real *weight[LINEARS_MAX], *bias[LINEARS_MAX], *extra[EXTRA_N];
};
/* The entry of a slot of a block. */
real **diff_param(struct diff_params *p, const struct slot *t);

enum diff_kind {
    DIFF_NORM,
    DIFF_LINEAR,
    DIFF_PREPARE,
    DIFF_ATTEND,
    DIFF_ACTIVATE,
    DIFF_ADD,
    DIFF_KINDS
};

struct diff_op {
    enum diff_kind kind;
    int arg;                  /* norm: EXTRA_*_NORM; linear: stage */
    enum diff_buffer a, b, y; /* y = op(a); addition: y = a + b */
    bool add_a, add_b;        /* adjoints: another consumer has already left its part */
    bool backward;            /* values and tangents: y is needed by the adjoints */
};
/* Buffers by number: which of them something is about. */
struct diff_set {
    bool has[DIFF_BUFFERS];
};
struct diff_program {
    int n;
    struct diff_op op[12];
    struct diff_set inside; /* used, and not X0 or X2 */
    /* Of those: values (and tangents) that later passes read; adjoints that their tangents read. */
    struct diff_set read, adjoint_read;
    int64_t width[DIFF_BUFFERS];
    int n_linears;
    struct linear linear[LINEARS_MAX]; /* stage, rows and cols alone */
};
void diff_program(const struct spec *s, struct diff_program *out);

/* A lane for up to `tokens` tokens that owns the set's buffers; the others are those of `rest`,
 * which outlives it (NULL: none is missing). heads: of the attention whose log_sum it has, 0: none.
 */
MUST_USE enum status diff_lane_init(struct diff_lane *l, const struct diff_program *p,
                                    const struct diff_set *set, const struct diff_lane *rest,
                                    int64_t tokens, int64_t heads, struct err *e);
void diff_lane_free(struct diff_lane *l);
int64_t diff_lane_bytes(const struct diff_program *p, const struct diff_set *set, int64_t tokens,
                        int64_t heads);

/* What the passes need beside lanes. */
struct diff_work {
    int64_t tokens;       /* of the chunk in hand */
    const int64_t *first; // (n_sequences + 1) first row of each of its sequences
    int64_t n_sequences;
    struct tile *tiles; /* the chunk in short runs of tokens, within sequences */
    int64_t n_tiles, max_tiles;
    real *cosine, *sine; // (longest sequence, half)
    real *partial;       // (max_tiles, 2 width) sums over the tokens of a tile
    int64_t partial_width;
    double *scalars;    // (max_tiles, 4) the same for xIELU's scalars
    real *ones, *zeros; // (partial_width)
    real *scores;       // (threads, 4, QUERY_TILE, longest sequence)
    int64_t longest;
    int threads;
};
/* For chunks of at most that many tokens and sequences, none longer than `longest`. */
MUST_USE enum status diff_work_init(struct diff_work *w, const struct model *m, int64_t tokens,
                                    int64_t sequences, int64_t longest, struct err *e);
void diff_work_free(struct diff_work *w);
int64_t diff_work_bytes(const struct spec *s, int64_t tokens, int64_t sequences, int64_t longest,
                        int64_t threads);
/* The chunk of n sequences whose rows start at first[0] = 0, ..., first[n] (borrowed). */
void diff_work_cut(struct diff_work *w, const int64_t *first, int64_t n);

/* One pass over one chunk of one block. */
struct diff_pass {
    const struct spec *spec;
    const struct diff_program *program;
    int64_t layer;
    struct diff_work *work;
    const struct diff_params *w; /* the weights */
    const struct diff_params *v; /* their tangents */
    const struct diff_params *g; /* adjoints or their tangents are added here */
    struct diff_lane *value, *tangent, *adjoint, *adjoint_tangent;
    bool again; /* values and tangents: only what the adjoints need */
};
/* From value->b[X0] everything up to value->b[X2]. Parallel inside, like the three below. */
void diff_values(const struct diff_pass *p);
/* Needs values. */
void diff_tangents(const struct diff_pass *p);
/* Needs values and adjoint->b[X2]; leaves adjoint->b[X0]. */
void diff_adjoints(const struct diff_pass *p);
/* Needs all three and adjoint_tangent->b[X2]. */
void diff_adjoint_tangents(const struct diff_pass *p);

/* The weights of a block in `real`, moved by step * direction where direction has entries. */
struct diff_weights {
    struct block block;
    struct diff_params params; /* into block's storage, or into `wide` */
    real *wide;
};
MUST_USE enum status diff_weights_load(const struct model *m, int64_t layer,
                                       const struct diff_params *direction, real step,
                                       struct diff_weights *out, struct err *e);
void diff_weights_free(struct diff_weights *w);

/* cosine and sine (n, half) of the positions below n. ERR_FORMAT: config.json. */
MUST_USE enum status diff_angles(const struct model *m, int64_t n, real *cosine, real *sine,
                                 struct err *e);

/* The kernel's view of the family's norm of n values (the q/k norm when `rms`); absent weights and
 * tangents become ones and zeros. */
struct diff_norm diff_norm_of(const struct spec *s, const struct diff_work *w, int64_t n, bool rms,
                              const real *const weight_bias[2], const real *const tangent[2]);
/* gw, gb (n) += the partial sums of the work's tiles; either may be NULL. */
void diff_partial_add(const struct diff_work *w, int64_t n, real *gw, real *gb);
