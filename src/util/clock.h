/* clock: monotonic seconds for durations, UTC text for provenance. */
#pragma once

/* Seconds since an arbitrary start; never jumps. */
double clock_seconds(void);

/* "2026-01-31T12:34:56Z" into text. */
void clock_utc(char text[21]);

/* Sleeps so long (0 or more), or until a signal comes. */
void clock_sleep(double seconds);
