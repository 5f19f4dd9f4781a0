/* safetensors_parts: a tensor whose parts the ranks of a communicator hold, into a file that the
 * first of them writes. */
#pragma once
#include "checkpoint/safetensors.h"
#include <mpi.h>

/* Appends the parts (n numbers in f32 each) in the order of the ranks. o: on rank 0. After an error
 * there the messages continue, so that no other rank hangs; all return it. Collective. */
MUST_USE enum status safetensors_append_parts(MPI_Comm comm, const float *part, int64_t n,
                                              struct safetensors_out *o, struct err *e);
