/* When a state is saved: what a save takes, beside the work that it keeps. */
#include "records/saved_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Saving may take this share of the time. */
static const double share_of_time = 0.01;
/* A save is expected to take these seconds, and its bytes at this rate, or as long as the longest
 * one so far. */
static const double first_seconds = 0.3, first_rate = 200e6;
/* It is made when so many times that fit, so that a slower one still keeps within the share. */
static const double reserve = 2;

bool saves_always(void)
{
    const char *when = getenv("QTRAJ_SAVE");
    return when && strcmp(when, "always") == 0;
}

double saved_takes(const struct saved_times *t, int64_t bytes)
{
    return fmax(t->longest, first_seconds + (double)bytes / first_rate);
}

double saved_first_after(int64_t bytes)
{
    const struct saved_times none = {0};
    return saves_always() ? 1e-3 : reserve * saved_takes(&none, bytes) / share_of_time;
}

bool saved_is_due(const struct saved_times *t, int64_t bytes, double elapsed)
{
    return t->spent + reserve * saved_takes(t, bytes) <= share_of_time * elapsed;
}

void saved_took(struct saved_times *t, double seconds)
{
    t->spent += seconds;
    t->longest = fmax(t->longest, seconds);
    t->n++;
}
