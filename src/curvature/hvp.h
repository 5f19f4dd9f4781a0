/* hvp: the loss of a model on given tokens, its exact gradient and exact products of its Hessian
 * with vectors (Pearlmutter 1994), block by block with recomputation. Derived in docs/math/hvp.md.
 *
 * Loss: mean over all scored tokens (every token of a sequence but its first) of -log p(token |
 * those before it). Flat vectors hold the subset's parameters one tensor behind the other, by the
 * names they have in the checkpoint, sorted bytewise, each row-major. A tied embedding counts once,
 * under the embedding's name; what is not trained (stale buffers, xIELU's beta and eps) is not in.
 * Outside the subset v is zero and Hv is not computed: a principal submatrix of the Hessian.
 *
 * Memory of a product with k vectors, beside the 2k vectors of n numbers: the inputs of all blocks
 * (1 + k) L T C, one block's weights, and the activations of one chunk of sequences (hvp_chunk) in
 * one block, 4 times (values, tangents, adjoints and their tangents) whatever k; or at the head 2
 * of these and twice 2^25 numbers, whatever the tokens and the vocabulary, and, where the
 * vocabulary is cut, 2 (1 + k) 1024 C more (hvp_head_bytes). Collective where hvp_share_over says
 * so; parallel inside (OpenMP), with the same numbers for any number of threads.
 *
 * In the f64 build `real` is double and everything is computed in f64. */
#pragma once
#include "curvature/space.h"
#include "model/model.h"
#include "tensor/real.h"
#include "util/err.h"

#define hvp_open        REAL_NAME(hvp_open)
#define hvp_close       REAL_NAME(hvp_close)
#define hvp_n           REAL_NAME(hvp_n)
#define hvp_n_tensors   REAL_NAME(hvp_n_tensors)
#define hvp_tensor      REAL_NAME(hvp_tensor)
#define hvp_scored      REAL_NAME(hvp_scored)
#define hvp_total       REAL_NAME(hvp_total)
#define hvp_loss        REAL_NAME(hvp_loss)
#define hvp_gradient    REAL_NAME(hvp_gradient)
#define hvp_apply       REAL_NAME(hvp_apply)
#define hvp_share_over  REAL_NAME(hvp_share_over)
#define hvp_space       REAL_NAME(hvp_space)
#define hvp_move        REAL_NAME(hvp_move)
#define hvp_weights     REAL_NAME(hvp_weights)
#define hvp_chunk       REAL_NAME(hvp_chunk)
#define hvp_keep        REAL_NAME(hvp_keep)
#define hvp_numbers     REAL_NAME(hvp_numbers)
#define hvp_bytes_of    REAL_NAME(hvp_bytes_of)
#define hvp_subset_name REAL_NAME(hvp_subset_name)

struct spec;

enum hvp_subset {
    HVP_ALL,       /* every parameter */
    HVP_MAT2D,     /* 2-D tensors, embedding and head included */
    HVP_BLOCKS2D,  /* 2-D tensors inside the blocks */
    HVP_QUANTIZED, /* what quantization touches: the weights of the blocks' linears */
    HVP_SUBSETS
};
/* "all", "mat2d", "blocks2d", "quantized"; find: false when there is none of that name. */
const char *hvp_subset_name(enum hvp_subset s);

struct hvp;

/* m, its checkpoint and s are borrowed and must outlive h. ERR_USAGE: a subset without tensors;
 * ERR_FORMAT: a token outside the vocabulary; ERR_NOMEM. Weights are read from the checkpoint block
 * by block during every call below. */
MUST_USE enum status hvp_open(const struct model *m, const struct sequences *s,
                              enum hvp_subset subset, struct hvp **out, struct err *e);
void hvp_close(struct hvp *h);

/* Numbers in the subset's whole flat vector; its tensors in the vector's order. */
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

/* Scored tokens of s; and over how many the mean is taken from now on, when not those: where ranks
 * share the sequences, all ranks' scored tokens. */
int64_t hvp_scored(const struct hvp *h);
void hvp_total(struct hvp *h, int64_t tokens);

/* Vectors cut over ranks, each of which has sequences of its own. Products and gradients are those
 * of all ranks' sequences together; of a whole vector a rank holds its run and, during a call, what
 * belongs to one layer, once for each vector. */
struct hvp_share {
    struct space space; /* its total is hvp_n */
    /* whole (n) = numbers [at, at + n) of the vector of which this rank has `mine` (space.n). */
    enum status (*bring)(void *context, int64_t at, int64_t n, const real *mine, real *whole,
                         struct err *e);
    /* Those of `mine` that are here += the ranks' sum of whole (n), which is spoilt. */
    enum status (*fold)(void *context, int64_t at, int64_t n, real *whole, real *mine,
                        struct err *e);
    void *context; /* of both */
};
/* From now on n below is space.n, the first number space.first of the whole vector, and every call
 * that takes or gives vectors or a loss is collective; copied. A rank that fails in one leaves it
 * at once: the callbacks have to find that out, and to fail on the others. Not with hvp_move. */
void hvp_share_over(struct hvp *h, const struct hvp_share *share);
const struct space *hvp_space(const struct hvp *h);

/* The loss alone: one forward. It may be not finite, as the model is. ERR_USAGE, here and below:
 * the mean is over no token; ERR_IO, ERR_NOMEM. */
MUST_USE enum status hvp_loss(struct hvp *h, double *loss, struct err *e);
/* g (n) = the gradient; *loss too unless NULL. ERR_NUMERIC: the loss is not finite. */
MUST_USE enum status hvp_gradient(struct hvp *h, real *g, double *loss, struct err *e);
/* hv[i] (n) = H v[i] for i < k; v and hv do not overlap. The k products share everything that does
 * not depend on v. Errors as above. */
MUST_USE enum status hvp_apply(struct hvp *h, int64_t k, const real *const *v, real *const *hv,
                               struct err *e);

/* From now on loss, gradient and products are those at weights + step * direction; direction (n) is
 * borrowed; NULL: at the checkpoint's weights again. */
void hvp_move(struct hvp *h, const real *direction, real step);
/* w (n) = the subset's weights, as stored, without what hvp_move added. Not collective. */
MUST_USE enum status hvp_weights(struct hvp *h, real *w, struct err *e);

/* Tokens that are worked on together in a block: whole sequences, at least one. Default: 2048. Sums
 * over tokens are taken in another order for other values. */
void hvp_chunk(struct hvp *h, int64_t tokens);
/* Keep all blocks' activations in memory, of all tokens and three times (values, tangents,
 * adjoints), from the next gradient or product on until this is turned off or what the loss depends
 * on is changed. A product is then 6 products of matrices where it is 11 (docs/math/hvp.md), after
 * the first; vectors go one by one. Default: off. Numbers are the same. The ranks of an hvp_share
 * must agree on it. */
void hvp_keep(struct hvp *h, bool keep);

/* What calls take, from shapes alone. n of a subset: */
int64_t hvp_numbers(const struct spec *s, enum hvp_subset subset);
struct hvp_extent {
    int64_t tokens, sequences, longest, threads;
    bool shared; /* the vectors of the subset are cut over ranks */
    bool kept;   /* hvp_keep */
    enum hvp_subset subset;
};
/* Bytes at the peak of a call, beside the vectors and what the model holds; sequences are as long
 * as chunks of hvp_chunk's default may become. */
struct hvp_bytes {
    int64_t loss, gradient;
    int64_t product, further; /* with one vector; more for each further one */
};
void hvp_bytes_of(const struct spec *s, const struct hvp_extent *x, struct hvp_bytes *out);

#ifndef QTRAJ_REAL_F64
#include "curvature/operator.h"
/* The Hessian as an operator; h must outlive it. */
void hvp_operator(struct hvp *h, struct operator* out);
#endif
