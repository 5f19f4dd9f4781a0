/* surface: points of loss surfaces. A point is a visit whose only part evaluates a weighted sum of
 * checkpoints, combined while it loads; its record has the type "point". What its plane needs (the
 * quantized weights, the Gram matrix) is made once in each process and kept between visits. */
#pragma once
#include "group/part.h"

struct surface_task {
    char *surface; /* label */
    int plane;     /* enum surface_plane */
    int64_t n;
    struct weights *parts; // (n) what spans the plane; the first is its origin
    double margin, radius; /* as in struct surface_entry */

    char *point;   /* label of an exact point; NULL: of the grid */
    int64_t exact; /* an exact point: which part */
    double x, y;   /* a point of the grid: 0 to 1 along each side */
};

extern const struct part surface_part;

/* Frees what is kept of surfaces between visits. */
void surface_forget(struct visit_cache *cache);
