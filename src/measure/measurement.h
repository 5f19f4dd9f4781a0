/* measurement: the loss of one model on a group of ranks, its gradient and the products of its
 * Hessian. The sequences are dealt out, each rank differentiates its own; vectors are cut over the
 * ranks (curvature/space.h): parts of a layer come to all while it is worked on, and the ranks'
 * sums go to the one that has those numbers.
 *
 * Every common step begins with a meeting. A rank that fails by itself leaves at once for the end
 * (measurement_end), where it meets the others; they learn of it at their next meeting, and nobody
 * communicates any more. */
#pragma once
#include "curvature/measure.h"
#include "group/part.h"
#include <mpi.h>

/* Zero-initialise, then fill in the first four; it must stay where it is while it is open. */
struct measurement {
    const struct model *model;
    const struct sequences *sequences;
    MPI_Comm group;
    const struct visit_hooks *hooks; /* asked before each product whether to stop; NULL: not */
    int64_t tokens;                  /* scored, of all ranks */
    struct hvp *h;                   /* shared by the ranks of a group */
    struct subject subject;          /* of h, with hooks asked */
    /* of measurement.c */
    int rank, size;
    struct sequences mine;
    double *room;       // (bulk_sum_buffer) where several ranks add up
    bool left;          /* the ranks have failed together */
    struct err failure; /* why */
};
/* Collective on group, like all that is done with h and the subject. As hvp_open; ERR_USAGE: no
 * sequence has two tokens. Close it whatever is returned. */
MUST_USE enum status measurement_open(struct measurement *m, enum hvp_subset subset, struct err *e);
void measurement_close(struct measurement *m);
/* How the part does its task within `bound` bytes (0: none) of each rank (struct part's memory):
 * from now on products keep activations if there is room on all of them. variants: that it
 * predicts. ERR_NOMEM, ERR_USAGE: too little. */
MUST_USE enum status measurement_fit(struct measurement *m, const struct part *part,
                                     const void *task, int64_t variants, int64_t bound,
                                     struct memory_fit *out, struct err *e);
/* What has been done with h or the subject since the ranks were last together ended with st here:
 * OK if it did on all ranks, else the failure of all, as err_agree. */
MUST_USE enum status measurement_end(struct measurement *m, enum status st, struct err *e);

/* curvature_measure on all ranks together: the same out on every rank, but for its vector, of which
 * each has its part. ERR_STOPPED: the hooks said so. out borrows names from m. */
MUST_USE enum status measurement_run(struct measurement *m, const struct curvature_request *request,
                                     struct curvature *out, struct err *e);

/* A vector as a file: its numbers in order, f32; mine (n of the space): the ranks' parts. Rank 0
 * writes and reads, in pieces. Collective. ERR_IO, ERR_FULL. */
MUST_USE enum status measurement_vector_write(struct measurement *m, const char *path,
                                              const float *mine, struct err *e);
/* False on all ranks: there is none of that length, or it cannot be read. */
bool measurement_vector_read(struct measurement *m, const char *path, float *mine);
