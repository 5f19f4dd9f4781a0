/* group: the ranks that work on one visit together. Sequences are spread over them, weights stand
 * once a node in memory that its ranks share, rows of a matrix are dealt out. A group of one is
 * the plain case: nothing is copied, shared or sent. */
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
    int *node_of; // (size) number of each rank's node: its leader's rank among the leaders
};

/* All of this is collective on the group, if it is not said otherwise. */

/* comm is borrowed and outlives g. ERR_MPI, ERR_NOMEM, alike on all ranks; group_close then too. */
MUST_USE enum status group_open(MPI_Comm comm, struct visit_group *g, struct err *e);
void group_close(struct visit_group *g);
/* As err_agree. */
MUST_USE enum status group_agree(const struct visit_group *g, enum status st, struct err *e);
int64_t group_max(const struct visit_group *g, int64_t value);

/* Floats that the ranks of a node share; each may write some, and sees all after a sync. */
struct group_memory {
    float *at;
    bool shared;
    MPI_Win window;
};
/* ERR_NOMEM names `what`. Zero-initialise before; closing what was never opened does nothing, as
 * long as all ranks do it. */
MUST_USE enum status group_memory_open(const struct visit_group *g, int64_t n, const char *what,
                                       struct group_memory *m, struct err *e);
/* Collective on the node. */
void group_memory_sync(const struct visit_group *g, const struct group_memory *m);
void group_memory_close(struct group_memory *m);
/* Local: n floats at p, which lie in memory that ranks share, are not needed for a while: they stay
 * where they are, but no longer count as this rank's resident memory. */
void group_pages_forget(const struct visit_group *g, const float *p, int64_t n);

/* q (rows, cols) lies in m; every rank has written its rows of it (team_rows), and all have all
 * afterwards. */
MUST_USE enum status group_rows(const struct visit_group *g, const struct group_memory *m, float *q,
                                int64_t rows, int64_t cols, struct err *e);

/* This rank's sequences of s: whole ones, one behind the other, about as many tokens on each rank.
 * *first is the number of the first. For a group of one *out is s itself, else *kept owns the copy
 * (free with sequences_free). Not collective. */
MUST_USE enum status group_sequences(const struct visit_group *g, const struct sequences *s,
                                     struct sequences *kept, const struct sequences **out,
                                     int64_t *first, struct err *e);
/* numbers (s->n, width): every rank has filled the rows of its own sequences and gets all.
 * ERR_NOMEM, ERR_MPI. */
MUST_USE enum status group_gather(const struct visit_group *g, const struct sequences *s,
                                  int64_t width, double *numbers, struct err *e);
