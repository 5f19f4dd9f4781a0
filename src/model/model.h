/* model: decoder models, opened from a checkpoint. A model is a list of blocks; a block runs in
 * four stages; a stage is the linear layers that share one input. Evaluation and calibration run
 * models stage by stage (derivatives: diff_block.h). All families share this code; a family is one
 * arch_*.c file and one line in arch_table.c. Nothing here communicates.
 *
 * Letters: T tokens, C hidden size, V vocabulary, L layers, NH heads, NKV key/value heads, HD head
 * size, I intermediate size. Weights are row-major (out, in); y = W x + b. */
#pragma once
#include "activation/activation.h"
#include "checkpoint/checkpoint.h"
#include "math/products.h"
#include "model/sequences.h"
#include "model/shape.h"

/* One linear layer of a block. */
struct linear {
    char *name; /* in the checkpoint, "model.layers.3.mlp.up_proj.weight"; owned by the loaded block
                 */
    int stage;
    int64_t rows, cols;
    const float *w; // (rows, cols) borrowed: the block's storage, or quantized weights in its place
    const float *bias; // (rows) or NULL
    /* w prepared for the model's products (model_prepare_begin), borrowed; NULL: they are in f32,
     * of w.
     */
    const struct product_weights *prepared;
    /* The codes of w (product_weights_integers), borrowed, which are multiplied where the inputs of
     * the stage are codes too; NULL: none. */
    const struct product_weights *integers;
    /* NULL: y = x wᵀ. Else a quantized linear that works at run time: y (tokens, rows) with row
     * pitch ld from one whole sequence x (tokens, cols), without bias; false: it has met a number
     * of x that it cannot round. Forward passes use it, derivatives do not. Parallel inside. */
    bool (*apply)(const void *computing, const float *x, int64_t tokens, float *y, int64_t ld);
    const void *computing; /* its first argument, borrowed */
};

/* The weights of one block in f32. The quantized block of a variant is a shallow copy whose
 * linears' w point to quantized weights. */
struct block {
    int64_t layer;
    int n_linears;
    struct linear linear[LINEARS_MAX]; /* ordered by stage */
    /* Of what forward passes compute, borrowed (model_check_grids); NULL: it stays as it is. */
    const struct activation_grids *grids;
    struct activation_inputs inputs[STAGE_N]; /* what these took from the calibration text */
    const struct rotation *rotation;          /* borrowed (model/rotated.h); NULL: none */
    struct block_extra *extra; /* norms and scalars (model_internal.h); owned by the loaded block */
    float *storage;            /* all weights; NULL in a shallow copy */
    bool borrowed;             /* the storage is the caller's: model_block_free keeps it */
};

struct model; /* configuration, embedding, final norm and head */

/* Reads config.json (as transformers 4 or 5 writes it), checks that every tensor is there with the
 * right shape, and loads what is outside the blocks. The model borrows the checkpoint, which must
 * outlive it. ERR_FORMAT, ERR_SHAPE: the text names file and key or tensor; ERR_USAGE: a family or
 * feature that is not supported; ERR_IO, ERR_NOMEM. */
MUST_USE enum status model_open(struct checkpoint *c, struct model **out, struct err *e);
/* The same checks, without loading anything. Errors as above. */
MUST_USE enum status model_check(struct checkpoint *c, struct err *e);
/* NULL: does nothing. */
void model_close(struct model *m);
CLEANUP_BY_VALUE(struct model, model_close);

/* How forward passes multiply: f32 after model_open. kind: not AUTO (products_resolve). Set it
 * before the acts and the blocks are made; derivatives begin with it (curvature/hvp.h). */
void model_set_products(struct model *m, enum products kind);
enum products model_products(const struct model *m);
/* Whether weights are prepared for products in f32 too, which takes memory and pays for many tokens
 * (products_prepare); not after model_open. The bits are the same. */
void model_prepare_f32(struct model *m, bool prepares);
/* Whether weights are prepared. */
bool model_prepares(const struct model *m);
/* Whether forward passes round to bf16 what transformers rounds in a model of that type: every
 * parameter outside the matrices, and the result of every operation. Not after model_open. */
void model_set_rounding(struct model *m, bool bf16);
bool model_rounding(const struct model *m);
/* For training: blocks loaded from now on have the stored weights of linears that
 * quantization_config makes ternary, and derivatives are those of the straight-through estimator
 * (math/training.md). Changes nothing in other models. */
void model_straight_through(struct model *m);
/* *out (the caller frees): what the `prepared` of a linear (rows, cols) of a block of m has,
 * without its numbers (product_weights_describe; only if model_prepares), or with g, borrowed, what
 * `integers` has (product_weights_integers). ERR_NOMEM. */
MUST_USE enum status model_prepare_begin(const struct model *m, const struct integer_grids *g,
                                         int64_t rows, int64_t cols, struct product_weights **out,
                                         struct err *e);

/* Its shape, borrowed. */
const struct model_shape *model_shape(const struct model *m);

/* Loads one block; free with model_block_free. Thread-safe: a reader thread may load the next block
 * during the computation. ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status model_block_load(const struct model *m, int64_t layer, struct block *out,
                                      struct err *e);
/* Frees what the block owns and clears it; does nothing to a shallow copy. */
void model_block_free(struct block *b);

/* Loading in parts, for ranks that share memory: each of `parts` callers reads some of the tensors
 * into storage (model_block_floats numbers, owned by the caller), laid out alike by all. After all
 * parts have been read, every caller calls model_block_complete on its block, which computes what
 * depends on loaded values. Local; errors as model_block_load. */
struct model_part {
    int part, parts;
};
int64_t model_block_floats(const struct model *m);
MUST_USE enum status model_block_read(const struct model *m, int64_t layer, struct model_part part,
                                      float *storage, struct block *out, struct err *e);
void model_block_complete(struct block *b);

/* ERR_USAGE: a group of the grids does not divide what it is of, no Hadamard matrix is known. A
 * group of inputs that does not divide the width of down_proj, but the hidden size, cuts it into as
 * many groups as the hidden size (QuaRot). */
MUST_USE enum status model_check_grids(const struct model_shape *shape,
                                       const struct activation_grids *g, struct err *e);

/* Activations of the stages, for up to `tokens` tokens in whole sequences. */
struct acts {
    int64_t tokens;
    float *in; // (T, in_width) input of the current stage
    int64_t in_width;
    float *inner; // (T, inner_width) outputs that later stages read: q, k, v, then gate and up
    int64_t inner_width;
    uint16_t *terms; // (terms, T, in_width) `in` split into bf16; empty if products are in f32
    enum products products; /* of passes: the model's, or products_of_calibration of them */
    struct integer_inputs
        codes;     /* in place of `in` where linears have integers (model_acts_codes) */
    float *branch; // (T, C) output of STAGE_O before it is added to the residual stream
    /* Set where a grid meets a number that is not finite: 1 + the first such stage (STAGE_O: keys
     * and values too); 0: none. The caller clears it. */
    int broken;

    /* Internal: the range cut into tiles, cos and sin of the RoPE angles for the first `positions`
     * positions, and scratch of attention per thread (scores_floats). */
    struct tile *tiles;
    int64_t n_tiles, positions;
    float *cosine, *sine; // (RoPEs of the model, T, rotated values of a head / 2)
    float *scores;
    int threads;
};
/* For at most `tokens` tokens on as many threads as OpenMP has now; ERR_NOMEM. */
MUST_USE enum status model_acts_init(const struct model *m, int64_t tokens, struct acts *a,
                                     struct err *e);
void model_acts_free(struct acts *a);
/* Allocates a->codes, without which blocks must have no integers; model_acts_free frees them.
 * ERR_NOMEM. */
MUST_USE enum status model_acts_codes(struct acts *a, struct err *e);

/* Computes the stage's input for the sequences [s0, s1): a->in (tokens, cols of the stage), row 0
 * being token offset[s0]. x: residual stream of all sequences. Call the stages in order, input then
 * output, for the same range and acts. Parallel (OpenMP) over tiles of tokens of one sequence and
 * over heads or rows; numbers depend neither on the number of threads nor on the range. */
void model_stage_input(const struct model *m, const struct block *b, int stage,
                       const struct sequences *s, int64_t s0, int64_t s1, const float *x,
                       struct acts *a);

/* Applies the stage's linears to a->in and what follows them; STAGE_O and STAGE_DOWN update x.
 * Parallel as above. */
void model_stage_output(const struct model *m, const struct block *b, int stage,
                        const struct sequences *s, int64_t s0, int64_t s1, float *x,
                        struct acts *a);

/* *x = the keys, or values, of the stage's sequences after model_stage_output of STAGE_QKV, as the
 * attention reads them, borrowed from a: of token t and head h at *x + t * *pitch + h * *stride. */
void model_keys(const struct model *m, const struct acts *a, bool values, const float **x,
                int64_t *pitch, int64_t *stride);

/* Runs all stages for all sequences, in ranges of sequences that fit a; a->tokens must be at least
 * the longest sequence. */
void model_block_forward(const struct model *m, const struct block *b, const struct sequences *s,
                         float *x, struct acts *a);
/* The same for a last block of whose output only some rows are read: those with wanted (offset[n]);
 * the others are unspecified afterwards. They go through its keys and values alone, unless a linear
 * is computed at run time, from whole sequences, or a grid is a sequence's. some: n and offset (n +
 * 1), the wanted rows before each sequence; nothing else of it is read. */
void model_block_forward_rows(const struct model *m, const struct block *b,
                              const struct sequences *s, const bool *wanted,
                              const struct sequences *some, float *x, struct acts *a);

/* ERR_FORMAT: a token id is outside the vocabulary; the text says which and where. */
MUST_USE enum status model_check_ids(const struct model *m, const struct sequences *s,
                                     struct err *e);
/* x (offset[n], C) = the embeddings of the ids. Parallel. Errors as model_check_ids. */
MUST_USE enum status model_embed(const struct model *m, const struct sequences *s, float *x,
                                 struct err *e);

/* y (T, C) = the final norm of x (T, C). One thread. y may be x. */
void model_final_norm(const struct model *m, const float *x, int64_t T, float *y);
/* The output matrix (V, C), borrowed; the embedding if tied. */
const float *model_head(const struct model *m);
