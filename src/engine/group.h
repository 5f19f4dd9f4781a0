/* group: the ranks that work on one visit together. They divide the sequences and the rows of
 * matrices; the ranks of a node share one copy of the weights. */
#pragma once
#include "model/sequences.h"
#include "quant/team.h"
#include "util/err.h"
#include <mpi.h>

struct visit_group {
    MPI_Comm comm; /* borrowed */
    int rank, size;
    struct quant_team team;
    MPI_Comm node; /* the group's ranks on this node, or MPI_COMM_NULL */
    int node_rank, node_size;
    MPI_Comm leaders; /* rank 0 of every node; MPI_COMM_NULL elsewhere */
    int nodes;
    int *node_of; // (size) node number of each rank: its leader's rank in `leaders`
};

/* All functions are collective on the group unless noted. */

/* comm is borrowed. Call group_close even after a failure. ERR_MPI, ERR_NOMEM on all ranks. */
MUST_USE enum status group_open(MPI_Comm comm, struct visit_group *g, struct err *e);
void group_close(struct visit_group *g);
/* As err_agree. */
MUST_USE enum status group_agree(const struct visit_group *g, enum status st, struct err *e);
int64_t group_max(const struct visit_group *g, int64_t value);

/* An array of floats that the ranks of a node share. Each rank may write a part; after
 * group_memory_sync all ranks see all parts. */
struct group_memory {
    float *at;
    bool shared;
    MPI_Win window;
};
/* Allocates n floats. Zero-initialise *m; group_memory_close does nothing to memory that was not
 * opened (on any rank). ERR_NOMEM names `what`. */
MUST_USE enum status group_memory_open(const struct visit_group *g, int64_t n, const char *what,
                                       struct group_memory *m, struct err *e);
/* Makes the writes of all ranks of the node visible to each other. Collective on the node. */
void group_memory_sync(const struct visit_group *g, const struct group_memory *m);
void group_memory_close(struct group_memory *m);
/* Local: removes n floats at p of shared memory from this rank's resident memory. The values stay;
 * the next access maps them again. */
void group_pages_forget(const struct visit_group *g, const float *p, int64_t n);

/* q (rows, cols) inside m: every rank has written its rows (team_rows); afterwards all have all. */
MUST_USE enum status group_rows(const struct visit_group *g, const struct group_memory *m, float *q,
                                int64_t rows, int64_t cols, struct err *e);

/* *out = this rank's sequences of s: consecutive whole sequences, with nearly the same number of
 * tokens on each rank; *first is the index of the first one. For a group of one rank *out is s
 * itself, else it is *copy (free with sequences_free). Not collective. ERR_NOMEM. */
MUST_USE enum status group_sequences(const struct visit_group *g, const struct sequences *s,
                                     struct sequences *copy, const struct sequences **out,
                                     int64_t *first, struct err *e);
/* numbers (first[s->n], width): every rank has filled in the rows of its own sequences, those of
 * sequence i from first[i] on (NULL: one each); afterwards every rank has all rows. ERR_NOMEM,
 * ERR_MPI. */
MUST_USE enum status group_gather(const struct visit_group *g, const struct sequences *s,
                                  const int64_t *first, int64_t width, double *numbers,
                                  struct err *e);
