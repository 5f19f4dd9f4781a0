/* surface: points of loss surfaces. A point is a visit with one part, which evaluates a weighted
 * sum of checkpoints that is computed while it loads; its record has the type "point". Each process
 * computes a plane's data (quantized weights, Gram matrix) once and caches it. */
#pragma once
#include "engine/part.h"
#include "plan/plan.h"

/* The plane of an entry of `surfaces`. */
enum surface_plane {
    SURFACE_QUANTIZATION, /* through a checkpoint, the previous one, and the quantized one */
    SURFACE_TRAJECTORY,   /* the principal plane of a trajectory's checkpoints */
    SURFACE_RANDOM        /* two filter-normalised random directions from a checkpoint */
};

/* After sweep_read, members that concern the plane are never NULL or 0. */
struct surface_entry {
    char *name;
    int plane; /* enum surface_plane */
    char *model;
    char *checkpoint;  /* quantization, random */
    char *previous;    /* quantization */
    char *checkpoints; /* trajectory: shell pattern; NULL: all */
    bool branches;     /* trajectory: with those of models that branch from it */
    char *quantizer;   /* quantization: a label of `methods` */
    int64_t bits;      /* likewise */
    int64_t columns, rows;
    double margin;   /* quantization, trajectory: of the points' box, on every side */
    double radius;   /* random */
    char *dataset;   /* a label of `evaluation` */
    int64_t samples; /* maximum number of sequences; 0: all */
};

/* The section `surfaces`. */
struct surfaces_section {
    int64_t n;
    struct surface_entry *surfaces; // (n)
};
extern const struct option_table surface_table;
/* Whether the plane of a SURFACE_TRAJECTORY goes through checkpoints of the model, and which. */
bool surface_spans(const struct surface_entry *s, const struct model_entry *m);
bool surface_takes(const struct surface_entry *s, const struct trajectory_row *row);
extern const char *const surface_planes[]; /* in the order of their enum; NULL after the last */

struct surface_setup {
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
MUST_USE enum status surfaces_check(const struct sweep *s, const struct option_scope *scope,
                                    struct err *e);
MUST_USE enum status surfaces_plan(struct plan *p, struct err *e);
MUST_USE enum status surfaces_visits(const struct plan *p, const struct results_view *view,
                                     const struct plan_choice *choice, int64_t first,
                                     struct plan_visits *out, struct err *e);
void surfaces_free(void *own);
