/* measurement: the loss of one model, its gradient and products with its Hessian, computed by a
 * group of ranks. Each rank differentiates its share of the sequences. Vectors of parameter size
 * are distributed (curvature/space.h): the numbers of one layer at a time are gathered on all
 * ranks, and the sums over the ranks are reduced to the ranks that hold those numbers.
 *
 * Every collective step starts with an agreement on errors (util/agree.h). A rank that fails
 * locally calls measurement_end immediately, which answers the other ranks' next agreement; all
 * then return the failure and communicate no further. */
#pragma once
#include "curvature/measure.h"
#include "engine/part.h"

/* Zero-initialise, then set the members before `tokens`. Do not move the struct while it is open.
 */
struct measurement {
    const struct model *model;
    const struct sequences *sequences;
    const struct visit_group *group; /* borrowed */
    const struct visit_hooks
        *hooks; /* should_stop is called before each product; NULL: never stop */
    /* Shares of the part's work that the gradient and one product are; pace NULL: not reported. */
    struct pace *pace;
    double share_gradient, share_product;
    struct saved *saved;    /* where measurement_run saves its state, measurement_save_to */
    double share;           /* of the two, the one that is being computed; 0: neither */
    int64_t tokens;         /* scored tokens of all ranks */
    struct hvp *h;          /* shared by the ranks of a group */
    struct subject subject; /* of h; checks the hooks */
    /* private to measurement.c */
    int rank, size;
    struct sequences mine;
    double *buffer;              // (bulk_sum_buffer) for sums over several ranks
    struct block_reader *reader; /* of several ranks' blocks */
    bool failed;                 /* all ranks know that one has failed */
    struct err failure;          /* why */
};
/* Collective on group, as are all calls with h or the subject. Call measurement_close, which is
 * collective too, even after a failure. Errors of hvp_open; ERR_USAGE: no sequence has two tokens.
 */
MUST_USE enum status measurement_open(struct measurement *m, enum hvp_subset subset, struct err *e);
void measurement_close(struct measurement *m);
/* Chooses how the part does its work within `bound` bytes per rank (0: no limit; struct measure's
 * memory); later products retain activations if that fits on every rank. variants: number that it
 * predicts. Collective. ERR_NOMEM, ERR_USAGE: a limit is too small. */
MUST_USE enum status measurement_fit(struct measurement *m, const struct measure *part,
                                     const void *setup, int64_t variants, int64_t bound,
                                     struct memory_fit *out, struct err *e);
/* Ends a series of calls with h or the subject. st: this rank's status. Returns OK if all ranks
 * passed OK, else the same failure on all ranks, as err_agree. Collective. */
MUST_USE enum status measurement_end(struct measurement *m, enum status st, struct err *e);

/* Sets m->saved, whose collective steps then agree on errors as those of m. Local. */
void measurement_save_to(struct measurement *m, struct saved *saved);

/* Runs curvature_measure collectively. *out is the same on every rank except its vector, which is
 * distributed, and borrows names from m. ERR_STOPPED: should_stop returned true. */
MUST_USE enum status measurement_run(struct measurement *m, const struct curvature_request *request,
                                     struct curvature *out, struct err *e);

/* Writes a distributed vector to a .safetensors file, as f32 in vector order. mine (space.n): this
 * rank's part. Collective. ERR_IO, ERR_FULL. */
MUST_USE enum status measurement_vector_write(struct measurement *m, const char *path,
                                              const float *mine, struct err *e);
/* Every rank reads its part of such a file; false on all ranks: no readable file of that length.
 * Collective. */
bool measurement_vector_read(struct measurement *m, const char *path, float *mine);
