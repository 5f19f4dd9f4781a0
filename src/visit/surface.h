/* surface: points of loss surfaces. A point is a visit without variants whose checkpoint is a
 * weighted sum of others, combined while it loads; its record has the type "point". What its plane
 * needs (the quantized weights, the Gram matrix) is made once in each process and kept between
 * visits. */
#pragma once
#include "visit/visit.h"

struct checkpoint;

struct surface_task {
    char *surface; /* label */
    int plane;     /* enum surface_plane */
    int64_t n_paths;
    char **paths;             // (n_paths) folders: the origin, then what else spans the plane
    struct variant quantized; /* plane through quantized weights: of which method and width */
    double margin, radius;    /* as in struct surface_entry */
    int64_t seed;             /* of random directions */

    char *point;   /* label of an exact point; NULL: of the grid */
    int64_t exact; /* an exact point: which part */
    double x, y;   /* a point of the grid: 0 to 1 along each side */
};
void surface_task_free(struct surface_task *t);
/* A new reference, NULL when out of memory; and back (*out owned by the caller). ERR_FORMAT. */
json_t *surface_task_to_json(const struct surface_task *t);
MUST_USE enum status surface_task_from_json(const json_t *json, struct surface_task **out,
                                            struct err *e);

/* Where the point lies. */
struct surface_place {
    double a, b;        /* lengths along e1, e2; random: numbers of directions */
    double alpha, beta; /* coefficients of the previous and the quantized weights; else NaN */
    double share[2];    /* of the checkpoints' variance along e1, e2; else NaN */
};

/* Frees what is kept of surfaces between visits. */
void surface_forget(struct visit_cache *cache);

/* The checkpoint of v->surface; borrowed parts live in the cache until the next call. Collective on
 * group. ERR_STOPPED; others: the checkpoints, the quantizer, or a plane that is none. */
MUST_USE enum status surface_open(const struct visit *v, MPI_Comm group, struct visit_cache *cache,
                                  const struct visit_hooks *hooks, struct checkpoint **out,
                                  struct surface_place *place, struct err *e);
