/* clock: monotonic seconds for durations, UTC text for provenance. */
#pragma once

/* Seconds since an arbitrary start; never jumps. */
double clock_seconds(void);

/* Seconds for which this process has run since it was first asked. It is to be asked every second:
 * of a longer time, in which the process may have been stopped, two seconds count. Zero-initialise.
 */
struct clock_running {
    double run, last;
};
double clock_running(struct clock_running *c);

/* "2026-01-31T12:34:56Z" into text. */
void clock_utc(char text[21]);

/* Sleeps so long (0 or more), or until a signal comes. */
void clock_sleep(double seconds);
