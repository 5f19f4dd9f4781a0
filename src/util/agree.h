/* agree: how the ranks of a communicator leave a step together. */
#pragma once
#include "util/err.h"
#include <mpi.h>

/* Before a collective, local work is not TRYed (a rank that jumps past the meeting point leaves the
 * others hanging): st = local_work(..., e); TRY(err_agree(comm, st, e)); Collective on comm. Every
 * rank leaves with OK, or every rank leaves with the status of the lowest rank that failed, so that
 * all go the same way from there; the text is the rank's own if it failed alike, else that rank's.
 * A rank that waits here costs no core. */
MUST_USE enum status err_agree(MPI_Comm comm, enum status st, struct err *e);
