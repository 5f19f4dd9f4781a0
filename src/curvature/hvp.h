/* hvp: the loss of a model on given tokens, its exact gradient, and exact products of its Hessian
 * with vectors (Pearlmutter 1994), computed block by block with recomputation (docs/math/hvp.md).
 *
 * The loss is the mean of -log p(token | tokens before it) over all scored tokens: every token of a
 * sequence except the first. A flat vector holds the parameters of a subset, tensor after tensor,
 * row-major, sorted bytewise by their names in the checkpoint. A tied embedding counts once, under
 * the embedding's name; what is not trained (buffers, xIELU's beta and eps) is left out. Outside
 * the subset v is zero and Hv is not computed, so products are with a principal submatrix of the
 * Hessian.
 *
 * Memory of a product with k vectors, besides the 2k vectors of n numbers: (1 + k) L T C numbers
 * for the inputs of all blocks, the weights of one block, and either the activations of one chunk
 * of sequences in one block, four times (values, tangents, adjoints and their tangents) whatever k;
 * or, at the head, two of these and twice 2^25 numbers whatever the tokens and the vocabulary
 * (hvp_head_bytes).
 *
 * Parallel inside (OpenMP), with the same bits for any number of threads. Collective only after
 * hvp_share_over. In the f64 build `real` is double and everything is computed in f64. */
#pragma once
#include "curvature/space.h"
#include "math/real.h"
#include "model/model.h"
#include "util/err.h"

struct spec;

enum hvp_subset {
    HVP_ALL,       /* every parameter */
    HVP_MAT2D,     /* 2-D tensors, embedding and head included */
    HVP_BLOCKS2D,  /* 2-D tensors inside the blocks */
    HVP_QUANTIZED, /* the weights that quantization changes: those of the blocks' linears */
    HVP_SUBSETS
};
/* Their names in that order: "all", "mat2d", "blocks2d", "quantized"; NULL at the end. */
extern const char *const hvp_subsets[];

struct hvp;

/* m, its checkpoint and s are borrowed and must outlive *out; free with hvp_close. Every call below
 * reads the weights from the checkpoint, block by block (hvp_share may say how). ERR_USAGE: a
 * subset without tensors, inputs of linears in 8 bits unless the model trains
 * (model_straight_through), then of products below; ERR_FORMAT: a token outside the vocabulary;
 * ERR_NOMEM. */
MUST_USE enum status hvp_open(const struct model *m, const struct sequences *s,
                              enum hvp_subset subset, struct hvp **out, struct err *e);
/* NULL: does nothing. */
void hvp_close(struct hvp *h);
CLEANUP_BY_VALUE(struct hvp, hvp_close);

/* Numbers and tensors of the whole flat vector; tensor i in the vector's order, borrowed. */
int64_t hvp_n(const struct hvp *h);
int64_t hvp_n_tensors(const struct hvp *h);
struct hvp_tensor {
    const char *name; /* borrowed */
    int64_t offset, elements;
    int n_dims;
    int64_t shape[2];
    int64_t layer; /* -1: outside the blocks */
};
const struct hvp_tensor *hvp_tensor(const struct hvp *h, int64_t i);

/* Scored tokens of s. hvp_total: sets the number of tokens that the mean is over; where ranks share
 * the sequences, the scored tokens of all ranks. */
int64_t hvp_scored(const struct hvp *h);
void hvp_total(struct hvp *h, int64_t tokens);

/* targets (T): the token to predict at each position, in place of the sequence's next one; -1:
 * none. The mean is over them until hvp_total. Borrowed. ERR_FORMAT: one is outside the vocabulary.
 */
MUST_USE enum status hvp_targets(struct hvp *h, const int32_t *targets, struct err *e);
/* Goes on with s, whose sequences are as long as those before, and with targets as hvp_targets, in
 * the memory of the calls before and with the same hvp_total. Borrowed. ERR_FORMAT. */
MUST_USE enum status hvp_next(struct hvp *h, const struct sequences *s, const int32_t *targets,
                              struct err *e);
/* blocks (L): weights in memory that later calls use in place of the checkpoint's; borrowed. Not
 * with hvp_move or hvp_share_over. */
void hvp_blocks(struct hvp *h, const struct block *blocks);
/* Adds coefficient times the mean of the squares of log sum e^z over the scored positions' logits z
 * to the loss, and to gradients; products are refused then (ERR_USAGE). 0: the default. */
void hvp_z_loss(struct hvp *h, double coefficient);
/* That part of the last call's loss: of this rank's sequences. */
double hvp_z_part(const struct hvp *h);

/* Vectors distributed over ranks, each of which has its own sequences. Loss, gradient and products
 * are those of all ranks' sequences together. A rank holds its part of each vector and, during a
 * call, a buffer for one layer per vector. */
struct hvp_share {
    struct space space; /* its total is hvp_n */
    /* Collective: whole (n) = numbers [at, at + n) of a vector; `mine`: this rank's part. */
    enum status (*gather)(void *context, int64_t at, int64_t n, const real *mine, real *whole,
                          struct err *e);
    /* Collective: adds the sum over the ranks of whole (n), numbers [at, at + n) of a vector, to
     * the parts `mine` (space.n) of the ranks that hold them. Overwrites whole. */
    enum status (*reduce)(void *context, int64_t at, int64_t n, real *whole, real *mine,
                          struct err *e);
    /* Collective: *out = a block's weights, borrowed until the next call. NULL: every rank reads
     * them for itself. */
    enum status (*block)(void *context, int64_t layer, const struct block **out, struct err *e);
    void *context; /* of all three */
};
/* Distributes the vectors from now on; share is copied. n below is then space.n, the numbers from
 * space.first on, and every call that computes a loss, a gradient or products is collective. A rank
 * that fails returns at once: the callbacks must detect that and fail on the other ranks. Not
 * together with hvp_move. */
void hvp_share_over(struct hvp *h, const struct hvp_share *share);
/* The space of the vectors, borrowed. */
const struct space *hvp_space(const struct hvp *h);

/* *loss = the loss, by one forward pass; it may be not finite. ERR_USAGE, here and below: no token
 * is scored; ERR_IO, ERR_NOMEM. */
MUST_USE enum status hvp_loss(struct hvp *h, double *loss, struct err *e);
/* g (n) = the gradient; *loss = the loss unless NULL. ERR_NUMERIC: the loss is not finite. */
MUST_USE enum status hvp_gradient(struct hvp *h, real *g, double *loss, struct err *e);
/* hv[i] (n) = H v[i] for i < k; v and hv must not overlap. The k products share all work that does
 * not depend on v. Errors as above. */
MUST_USE enum status hvp_apply(struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                               struct err *e);
/* The same for vectors that are zero outside the tensors of one layer (-1: those outside the
 * blocks): that layer's numbers of hv alone are those of H v, with the same bits as from hvp_apply;
 * the others are arbitrary. Skips the tangents in front of the layer and the backward pass there,
 * on average half of a product. */
MUST_USE enum status hvp_apply_layer(struct hvp *h, int64_t layer, int64_t k, const real *const *v,
                                     real *const *hv, struct err *e);

/* How all later calls multiply, not AUTO; default: as the model (model_set_products). Products with
 * weights are of that kind, those of two other matrices of products_of_sums; attention's are in
 * f32. In the f64 build all are in f64. */
void hvp_multiply(struct hvp *h, enum products kind);
/* Moves the weights to the checkpoint's weights + step * direction for all later calls; direction
 * (n) is borrowed; NULL: back to the checkpoint's weights. */
void hvp_move(struct hvp *h, const real *direction, real step);
/* w (n) = the subset's stored weights, without hvp_move's step. Local. ERR_IO, ERR_NOMEM. */
MUST_USE enum status hvp_weights(struct hvp *h, real *w, struct err *e);

/* keep: retains the activations of all blocks and tokens (values, tangents, adjoints) from the next
 * gradient or product on, until the loss changes (hvp_total, hvp_move, ...) or this is turned off.
 * Products after the first then take 6 matrix products per matrix instead of 11 (docs/math/hvp.md);
 * vectors are processed one by one. Same bits. Default: off. Ranks that share vectors must pass the
 * same value. */
void hvp_keep(struct hvp *h, bool keep);
/* The same for gradients alone, whose backward pass then recomputes nothing: retains values, from
 * the forward pass to the backward pass, and their memory for the next gradient. Not together with
 * hvp_keep. */
void hvp_keep_values(struct hvp *h, bool keep);

/* moved is called after every block of every pass with the share that it was of a gradient, or of
 * the products with all vectors of the call: they add up to 1 for a gradient and for each product,
 * to (L - l) / L for each product of layer l. May be NULL. */
void hvp_watch(struct hvp *h, void (*moved)(void *context, double products), void *context);

/* n of a subset, from shapes alone. */
int64_t hvp_numbers(const struct spec *s, enum hvp_subset subset);
/* Sizes that the memory of a call depends on. */
struct hvp_extent {
    int64_t tokens, sequences, longest, threads;
    bool shared; /* the vectors are distributed over ranks, which share the blocks too */
    bool kept;   /* hvp_keep */
    bool values; /* hvp_keep_values; gradients only */
    enum hvp_subset subset;
    enum products products; /* hvp_multiply */
};
/* Peak memory of a call in bytes, without the vectors and the open model, from shapes alone; chunks
 * have HVP_CHUNK tokens. */
struct hvp_bytes {
    int64_t loss, gradient;
    int64_t product, further; /* with one vector; increase for each further vector */
};
void hvp_bytes_of(const struct spec *s, const struct hvp_extent *x, struct hvp_bytes *out);

#ifndef QTRAJ_REAL_F64
/* Where tensor i's weights are in memory, in one of hvp_blocks' blocks or in the model: who owns
 * those may change them between calls. */
float *hvp_place(const struct hvp *h, int64_t i);
#endif
