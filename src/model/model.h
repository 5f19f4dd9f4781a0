/* model: the decoder architectures. A checkpoint becomes a list of blocks; a block is a short list
 * of stages; a stage is the linear layers that share one input. Everything that walks a model
 * (evaluation, calibration, later curvature) walks stages, so a new family is one arch_*.c file and
 * one line in arch_table.c.
 *
 * Letters: T tokens, C hidden size, V vocabulary, L layers, NH heads, NKV key/value heads, HD head
 * size, I intermediate size. Weights are row-major (out, in); y = W x + b.
 *
 * Stages of a block, always in this order (algorithms: GPTQ "true sequential" subsets), and their
 * inputs:
 *   STAGE_QKV   q, k, v (or the fused qkv)   the normed block input (post-norm families: as it is)
 *   STAGE_O     the attention output         attention of the rotated q, k and v
 *   STAGE_UP    gate and up (or up alone)    the normed residual stream (parallel residual: the
 *                                            block input again, with the MLP's own norm)
 *   STAGE_DOWN  the MLP output               the activation
 */
#pragma once
#include "checkpoint/checkpoint.h"
#include "model/sequences.h"
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { STAGE_QKV, STAGE_O, STAGE_UP, STAGE_DOWN, STAGE_N };
enum { LINEARS_MAX = 7 };

/* One linear layer of a block. */
struct linear {
    char *name; /* in the checkpoint, e.g. "model.layers.3.mlp.up_proj.weight"; owned by the block's
                   storage */
    int stage;
    int64_t rows, cols;
    const float
        *w; // (rows, cols), borrowed from the block's storage or replaced by a quantized one
    const float *bias; // (rows) or NULL
};

/* The weights of one block, widened to f32. A shallow copy whose linears' w point elsewhere is how
 * a variant's quantized block is made. */
struct block {
    int64_t layer;
    int n_linears;
    struct linear linear[LINEARS_MAX]; /* ordered by stage */
    struct block_extra *extra;         /* norms and scalars, see block.c */
    float *storage;                    /* owner of all numbers; NULL in a shallow copy */
    bool borrowed;                     /* the storage is the caller's */
};

struct model_shape {
    int64_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate;
    bool tied;
    int64_t parameters, parameters_non_embedding; /* norms and biases counted; a tied head once */
};

struct model; /* configuration, embedding, final norm and head */

/* The family's name in the table of architectures ("llama", "smollm3", ...), NULL if config.json
 * names none of them. */
struct arch;
const struct arch *arch_find(const char *model_type);
const char *arch_name(const struct arch *a);
const char *arch_doc(const struct arch *a);
/* i-th line of the table, NULL behind the last. */
const struct arch *arch_at(int i);

/* Reads config.json (both wordings, transformers 4 and 5), checks that every tensor is there with
 * the right shape, and loads what is outside the blocks. The checkpoint is kept and must outlive
 * the model. ERR_FORMAT / ERR_SHAPE name file and key or tensor; ERR_USAGE: a family or feature
 * that is not supported, by name. */
MUST_USE enum status model_open(struct checkpoint *c, struct model **out, struct err *e);
void model_close(struct model *m);

const struct model_shape *model_shape(const struct model *m);

/* The shape from config.json alone (no weights needed), for plans and `inspect`. */
MUST_USE enum status model_shape_read(const json_t *config, const char *name,
                                      struct model_shape *out, const struct arch **arch,
                                      struct err *e);

/* Loads one block. out owns; free with model_block_free. Thread-safe, so that it can run ahead of
 * the computation. */
MUST_USE enum status model_block_load(const struct model *m, int64_t layer, struct block *out,
                                      struct err *e);
void model_block_free(struct block *b);

/* The same in parts, for ranks that share memory: part number `part` of `parts` reads some of the
 * tensors into storage (model_block_floats), which stays the caller's; all parts lay out the block
 * alike. When all parts are there, each completes its block. */
struct model_part {
    int part, parts;
};
int64_t model_block_floats(const struct model *m);
MUST_USE enum status model_block_read(const struct model *m, int64_t layer, struct model_part part,
                                      float *storage, struct block *out, struct err *e);
void model_block_complete(struct block *b);

/* Working memory for the stages of up to `tokens` tokens, whole sequences. */
struct acts {
    int64_t tokens;
    float *in; // (T, in_width) input of the stage in hand
    int64_t in_width;
    float *inner; // (T, inner_width) what passes between the stages: q, k, v, then gate and up
    int64_t inner_width;
    float *branch; // (T, C) output of the linear of STAGE_O, before it joins the residual

    /* Internal: the range cut into tiles, cos and sin of the positions met so far, and a tile of
     * attention scores for each thread. */
    struct tile *tiles;
    int64_t n_tiles, positions;
    float *cosine, *sine; // (T, half of the rotated values of a head)
    float *scores;
    int threads;
};
MUST_USE enum status model_acts_init(const struct model *m, int64_t tokens, struct acts *a,
                                     struct err *e);
void model_acts_free(struct acts *a);

/* The stage's input for sequences [s0, s1), into a->in with row pitch = the stage's cols
 * (contiguous). x is the residual stream of all sequences, absolute offsets; acts are relative to
 * offset[s0]. Stages are called in order, input then output, for the same range and acts. Parallel
 * inside (OpenMP) over tiles of tokens of one sequence and over heads or rows; numbers do not
 * depend on the number of threads or on the range. */
void model_stage_input(const struct model *m, const struct block *b, int stage,
                       const struct sequences *s, int64_t s0, int64_t s1, const float *x,
                       struct acts *a);

/* Runs the stage's linears on a->in and what follows them; STAGE_O and STAGE_DOWN update x. */
void model_stage_output(const struct model *m, const struct block *b, int stage,
                        const struct sequences *s, int64_t s0, int64_t s1, float *x,
                        struct acts *a);

/* All stages for all sequences, in ranges that fit a (at least one sequence each: a->tokens >= the
 * longest). */
void model_block_forward(const struct model *m, const struct block *b, const struct sequences *s,
                         float *x, struct acts *a);

/* ERR_FORMAT: an id outside the vocabulary (which, where). */
MUST_USE enum status model_check_ids(const struct model *m, const struct sequences *s,
                                     struct err *e);
/* x (offset[n], C) = embeddings of the ids. Errors as model_check_ids. */
MUST_USE enum status model_embed(const struct model *m, const struct sequences *s, float *x,
                                 struct err *e);

/* y (T, C) = final norm of x (T, C). */
void model_final_norm(const struct model *m, const float *x, int64_t T, float *y);
/* The output matrix (V, C), borrowed. */
const float *model_head(const struct model *m);
