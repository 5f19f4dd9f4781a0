/* bulk: transfers of any size, in pieces that fit MPI's 32-bit counts and a network's buffers. */
#pragma once
#include "util/err.h"
#include <mpi.h>

enum { BULK_BYTES = 1 << 30 }; /* maximum of one transfer */

/* Copies data (bytes) of rank root to all ranks. Collective on comm. ERR_MPI. */
MUST_USE enum status bulk_bcast(MPI_Comm comm, int root, void *data, int64_t bytes, struct err *e);

/* data (n) of rank root = the sums of all ranks' data, added in the order of the ranks: unlike with
 * MPI_Reduce, the bits depend neither on the MPI library nor on how ranks lie on nodes. The other
 * ranks' data stay as they are. type: MPI_FLOAT or MPI_DOUBLE. buffer: bulk_sum_buffer(ranks)
 * numbers of that type, on every rank. Collective on comm. ERR_MPI. */
MUST_USE enum status bulk_sum(MPI_Comm comm, int root, void *data, int64_t n, MPI_Datatype type,
                              void *buffer, struct err *e);
int64_t bulk_sum_buffer(int64_t ranks);
