/* run_lost_ranks: what a run does when ranks are lost in a visit: it finds what is left to do,
 * counts the losses in the journal, and gives up a visit that has taken its ranks three times in a
 * row without anything of it being finished or saved in between. */
#pragma once
#include "plan/plan.h"
#include "sched/sched.h"

/* Records that the run has got. Zero-initialise; free `records`. */
struct run_delivered {
    int64_t n, capacity;
    uint64_t *records; // (n) digests of type and key
};
/* ERR_NOMEM. */
MUST_USE enum status run_delivered_add(struct run_delivered *d, const json_t *record,
                                       struct err *e);

/* Removes from the loss the parts of the visit whose records were delivered, and marks in v those
 * cells that lack their prediction only. */
void run_lost_ranks_keep(const struct run_delivered *d, struct visit *v, struct sched_loss *loss);

/* So many losses of one visit end it. */
enum { RUN_LOSSES_MOST = 3 };

/* Emits failed records for what the loss leaves to do of v, with the reason. Errors: of emit,
 * ERR_NOMEM. */
MUST_USE enum status
run_lost_ranks_refuse(const struct visit *v, const struct sched_loss *loss, const char *reason,
                      enum status (*emit)(void *context, const json_t *record, struct err *e),
                      void *context, struct err *e);
