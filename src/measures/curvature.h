/* curvature: the part of a visit that measures the curvature of the full-precision loss. */
#pragma once
#include "measures/warm.h"
#include "plan/plan.h"

/* Keys of second order in the section `curvature` (second_order.c). */
struct second_order_options {
    int depth;     /* enum second_order_depth */
    bool critical; /* critical sharpness of checkpoints and cells */
};
extern const struct option_table second_order_table;

/* The section `curvature`: which curvature of the full-precision loss is measured, and on which
 * tokens. */
struct curvature_section {
    struct curvature_options options;
    int64_t sequences, length; /* sequences of the text, and tokens of each; length 0: all */
    struct data_options data;  /* neither text nor ids: the first evaluation text */
    int64_t seed;
    bool warm_start;
    char *checkpoints, *phase; /* a shell pattern of their names, their phase; NULL: all */
    int64_t every;             /* of these the first, and then every so many-th */
    struct second_order_options predicted;
};
extern const struct option_table curvature_section_table;
static inline const struct curvature_section *curvature_section(const struct sweep *s)
{
    return s->sections[MEASURE_curvature];
}

/* Whether curvature and second order are asked for of the checkpoint: the section's `checkpoints`,
 * `phase` and `every`. */
bool curvature_takes(const struct plan *p, const struct plan_checkpoint *c);

/* Hooks of the measure (curvature_plan.c). */
MUST_USE enum status curvature_check(const struct sweep *s, const struct option_scope *scope,
                                     struct err *e);
MUST_USE enum status curvature_key(struct plan *p, const struct plan_checkpoint *c, json_t **own,
                                   struct err *e);
MUST_USE enum status curvature_make_setup(const struct plan *p, const struct plan_checkpoint *c,
                                          void *setup, struct err *e);
bool curvature_stale(const struct plan *p, const struct plan_checkpoint *c, const json_t *record);

extern const struct measure_parts curvature_parts; /* curvature_plan.c */

/* The text that curvature and second order are measured on (struct measure). */
struct data_options curvature_text(const struct plan *p, int64_t model);

/* Adds the numbers that the options request to values, under the cube's names. */
void curvature_values(json_t *values, const struct curvature_options *o, const struct curvature *c);
