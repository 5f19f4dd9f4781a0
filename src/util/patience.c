#include "util/patience.h"
#include <sched.h>
#include <stdlib.h>
#include <time.h>

void patience_pause(long *pause_ns)
{
    enum { YIELDS = 64, FIRST = 20000, LONGEST = 5000000 };
    if (*pause_ns < YIELDS) {
        ++*pause_ns;
        sched_yield();
        return;
    }
    *pause_ns = *pause_ns == YIELDS ? FIRST : 2 * *pause_ns;
    if (*pause_ns > LONGEST) *pause_ns = LONGEST;
    nanosleep(&(struct timespec){.tv_nsec = *pause_ns}, NULL);
}

int patience_wait(MPI_Request *request)
{
    enum { BUSY_LOOKS = 200 };
    long pause = 0;
    for (int looks = 0;; looks++) {
        int finished = 0, code = MPI_Test(request, &finished, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || finished) return code;
        if (looks >= BUSY_LOOKS) patience_pause(&pause);
    }
}

double patience_limit(void)
{
    const char *given = getenv("QTRAJ_PATIENCE");
    const double seconds = given ? strtod(given, NULL) : 0;
    return seconds > 0 ? seconds : 60;
}

double patience_idle_limit(double expected)
{
    const double least = 10 * patience_limit(), times = 4;
    if (getenv("QTRAJ_PATIENCE")) return patience_limit();
    return least > times * expected ? least : times * expected;
}
