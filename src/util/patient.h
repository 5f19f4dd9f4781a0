/* patient: waiting for other ranks without keeping a core busy, which the blocking calls of most
 * MPI libraries do. */
#pragma once
#include <mpi.h>

/* Sleeps a little longer every time it is called in a row, up to 5 ms; *pause_ns = 0 starts over.
 */
void patient_pause(long *pause_ns);

/* MPI_Wait, for work that may take others long: looks busily for some tens of microseconds, then
 * with pauses in between. Returns MPI's code. */
int patient_wait(MPI_Request *request);
