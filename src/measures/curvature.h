/* curvature: the part of a visit that measures the curvature of the full-precision loss. */
#pragma once
#include "measures/warm.h"
#include "plan/plan.h"

/* Hooks of the measure (curvature_plan.c). */
MUST_USE enum status curvature_key(struct plan *p, const struct plan_checkpoint *c, json_t **own,
                                   struct err *e);
MUST_USE enum status curvature_make_task(const struct plan *p, const struct plan_checkpoint *c,
                                         void *task, struct err *e);
bool curvature_stale(const struct plan *p, const struct plan_checkpoint *c, const json_t *record);

/* The text that curvature and second order are measured on (struct measure). */
struct data_options curvature_text(const struct plan *p, int64_t model);

/* Adds the numbers that the options request to values, under the cube's names. */
void curvature_values(json_t *values, const struct curvature_options *o, const struct curvature *c);
