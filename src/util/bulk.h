/* bulk: transfers of any size, cut where MPI's 32-bit counts or a network's buffers would end. */
#pragma once
#include "util/err.h"
#include <mpi.h>
#include <stdint.h>

enum { BULK_BYTES = 1 << 30 }; /* of one transfer at most */

/* Copies bytes of rank root to all ranks of comm. Collective. ERR_MPI. */
MUST_USE enum status bulk_bcast(MPI_Comm comm, int root, void *data, int64_t bytes, struct err *e);
