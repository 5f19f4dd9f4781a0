/* surface: points of loss surfaces. A point is a visit with one part, which evaluates a weighted
 * sum of checkpoints that is computed while it loads; its record has the type "point". Each process
 * computes a plane's data (quantized weights, Gram matrix) once and caches it. */
#pragma once
#include "engine/part.h"
#include "plan/plan.h"

struct surface_task {
    char *surface; /* label */
    int plane;     /* enum surface_plane */
    int64_t n;
    struct weights *parts; // (n) sources that span the plane, the origin first
    double margin, radius; /* as in struct surface_entry */

    char *point;   /* label of an exact point; NULL: a grid point */
    int64_t exact; /* exact point: index of its part */
    double x, y;   /* grid point: position along each side, 0 to 1 */
};

/* Hooks of the measure (surface_plan.c). */
MUST_USE enum status surfaces_plan(struct plan *p, struct err *e);
MUST_USE enum status surfaces_visits(const struct plan *p, const struct results_view *view,
                                     const struct plan_choice *choice, int64_t first,
                                     struct plan_visits *out, struct err *e);
void surfaces_free(void *own);
