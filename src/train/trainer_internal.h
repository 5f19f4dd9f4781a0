/* trainer_internal: the struct of a trainer; only trainer*.c include it. */
#pragma once
#include "train/trainer.h"

enum { TRAINER_BLOCK = 4096 }; /* numbers whose squares are summed together */

struct trainer_tensor {
    float *w; // (elements)
    double decay;
    bool matrix; /* within a block */
};

/* Some sequences as the derivatives take them: without the last token of each, which is a target
 * alone; cut where documents end, since tokens of a document see no others: RoPE depends on
 * distances alone. */
struct trainer_micro {
    struct sequences s;
    int32_t *targets;
};

struct trainer {
    struct trainer_options o;
    struct checkpoint *checkpoint;
    struct model *model;
    struct block *blocks;  // (L)
    struct sequences none; /* two tokens, for the table */
    struct hvp *table;     /* names and places of the tensors */
    /* The last micro-batch, and its derivatives, or NULL: their memory serves the next one whose
     * sequences are as long. */
    struct trainer_micro micro;
    struct hvp *derivatives;
    int64_t n, n_tensors;
    struct trainer_tensor *tensors; // (n_tensors)
    int rank, size;
    int64_t first, held; /* this rank's numbers: [first, first + held) */
    float *sum, *m, *v;  // (held)
    float *g;            // (n) of a micro-batch; NULL until it is needed
};

/* first, n: the numbers that a rank holds: whole blocks but for the last. */
void trainer_part(const struct trainer *t, int rank, int64_t *first, int64_t *n);
/* The run of [first, first + n) that lies in one tensor and begins at `first`: returns its length,
 * *i: the tensor, *at: its place there. */
int64_t trainer_run(const struct trainer *t, int64_t first, int64_t n, int64_t *i, int64_t *at);
/* Frees t->micro and t->derivatives. */
void trainer_forget(struct trainer *t);
/* Makes t->g. ERR_NOMEM. */
MUST_USE enum status trainer_gradient_room(struct trainer *t, struct err *e);
/* err_agree for steps: ranks that compute equally long wait without sleeping. Collective. */
MUST_USE enum status trainer_agree(const struct trainer *t, enum status st, struct err *e);
