/* startup: the ranks connect. Until all have met, a rank that has died or is stopped, or whom
 * MPI does not connect, lets the others wait for ever. Under `qtraj launch` every rank connects to
 * it (arrivals.h), which then looks; elsewhere each rank has a clock. */
#pragma once
#include "util/err.h"

/* Names, for each rank, where `qtraj launch` listens. */
#define STARTUP_LAUNCH "QTRAJ_LAUNCH"
/* Names the file that rank 0 makes when the ranks have met, if it cannot connect to `qtraj launch`.
 */
#define STARTUP_FILE "QTRAJ_MET"
/* What a rank says over that connection: that it runs, twice a second until it has met the others,
 * and rank 0 until it ends; that it has met the others or ends; and how the run ended, a code
 * follows. */
enum { STARTUP_BEAT = 'B', STARTUP_MET = 'M', STARTUP_ENDS = 'E' };

/* Seconds of running time in which so many ranks should meet. */
double startup_limit(int64_t ranks);
/* Which rank this process is by its launcher's word, before MPI says so; -1: none started it. */
int64_t startup_rank(void);

/* Fails unless files can be made in the folder in which Open MPI keeps some; under mpirun there
 * must be room, since it hangs where that is full. ERR_IO, ERR_FULL. */
MUST_USE enum status startup_room(bool mpirun, struct err *e);
/* Whether no other process of this host is to do what one does for all. */
bool startup_is_first_here(void);

/* Before MPI starts, after the process has forked its helpers. If `meets`, in a process that
 * a launcher has started: unless startup_end is called within startup_limit, or `qtraj launch`
 * looks, the process ends with a message and the code. */
void startup_begin(bool meets, int code);
/* The ranks have met, or this one ends as it should. May be called again. */
void startup_end(void);
/* How a run ended, besides its exit codes. */
enum {
    STARTUP_LATER = 74, /* EXIT_STOPPED for lack of time, or by SIGUSR1 */
    STARTUP_AGAIN = 75  /* the run broke off, and should be started again */
};
/* Rank 0 tells `qtraj launch` the run's exit code, or one of these: mpirun's says little. */
void startup_tell(int code);
/* Seconds from startup_begin to startup_end; 0: not both were called. */
double startup_seconds(void);
