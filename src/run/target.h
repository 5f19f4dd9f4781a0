/* target: the cube that rebuild and merge write, and its lock: no run of that cube goes on
 * meanwhile.
 */
#pragma once
#include "records/results.h"

/* Zero-initialise; free with target_free, which releases the lock. */
struct target {
    char *cube, *journal; /* links resolved; of the cube, not the one that is read */
    struct lock *lock;
};
void target_free(struct target *t);

/* Takes the lock of the cube `name`. inputs (n): files that are read. ERR_USAGE: it is one of the
 * inputs, or there is something else than a cube; ERR_LOCKED and others: as lock_take. */
MUST_USE enum status target_open(struct target *t, const char *name, const char *const *inputs,
                                 int64_t n, struct err *e);
