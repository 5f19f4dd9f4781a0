/* plan_parts: a plan cut into n parts, which different processes compute (qtraj run --part k/n). */
#pragma once
#include "plan/plan.h"

/* *part = the k and n of "3/8"; the rest is 0. ERR_USAGE. */
enum { PLAN_PARTS_MOST = 100000 };
MUST_USE enum status plan_part_parse(const char *text, struct plan_part *part, struct err *e);

/* Sets the rest of a part whose k and n are set; nothing if n is 0. Parts are contiguous, each
 * visit is in one of them, their largest cost is as small as it can be and the others are near the
 * mean. One is empty only if there are more parts than visits. If p is as plan_make has left it
 * (call it before plan_costs_fit, plan_costs_learn and before costs.rates are set), they depend on
 * the sweep, its input files, and on which config.json and tokenizers are there. So that all parts
 * have the same cut, that of the first one is recorded in the folder of the sweep's parts
 * (recorded: do so), and counts. Errors of plan_cut_agree. */
MUST_USE enum status plan_part_find(const struct plan *p, bool recorded, struct plan_part *part,
                                    struct err *e);
/* bounds (n + 1), those of a cut, become the recorded ones, which are of the same list of visits;
 * if there are none, they stay, and are recorded first if `recorded`. *disjoint: as in struct
 * plan_part. ERR_FORMAT: the recorded cut is damaged; ERR_IO, ERR_FULL, ERR_NOMEM. */
MUST_USE enum status plan_cut_agree(const struct plan *p, int64_t n, bool recorded, int64_t *bounds,
                                    bool *disjoint, struct err *e);

/* The same cut of n_visits visits with these costs: bounds (n + 1), part i is bounds[i] to
 * bounds[i + 1] − 1. ERR_NOMEM. */
MUST_USE enum status plan_parts_cut(const double *costs, int64_t n_visits, int64_t n,
                                    int64_t *bounds, struct err *e);
