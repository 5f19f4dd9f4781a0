/* comm: a process's place among the ranks of a communicator. */
#pragma once
#include "util/err.h"
#include <mpi.h>

/* Its rank, and how many there are. Local. */
static inline int comm_rank(MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}
static inline int comm_size(MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

/* *out = those of its ranks that are on this node, in their order; the caller frees it with
 * comm_free. Collective on comm. ERR_MPI. */
MUST_USE enum status comm_of_node(MPI_Comm comm, MPI_Comm *out, struct err *e);
/* For CLEANUP (util/err.h); MPI_COMM_NULL: nothing. Collective on it. */
void comm_free(MPI_Comm *comm);
