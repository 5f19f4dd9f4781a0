/* rotated: a model in another basis, which computes the same until its weights are quantized
 * (QuaRot, arXiv 2404.00456; SpinQuant, arXiv 2405.16406).
 *
 * Random Hadamard matrices (coding/mix.h), x <- x R for rows x:
 *   R1     residual stream: what is added to it is turned, W <- R1ᵀ W; the scale and bias of the
 *          norm before a linear go into the linear, W <- W diag(g) R1. LayerNorm becomes RMSNorm:
 *          embeddings and what is added have their mean over the channels taken off
 *   Q1     R1 with any orthogonal matrix in place of a Hadamard matrix
 *   R2     each head of the values, of each block: rows of v, columns of o
 *   R4     input of the last linear, at run time: W <- W R4
 *   heads  input of o, at run time: the same channel of all heads; W likewise
 * R1 and R2 have random signs, R4 and heads have none (QuaRot). Embeddings are turned when they are
 * read, and hidden states are turned back before the final norm, which is an RMSNorm then: as good
 * as a turned embedding and head, whether tied or not. All products are in f64, numbers are rounded
 * to f32 once. Nothing here communicates. */
#pragma once
#include "model/sizes.h"

struct spec;
/* ERR_USAGE: the family does not admit one of the places (ROTATE_*); the text says why, and which
 * it admits. */
MUST_USE enum status model_check_rotation(const struct spec *s, unsigned places, struct err *e);

/* *out = m with rotated embeddings and final norm, with the random numbers of the seed; the caller
 * closes it, before m, whose tensors it borrows. It serves as many threads as OpenMP has now.
 * Errors as model_check_rotation; ERR_NOMEM. */
MUST_USE enum status model_rotate(const struct model *m, unsigned places, uint64_t seed,
                                  struct model **out, struct err *e);

/* *out = the block b of the model that m was made of, in m's basis: free it with model_block_free
 * before b. Its linears are not prepared for products. Parallel. ERR_NOMEM; ERR_NUMERIC: a number
 * is not finite. */
MUST_USE enum status model_block_rotate(const struct model *m, const struct block *b,
                                        struct block *out, struct err *e);
/* Bytes of such a model and of a block while it is made; without threads those of the model. */
int64_t model_rotated_bytes(const struct model_sizes *m, int64_t threads, unsigned places);

/* The matrices of a rotated model, for records: their orders, and of how many equal parts, "R1 64,
 * R2 16, R4 8 × 23" (23 of order 8), and whether they are learned. */
enum { ROTATION_TEXT = 160 };
void model_rotation_text(const struct model *m, char text[ROTATION_TEXT]);
