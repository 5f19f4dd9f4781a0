/* The points of a loss surface: their places and keys. */
#include "records/results.h"
#include <stdio.h>

int64_t results_surface_points(const struct results_surface *s)
{
    return s->n_exact + s->columns * s->rows;
}

struct results_point results_surface_point(const struct results_surface *s, int64_t k)
{
    struct results_point p = {.columns = s->columns, .rows = s->rows};
    if (k < s->n_exact) {
        p.label = s->exact[k];
    } else {
        p.i = (k - s->n_exact) % s->columns;
        p.j = (k - s->n_exact) / s->columns;
    }
    return p;
}

void results_point_place(const struct results_point *p, double *x, double *y)
{
    *x = p->columns > 1 ? (double)p->i / (double)(p->columns - 1) : 0;
    *y = p->rows > 1 ? (double)p->j / (double)(p->rows - 1) : 0;
}

void results_point_key(const char *surface_key, const struct results_point *p, char out[HASH_HEX])
{
    char text[6 + 2 * HASH_HEX] = "point ", place[64];
    double x, y;
    results_point_place(p, &x, &y);
    snprintf(place, sizeof place, "/grid %.17g %.17g", x, y); /* labels do not begin with a slash */
    hash_text(surface_key, text + 6);
    hash_text(p->label ? p->label : place, text + 6 + HASH_HEX - 1);
    hash_text(text, out);
}
