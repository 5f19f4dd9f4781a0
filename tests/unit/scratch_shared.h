/* scratch_shared: a scratch folder of all ranks. */
#pragma once
#include "scratch.h"
#include <mpi.h>
#include <stdio.h>

/* folder (size) = that of rank 0, on every rank. Collective. */
static inline void scratch_shared(char *folder, size_t size)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) snprintf(folder, size, "%s", scratch_dir());
    MPI_Bcast(folder, (int)size, MPI_CHAR, 0, MPI_COMM_WORLD);
}
