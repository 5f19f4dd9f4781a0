/* plan_report: what a plan costs, for people and for machines. */
#pragma once
#include "plan/plan.h"
#include "sched/simulate.h"

struct plan_line {
    int64_t model, visits, n_variants;
    struct cost cost; /* of one visit */
    double seconds[COST_PHASE_N], total;
    int64_t ranks;             /* to a visit */
    bool fits;                 /* into the memory of a rank */
    struct memory_plan memory; /* with that much, or without bound if it does not fit */
    int64_t least;             /* bytes with which a visit can still be done */
    char why[512];             /* it does not fit */
};

struct plan_report {
    const struct plan *plan; /* borrowed */
    int64_t n;
    struct plan_line *lines; // (n) a line a model
    int64_t threads, memory; /* of a rank; 0: no bound */
    const char *rates_from;  /* static */
    struct cost cost;        /* of all */
    double seconds[COST_PHASE_N], total;
    struct plan_visits left; /* what is not finished */
    int64_t n_simulations;
    struct sched_simulation *simulations; /* of groups */
    int64_t group;                        /* nodes to a group */
};

/* Everything but simulations. memory 0: none given. ERR_NOMEM, or as plan_visits_make. */
MUST_USE enum status plan_report_make(const struct plan *p, const struct results_view *view,
                                      int64_t threads, int64_t memory, struct plan_report *out,
                                      struct err *e);
void plan_report_free(struct plan_report *r);

/* The visits that are left on so many nodes each ("1,2,64"), `group` of them to a visit; nodes that
 * make no whole group stay out. ERR_USAGE. */
MUST_USE enum status plan_report_simulate(struct plan_report *r, const char *nodes, int64_t group,
                                          struct err *e);

/* A new reference, NULL when out of memory. */
json_t *plan_report_json(const struct plan_report *r);
void plan_report_print(const struct plan_report *r);
