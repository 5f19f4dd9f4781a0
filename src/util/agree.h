/* agree: one status for all ranks of a communicator. */
#pragma once
#include "util/err.h"
#include <mpi.h>

/* For local work before a collective call, which must not be TRYed (a rank that jumps over the call
 * leaves the others hanging): st = local_work(..., e); TRY(err_agree(comm, st, e)); Collective on
 * comm. Returns OK on every rank, or on every rank the status of the lowest rank that failed; a
 * rank that failed with the same status keeps its own text, the others get that rank's. ERR_MPI. A
 * waiting rank uses no core. */
MUST_USE enum status err_agree(MPI_Comm comm, enum status st, struct err *e);
