/* model_internal: structs and functions of a model and of a block, for this folder, curvature/hvp*
 * and curvature/rotation_learn.c only. */
#pragma once
#include "coding/mix.h"
#include "model/arch.h"
#include "model/model.h"

struct model {
    enum products products;
    bool prepares_f32;     /* weights for products in f32 too */
    bool rounded;          /* results of operations in bf16 */
    bool straight_through; /* model_straight_through */
    struct spec spec;
    struct checkpoint *checkpoint; /* borrowed */
    char *file;                    /* config.json's path, for messages */
    float *outer[OUTER_N];         /* tensors outside the blocks, owned; NULL: it has none */
    struct rotation *rotation;     /* owned (rotated.h); NULL: none */
    bool borrows;                  /* all but the rotation is another model's */
};

/* The matrices of a rotated model (rotated.c). */
struct rotation {
    unsigned places;
    struct mix stream, last, heads;
    int64_t layers;
    struct mix *head; // (layers) R2
    int64_t steps;    /* in which R1 and R2 were learned (curvature/rotation_learn.h); 0: random */
    int64_t width;    /* of the widest row or column */
    double *scratch;  // (threads, ROTATED_COLUMNS + 2, width)
};
enum { ROTATED_COLUMNS = 8 };
void rotation_free(struct rotation *r);
/* w, bias (of a linear of b; either may be NULL) <- those in m's basis turned back into that of the
 * model that m was made of, but for scales and biases of norms, which stay in them. Parallel. */
void rotation_back(const struct model *m, const struct block *b, int index, double *w,
                   double *bias);
/* The row of a block's linear where the values of a head of keys begin; -1: it has none. */
int64_t rotation_values(const struct model *m, int index, int64_t head);
/* x (n, C) <- x R1, of embeddings; back: the other way. In this thread. */
void rotation_stream(const struct model *m, float *x, int64_t n, bool back);
/* Whether the block turns the stage's input at run time, and does it: a->in of n tokens with so
 * many columns. Parallel. */
bool rotation_runs(const struct block *b, int stage);
void rotation_inputs(const struct model *m, const struct block *b, int stage, int64_t cols,
                     int64_t n, struct acts *a);

/* Tensors of a block other than its linears. */
struct block_extra {
    const float *p[EXTRA_N]; /* by EXTRA_*, in the block's storage; NULL: the family has none */
    struct xielu xielu;
    bool rms; /* the norms before attention and MLP are RMSNorm in any family (rotated.h) */
};

/* A run of tokens of one sequence: rows [row, row + n), at positions pos.. of a sequence that
 * starts at row `first`. valid: tokens of the sequence that are not padding; 0: all. */
struct tile {
    int64_t row, first, pos, n, valid;
    const struct segment *segments; /* of the sequence; NULL: it has none */
    int64_t segment;                /* the one that the tokens are of */
};

/* name = the full name of a slot's tensor in the checkpoint; with the slot's alias if the
 * checkpoint has only that. layer < 0: outside the blocks. */
enum { NAME_MAX_LEN = 256 };
void slot_name(const struct model *m, const struct slot *t, int64_t layer, char name[NAME_MAX_LEN]);
/* dst (elements) = the slot's tensor in f32. ERR_FORMAT: it is missing; errors of the checkpoint.
 */
MUST_USE enum status slot_read(const struct model *m, const struct slot *t, int64_t layer,
                               float *dst, struct err *e);

/* Checks the tensors of the checkpoint that are not in the slots. Known buffers and a tied head are
 * ignored; unknown tensors too, with a warning. ERR_FORMAT: a tensor that the family has but this
 * config.json rules out (a bias, a q/k norm), or a layer beyond the last. */
MUST_USE enum status leftover_check(const struct model *m, struct err *e);

/* y (T, n) = the family's norm, or with `rms` RMSNorm, of the rows of x with weight w and bias b
 * (NULL: none); rows of both ld apart. y may be x. */
void norm_rows(const struct model *m, bool rms, const float *w, const float *b, int64_t n,
               const float *x, int64_t ld, int64_t T, float *y);

/* The input of STAGE_O: a->in = attention over the prepared q, k, v in a->inner, all heads side by
 * side; with `split` its terms too (acts_split). Parallel. */
void attention_forward(const struct model *m, const struct block *b, struct acts *a, bool split);
/* Clips, norms (q/k norm) and rotates (RoPE) one tile of q, k, v in a->inner, in place. */
void attention_prepare(const struct model *m, const struct block *b, const struct tile *t,
                       struct acts *a);
/* Values of q, k and v of a token together, and the columns where those of a head start. */
int64_t qkv_width(const struct spec *s);
void qkv_columns(const struct spec *s, int64_t head, int64_t *q, int64_t *k, int64_t *v);

/* Notes in a->broken that the stage has met a number that is not finite. In any thread. */
void acts_note_broken(struct acts *a, int stage);
/* Whether the input of the stage's linears is codes: all of them have integers, and a token has one
 * integer grid. */
bool grids_coded(const struct block *b, int stage);
/* Quantizes a->in, the input of the stage's linears with so many columns, by b->grids, or sets
 * a->codes (grids_coded); s as in make_input. These four set a->broken. */
void grids_inputs(const struct model *m, const struct block *b, int stage, int64_t cols,
                  const struct sequences *s, int64_t s0, int64_t s1, struct acts *a);
/* Quantizes the outputs of q, k and v of a tile in a->inner (activation_grid.qkv_bits). */
void grids_outputs(const struct model *m, const struct block *b, const struct tile *t,
                   struct acts *a);
/* Quantizes keys or values of a tile in a->inner, unless the rotary embedding (done: it has been
 * applied) comes between; rotates queries with the keys. */
void grids_keys(const struct model *m, const struct block *b, const struct tile *t, bool done,
                struct acts *a);
void grids_values(const struct model *m, const struct block *b, const struct tile *t,
                  struct acts *a);

/* Rows of a linear of so many rows that one product computes: it is prepared in such pieces. */
int64_t linear_piece(int64_t rows);
/* Floats per token in acts' in and inner. */
void acts_widths(const struct spec *s, int64_t *in, int64_t *inner);
/* Floats that the tensors of a block take in its storage, each padded to whole cache lines. */
int64_t block_floats(const struct slot *slots, int n);
/* a->terms = the n numbers of a->in from `at` on as bf16 terms, as many as products in a->products
 * want.
 */
void acts_split(struct acts *a, int64_t at, int64_t n);
/* Cuts the sequences [s0, s1) into a->tiles of at most `tokens` tokens of one sequence, for work on
 * each token by itself; by_segment: of one segment, whose positions they have. */
void acts_cut(struct acts *a, const struct sequences *s, int64_t s0, int64_t s1, int64_t tokens,
              bool by_segment);
/* Fills the tables of RoPE angles for all positions below n. */
void acts_angles(const struct spec *s, struct acts *a, int64_t n);
/* xIELU's scalars as a model in bf16 has them. */
struct xielu block_xielu_bf16(const struct block *b);
/* log(1 + e^x) without overflow. */
double softplus(double x);
/* Queries and keys in a tile of attention scores. */
enum { QUERY_TILE = 64, KEY_TILE = 512 };
/* Keys, each with values, of a cache that are quantized at a time; a whole group at least. */
enum { CACHE_TILE = 128 };
/* Floats of acts.scores for each thread: a tile, and four of keys or values of a cache; or a row of
 * inputs. */
static inline int64_t scores_floats(int64_t head_dim, int64_t in_width)
{
    const int64_t tiles = QUERY_TILE * KEY_TILE + 4 * CACHE_TILE * head_dim;
    return tiles > in_width ? tiles : in_width;
}
