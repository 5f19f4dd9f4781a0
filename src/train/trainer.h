/* trainer: a model in training: its weights, the optimizer's state, and the step, shared by the
 * ranks of a communicator.
 *
 * A micro-batch is computed by one rank; micro-batch i by rank i modulo their number. Gradients are
 * added in the order of the micro-batches, numbers of norms in blocks of 4096, so that the bits
 * depend neither on the number of ranks nor on that of threads
 * (docs/decisions/0036-training.md). Every rank holds all weights and a gradient, and its part of
 * the sum and of the optimizer's moments.
 *
 * Collective are trainer_step, trainer_loss and trainer_save; a rank that fails fails on all. */
#pragma once
#include "curvature/hvp.h"
#include "train/optimizer.h"
#include <mpi.h>

struct trainer_options {
    struct optimizer_options optimizer;
    enum products products; /* not AUTO */
    int64_t micro;          /* sequences of a micro-batch */
    int64_t memory; /* bytes in which activations may be kept for the backward pass; where they do
                       not fit, blocks are computed again. The same bits */
    MPI_Comm ranks;
};

struct trainer;

/* From the weights of a folder; moments are zero. Free with trainer_close. Errors of
 * checkpoint_open, model_open; ERR_NOMEM. Local. */
MUST_USE enum status trainer_open(const char *folder, const struct trainer_options *o,
                                  struct trainer **out, struct err *e);
void trainer_close(struct trainer *t);
CLEANUP_BY_VALUE(struct trainer, trainer_close);
const struct model *trainer_model(const struct trainer *t);
/* The checkpoint that it was opened from; borrowed. */
const struct checkpoint *trainer_checkpoint(const struct trainer *t);
/* Parameters, and the tensors of the flat vector: name and shape, weights (borrowed). */
int64_t trainer_n(const struct trainer *t);
int64_t trainer_n_tensors(const struct trainer *t);
const struct hvp_tensor *trainer_tensor(const struct trainer *t, int64_t i, const float **weights);

/* n sequences of length + 1 tokens: all but the first are predicted. document: a number for each
 * token; tokens attend to those of the same number before them alone; NULL: to all. */
struct train_tokens {
    int64_t n, length;
    const int32_t *tokens, *document; // (n, length + 1), all sequences on every rank
};
struct train_result {
    double loss, z;    /* mean over the tokens of the cross-entropy alone; the z-loss's part */
    double norm, clip; /* of the gradient; its factor */
};
/* Step k = 1, 2, ... ERR_NUMERIC: loss or norm is not finite; the weights are as before. */
MUST_USE enum status trainer_step(struct trainer *t, int64_t k, double rate,
                                  const struct train_tokens *batch, struct train_result *out,
                                  struct err *e);
/* *loss = the mean cross-entropy. */
MUST_USE enum status trainer_loss(struct trainer *t, const struct train_tokens *s, double *loss,
                                  struct err *e);

/* Weights, moments and the number of finished steps as a .safetensors file, written by the first
 * rank under a temporary name first. ERR_FULL, ERR_IO. */
MUST_USE enum status trainer_save(struct trainer *t, int64_t k, const char *path, struct err *e);
/* The opposite; every rank reads what it holds. ERR_FORMAT: of another model. Local. */
MUST_USE enum status trainer_load(struct trainer *t, const char *path, int64_t *k, struct err *e);
/* Bytes of a rank of so many, without activations. */
int64_t trainer_bytes(int64_t parameters, int moments, int ranks);
