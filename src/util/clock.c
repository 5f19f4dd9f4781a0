#include "util/clock.h"
#include <time.h>

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_running(struct clock_running *c)
{
    const double now = clock_seconds(), most = 2, since = c->last > 0 ? now - c->last : 0;
    c->run += since < most ? since : most;
    c->last = now;
    return c->run;
}

void clock_utc(char text[21])
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(text, 21, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void clock_sleep(double seconds)
{
    const time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){whole, (long)(1e9 * (seconds - (double)whole))}, NULL);
}
