/* agree: how the ranks of a communicator leave a step together. */
#pragma once
#include "util/err.h"
#include <mpi.h>

/* Before a collective, local work is not TRYed (a rank that jumps past the meeting point leaves the
 * others hanging): st = local_work(..., e); TRY(err_agree(comm, st, e)); Collective on comm. Every
 * rank leaves with OK, or every rank leaves with an error: its own, or ERR_PEER with the text of
 * the lowest rank that failed. A rank that waits here costs no core. */
MUST_USE enum status err_agree(MPI_Comm comm, enum status st, struct err *e);
