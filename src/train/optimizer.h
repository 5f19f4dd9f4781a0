/* optimizer: turns gradients into new weights, number by number. An optimizer is one file and one
 * line of the table here. Local; the caller cuts the numbers among threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum muon_scale { MUON_RMS, MUON_SPECTRAL };

/* What decays. Matrices are tensors of two dimensions, embedding and head included. */
enum decay_on { DECAY_MATRICES, DECAY_ALL, DECAY_NO_EMBEDDINGS, DECAY_OLMO2 /* all but those */ };

struct optimizer_options {
    int kind; /* enum optimizer_id */
    int64_t n_betas;
    double betas[2]; /* of AdamW's moments */
    double eps, weight_decay, momentum;
    double adamw_rate; /* muon: of what AdamW changes, times the rate */
    double clip;       /* 2-norm of the gradient at most; 0: any */
    double z_loss;     /* coefficient of the mean of (log sum e^logits)^2 */
    int decay_on;      /* enum decay_on */
    int scale;         /* enum muon_scale */
};

/* One step over numbers of one tensor. In f32, with coefficients made in f64 and rounded once. */
struct optimizer_step {
    const struct optimizer_options *options;
    int64_t k;    /* from 1 */
    double rate;  /* of this step */
    double clip;  /* factor of the gradient */
    double decay; /* weight decay of this tensor */
    bool matrix;  /* it is one, within a block */
};

struct optimizer {
    const char *name, *doc;
    int moments; /* vectors that it keeps: 1 or 2 */
    /* out (n) = the new weights; w, g: weights and gradient; m, v: moments, updated (v NULL where
     * there is one). out may be g. */
    void (*step)(const struct optimizer_step *s, int64_t n, const float *w, const float *g,
                 float *m, float *v, float *out);
    /* Of matrices within blocks, for which `step` makes a direction in place of weights: changes
     * the weights w (rows, cols) along it, and overwrites it. room: optimizer_room(rows, cols)
     * numbers. Parallel. NULL: `step` does all. */
    void (*matrix)(const struct optimizer_step *s, int64_t rows, int64_t cols, float *w,
                   float *direction, float *room);
};
static inline int64_t optimizer_room(int64_t rows, int64_t cols)
{
    const int64_t least = rows < cols ? rows : cols;
    return rows * cols + 2 * least * least;
}

#define OPTIMIZERS(X)                                                                              \
    X(adamw)                                                                                       \
    X(sgd)                                                                                         \
    X(muon)
#define OPTIMIZER_DECLARE(name) extern const struct optimizer optimizer_##name;
OPTIMIZERS(OPTIMIZER_DECLARE)
#undef OPTIMIZER_DECLARE
enum optimizer_id {
#define OPTIMIZER_ID(name) OPTIMIZER_##name,
    OPTIMIZERS(OPTIMIZER_ID)
#undef OPTIMIZER_ID
        OPTIMIZERS_N
};
/* In the order of the ids; names with NULL behind the last. */
extern const struct optimizer *const optimizers[OPTIMIZERS_N];
extern const char *const optimizer_names[OPTIMIZERS_N + 1];
