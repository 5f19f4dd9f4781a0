/* owner: whose the results are that a sweep names. */
#pragma once
#include "plan/plan.h"

/* Refuses results (a cube's path; without a journal: the sweep's whole results, its parts) whose
 * newest plan is of a sweep with another name, or has no checkpoint (by its name in keys) of the
 * plan, so that nothing of it would be shown any more. ERR_USAGE: the text says what is there;
 * ERR_NOMEM.
 */
MUST_USE enum status owner_check(const struct plan *p, const char *results, struct err *e);
/* Refuses the results of the plan if finished ones of a checkpoint are of other weights in another
 * folder than it has now, and none are of its own: they would be shown no more. Of checkpoints that
 * are on disk. A folder whose weights have changed in place is none of these, nor one that was
 * moved. ERR_USAGE; errors of parts_view. */
MUST_USE enum status owner_check_weights(struct plan *p, struct err *e);
/* A line if the results are new (nothing is planned in `view`, which may be NULL), an override
 * names them, and those that the sweep file itself names have finished cells of this plan. path,
 * overrides: as of sweep_read. ERR_NOMEM. */
MUST_USE enum status owner_tell_own(const struct plan *p, const struct results_view *view,
                                    const char *path, char *const *overrides, int64_t n,
                                    struct err *e);
