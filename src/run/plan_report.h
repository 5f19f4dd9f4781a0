/* plan_report: what a plan costs. */
#pragma once
#include "plan/plan.h"
#include "sched/run_forecast.h"

struct plan_line {
    int64_t model, visits, n_variants;
    struct cost cost; /* of one visit */
    double seconds[COST_PHASE_N], total;
    int64_t ranks;             /* per visit */
    bool fits;                 /* into the memory of a rank */
    struct memory_plan memory; /* in that memory, or without a limit if it does not fit */
    int64_t least;             /* the minimum memory for a visit, bytes */
    int64_t saved;             /* disk for the saved states of a visit at most, bytes */
    char why[512];             /* why it does not fit */
};

struct plan_report {
    const struct plan *plan; /* borrowed */
    int64_t n;
    struct plan_line *lines; // (n) one per model, of a part those that it has checkpoints of
    int64_t threads, memory; /* of a rank; 0: no bound */
    const char *rates_from;  /* static */
    struct cost cost;        /* of all visits */
    double seconds[COST_PHASE_N], total;
    struct plan_visits remaining; /* those not finished */
    /* what measures write to disk */
    int64_t to_write[MEASURES_N];
    double disk[MEASURES_N];
    int64_t n_simulations;
    struct sched_simulation *simulations; /* of groups */
    int64_t group;                        /* nodes per group */
};

/* Sets the plan's rates: as --rate gives them (GFLOP/s in f32; NULL: not), else as they are
 * measured now. who: "a worker", for messages. ERR_USAGE, ERR_NOMEM. */
MUST_USE enum status plan_report_rates(struct plan *p, const char *rate, const char *who,
                                       struct err *e);
/* Prices the visits for ranks of so many threads and bytes (plan_costs_fit; 0: no limit).
 * ERR_NOMEM.
 */
MUST_USE enum status plan_report_fit(struct plan *p, int64_t threads, int64_t memory,
                                     struct err *e);
/* *ranks = how many of them, each on a node of its own, the memory of a visit needs. ERR_NOMEM. */
MUST_USE enum status plan_report_ranks(const struct plan *p, int64_t model, int64_t threads,
                                       int64_t memory, int64_t *ranks, struct err *e);
/* The share of their speed with which so many ranks work together. */
double plan_report_efficiency(int64_t ranks);
/* *out = everything except simulations, owned by the caller. memory: bytes of a rank, 0: no limit.
 * choice: which of the visits count as remaining.
 * ERR_NOMEM, or as plan_visits_make. */
MUST_USE enum status plan_report_make(const struct plan *p, const struct results_view *view,
                                      int64_t threads, int64_t memory,
                                      const struct plan_choice *choice, struct plan_report *out,
                                      struct err *e);
void plan_report_free(struct plan_report *r);
/* Adds what of the remaining visits would fail; memory: also what does not fit into it. ERR_NOMEM.
 */
MUST_USE enum status plan_report_faults(const struct plan_report *r, bool memory,
                                        struct plan_faults *f, struct err *e);
/* Adds how many records of each kind have failed and are not among the remaining visits. ERR_NOMEM.
 */
MUST_USE enum status plan_report_failed(const struct plan_report *r, const struct inventory *all,
                                        struct plan_faults *f, struct err *e);

/* Simulates the remaining visits on each of these numbers of nodes ("1,2,64"), `group` nodes to a
 * visit; nodes that make no whole group are not used. ERR_USAGE, ERR_NOMEM. */
MUST_USE enum status plan_report_simulate(struct plan_report *r, const char *nodes, int64_t group,
                                          struct err *e);

/* --- plan_print.c --- */

/* The report as JSON (a new reference, NULL: out of memory), and as text (ERR_NOMEM). */
json_t *plan_report_json(const struct plan_report *r);
MUST_USE enum status plan_report_print(const struct plan_report *r, FILE *out, struct err *e);
