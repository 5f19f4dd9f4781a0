/* diff_block: the forward and backward pass of a block and the tangents of both (Pearlmutter 1994),
 * in the scalar type `real`; derived in docs/math/hvp.md. Local to the process.
 *
 * A block is a short program of operations on named buffers. Each operation has four forms (value,
 * tangent, adjoint, tangent of the adjoint), and diff_run runs one form of the whole program. So
 * the wiring of all families is written once, in diff_program.c.
 *
 * A lane is one set of the buffers for the tokens of a chunk: the values, the tangents, the
 * adjoints, or the tangents of the adjoints. */
#pragma once
#include "math/diff.h"
#include "math/mat_products.h"
#include "math/real.h"
#include "model/model_internal.h"

enum diff_buffer {
    DIFF_X0,   // (T, C) the block's input
    DIFF_N1,   // (T, C) normed; this and the three like it are rounded in ternary models
    DIFF_RAW,  // (T, W) q, k, v as projected (clipped), side by side
    DIFF_QKV,  // (T, W) normed and rotated
    DIFF_ATT,  // (T, NH*HD) attention
    DIFF_NA,   // (T, NH*HD) normed, in families with such a norm
    DIFF_O,    // (T, C) its projection
    DIFF_B1,   // (T, C) normed, where norms come after
    DIFF_X1,   // (T, C) residual stream
    DIFF_N2,   // (T, C) normed
    DIFF_UP,   // (T, 2I or I) gate and up
    DIFF_ACT,  // (T, I) activation
    DIFF_NI,   // (T, I) normed, in families with such a norm
    DIFF_DOWN, // (T, C) MLP's output
    DIFF_B2,   // (T, C) normed, where norms come after
    DIFF_X2,   // (T, C) the block's output
    DIFF_BUFFERS
};

struct diff_lane {
    real *b[DIFF_BUFFERS]; /* X0 and X2: set by the caller; NULL: not in the program */
    real *log_sum;         // (T, NH) log-sums of the attention's softmaxes; in the lane of values
    real *storage;         /* owner of the buffers and log_sum */
};

/* A pointer for each tensor of a block: to weights, to a direction, or to where a gradient is
 * summed up. NULL: the family has no such tensor, or it is not wanted. Borrowed. */
struct diff_params {
    real *weight[LINEARS_MAX], *bias[LINEARS_MAX], *extra[EXTRA_N];
};
/* The entry for a block's slot. */
real **diff_param(struct diff_params *p, const struct slot *t);

enum diff_kind {
    DIFF_NORM,
    DIFF_LINEAR,
    DIFF_PREPARE,
    DIFF_ATTEND,
    DIFF_ACTIVATE,
    DIFF_ROUND, /* of a straight-through model: to 8 bits, whose adjoint is that of the input */
    DIFF_ADD,
    DIFF_KINDS
};

struct diff_op {
    enum diff_kind kind;
    int arg;                  /* norm: EXTRA_*_NORM; linear: stage */
    enum diff_buffer a, b, y; /* y = op(a), in place if a is y; addition: y = a + b */
    bool add_a, add_b;        /* backward: add to the adjoint of a, b; another reader wrote first */
    bool backward;            /* the adjoints need the value of y */
};
/* A set of buffers. */
struct diff_set {
    bool has[DIFF_BUFFERS];
};
struct diff_program {
    int n;
    struct diff_op op[18];
    struct diff_set inside; /* buffers that the program uses, without X0 and X2 */
    /* Of those: values (and tangents) that later passes read; adjoints that their tangents read. */
    struct diff_set read, adjoint_read;
    int64_t width[DIFF_BUFFERS]; /* values per token */
    int n_linears;
    struct linear linear[LINEARS_MAX]; /* stage, rows and cols only */
};
/* Writes the program of all blocks of a model. */
void diff_program(const struct spec *s, struct diff_program *out);

/* Makes a lane for up to `tokens` tokens that owns the buffers of the set and borrows the others
 * from `rest`, which must outlive it (NULL: the set is complete). heads: of the attention, for
 * log_sum; 0: a lane without it. ERR_NOMEM. */
MUST_USE enum status diff_lane_init(struct diff_lane *l, const struct diff_program *p,
                                    const struct diff_set *set, const struct diff_lane *rest,
                                    int64_t tokens, int64_t heads, struct err *e);
void diff_lane_free(struct diff_lane *l);
/* Bytes of such a lane. */
int64_t diff_lane_bytes(const struct diff_program *p, const struct diff_set *set, int64_t tokens,
                        int64_t heads);

/* What the passes need besides lanes: the chunk, tables and scratch arrays. */
struct diff_work {
    int64_t tokens;       /* of the current chunk */
    const int64_t *first; // (n_sequences + 1) first row of each of its sequences; borrowed
    int64_t n_sequences;
    struct tile *tiles; // (n_tiles) the chunk cut into short runs of tokens of one sequence
    int64_t n_tiles, max_tiles;
    real *cosine, *sine; // (RoPEs, longest, half) of the RoPE angles
    real *partial;       // (max_tiles, 2 width) sums over the tokens of a tile
    int64_t partial_width;
    double *scalars;    // (max_tiles, 4) the same for xIELU's scalars
    real *ones, *zeros; // (partial_width)
    real *scores;       // (threads, 4, QUERY_TILE, keys) attention
    real *copies;       // (threads, copies_size) attention's copies of keys and values; NULL: none
    int64_t copies_size;
    int64_t keys;    /* that the queries of a tile see, at most */
    int64_t longest; /* tokens of the longest sequence */
    int threads;
    struct mat_work products;
};
/* For chunks of at most that many tokens and sequences, none longer than `longest`, and products of
 * this kind. ERR_NOMEM; ERR_FORMAT: config.json. */
MUST_USE enum status diff_work_init(struct diff_work *w, const struct model *m, int64_t tokens,
                                    int64_t sequences, int64_t longest, enum products kind,
                                    struct err *e);
void diff_work_free(struct diff_work *w);
/* Bytes that it and the products of this kind allocate on so many threads. */
int64_t diff_work_bytes(const struct spec *s, int64_t tokens, int64_t sequences, int64_t longest,
                        int64_t threads, enum products kind);
/* Sets the current chunk: n sequences, sequence i being rows first[i] to first[i + 1], first[0] =
 * 0; `first` is borrowed. */
void diff_work_cut(struct diff_work *w, const int64_t *first, int64_t n);

/* The arguments of a pass over one chunk of one block; all pointers are borrowed. */
struct diff_pass {
    const struct spec *spec;
    const struct diff_program *program;
    int64_t layer;
    struct diff_work *work;
    const struct diff_params *w; /* the weights */
    const struct diff_params *v; /* their tangents; NULL in forms without tangents */
    const struct diff_params *g; /* the parameters' adjoints (or tangents of them) are added here */
    struct diff_lane *value, *tangent, *adjoint, *adjoint_tangent;
    bool again; /* forward forms: only run operations whose results the adjoints need */
};
/* Runs one form over the block. Forward forms compute X2 of their lane from X0; backward forms
 * compute X0 of their lane from X2. Each form needs the lanes of those before it: tangents and
 * adjoints need the values, tangents of the adjoints need all three. Parallel inside (OpenMP). */
enum diff_form { DIFF_VALUE, DIFF_TANGENT, DIFF_ADJOINT, DIFF_ADJOINT_TANGENT, DIFF_FORMS };
void diff_run(enum diff_form form, const struct diff_pass *p);

/* The weights of a block in `real`; of ternary linears of a straight-through model -m, 0 and m. */
struct diff_weights {
    struct block block;
    struct diff_params params; /* point into block's storage, `wide` (f64) or `ternary` */
    real *wide;
    float *ternary;
};
/* The slot's tensor in a loaded block; NULL: it is not there. Borrowed. */
const float *diff_loaded(const struct block *b, const struct slot *t);
/* Loads them and adds step * direction where direction has entries. Errors as model_block_load. */
MUST_USE enum status diff_weights_load(const struct model *m, int64_t layer,
                                       const struct diff_params *direction, real step,
                                       struct diff_weights *out, struct err *e);
/* Takes those of a loaded block, which is borrowed and not changed. ERR_NOMEM. */
MUST_USE enum status diff_weights_borrow(const struct model *m, const struct block *block,
                                         struct diff_weights *out, struct err *e);
void diff_weights_free(struct diff_weights *w);

/* The arguments of diff.h's norm kernels for the family's norm of n values, or for the q/k norm if
 * `rms`. weight_bias and tangent (or NULL) have the weight and the bias; NULL entries: 1 and 0. */
struct diff_norm diff_norm_of(const struct spec *s, const struct diff_work *w, int64_t n, bool rms,
                              const real *const weight_bias[2], const real *const tangent[2]);
/* gw, gb (n) += the sums in w->partial over all tiles; either may be NULL. */
void diff_partial_add(const struct diff_work *w, int64_t n, real *gw, real *gb);
