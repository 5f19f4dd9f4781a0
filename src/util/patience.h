/* patience: waits for other ranks without keeping a core busy, as blocking calls of most MPI
 * libraries do. */
#pragma once
#include <mpi.h>

/* Sleeps, longer with each call, up to 5 ms. *pause_ns is its state; set it to 0 to start over. */
void patience_pause(long *pause_ns);

/* MPI_Wait for a request that may take long: polls for some tens of microseconds, then with pauses
 * in between. Returns MPI's error code. */
int patience_wait(MPI_Request *request);

/* Seconds for which another rank may be silent: a minute, or QTRAJ_PATIENCE. */
double patience_limit(void);
/* Seconds without progress after which a job that should take `expected` seconds is given up: it
 * reports after each block. */
double patience_idle_limit(double expected);
