/* process: what /proc says of other processes of this machine. Ids are valid only inside one
 * namespace of them. Thread-safe. */
#pragma once
#include <stdbool.h>

/* A field of /proc/PID/stat from the third on, at its start in line; NULL: there is none. */
const char *process_field(long pid, int field, char line[1024]);
/* Clock ticks from boot to its start; -1 if unknown. */
long long process_start(long pid);
/* Whether the process of that id that began at `start` (0 or less: any) still runs. One that has
 * ended, and that nobody has waited for, does not. */
bool process_runs(long pid, long long start);
