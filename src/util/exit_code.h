/* exit_code: how the program ends. */
#pragma once

enum exit_code {
    EXIT_DONE = 0,
    EXIT_CELLS_FAILED = 1, /* done, but cells failed; merge: results are in conflict */
    EXIT_WARNINGS = 1,     /* doctor: done, but something would slow or break a run */
    EXIT_BAD_INPUT = 2,    /* usage, config, unreadable text, locked; a bad checkpoint of a
                              single-checkpoint command */
    EXIT_STOPPED = 3,      /* resumable: signal, full disk */
    EXIT_INTERNAL = 4,
    EXIT_LIMIT = 5 /* watch: the error is beyond its limit */
};
