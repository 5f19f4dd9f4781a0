/* bulk: transfers of any size, cut where MPI's 32-bit counts or a network's buffers would end. */
#pragma once
#include "util/err.h"
#include <mpi.h>
#include <stdint.h>

enum { BULK_BYTES = 1 << 30 }; /* of one transfer at most */

/* Copies bytes of rank root to all ranks of comm. Collective. ERR_MPI. */
MUST_USE enum status bulk_bcast(MPI_Comm comm, int root, void *data, int64_t bytes, struct err *e);

/* data (n) of rank root = the sums of all ranks' data, added in the order of the ranks: the same
 * bits whatever MPI it is and however the ranks lie on nodes, which MPI_Reduce does not promise.
 * The other ranks' data stay as they are. type: MPI_FLOAT or MPI_DOUBLE. room: bulk_sum_room(ranks)
 * numbers of that type. Collective. ERR_MPI. */
MUST_USE enum status bulk_sum(MPI_Comm comm, int root, void *data, int64_t n, MPI_Datatype type,
                              void *room, struct err *e);
int64_t bulk_sum_room(int64_t ranks);
