/* startup: a limit on the time that ranks take to come together. Where Open MPI cannot connect two
 * ranks, for lack of memory for example, it says so at best in a warning, and the first collective
 * call waits for ever. */
#pragma once

/* On rank 0: unless startup_end is called within link_patience of running time, apart(seconds) is
 * called on a thread of its own. Does nothing if no thread can be had. Once per process. */
void startup_begin(void (*apart)(double seconds));
/* The ranks have come together. Without startup_begin: nothing. */
void startup_end(void);
