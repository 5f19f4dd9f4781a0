/* plane: planes through points of weight space, and where the points lie on them. A point of a
 * plane is a weighted sum of its parts (checkpoints, or directions); see docs/math/curvature.md.
 *
 * With differences d_i = x_i - x_0 over all parameters, everything follows from their Gram matrix,
 * summed in f64. Coordinates (a, b) are lengths along two orthonormal vectors e1, e2. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

struct plane {
    int64_t n;       /* parts */
    double *origin;  // (n) coefficients of the parts at (0, 0)
    double *step[2]; // (n) what a length of one along e1, e2 adds to them
    double *at[2];   // (n) where the parts lie; off the plane: where they project to
    double share[2]; /* of the parts' variance along e1, e2; NaN unless principal */
    bool affine;     /* the coefficients sum to one */
};
void plane_free(struct plane *p);

/* gram (n, n) = d_i . d_j over the parameters of c[0], which all n have; its first row and column
 * are zero. Reads each checkpoint once. Parallel inside; the same for any number of threads.
 * ERR_IO, ERR_NOMEM; ERR_FORMAT / ERR_SHAPE: a tensor that one of them lacks. */
MUST_USE enum status plane_gram(const struct checkpoint *const *c, int64_t n, double *gram,
                                struct err *e);

/* Through x_0, x_1 and x_2 with x_0 at (0, 0) and x_1 on e1: e1 = d_1 / |d_1|, e2 along what d_2
 * has beside it. ERR_NUMERIC: the three lie on a line. */
MUST_USE enum status plane_of_three(const double *gram, struct plane *out, struct err *e);

/* The principal plane of n >= 3 points, their mean at (0, 0); e1, e2 point towards the last point.
 * ERR_NUMERIC: all on a line. */
MUST_USE enum status plane_principal(const double *gram, int64_t n, struct plane *out,
                                     struct err *e);

/* x_0 + a d_1 + b d_2 of two given directions (parts 1 and 2), which need not be orthonormal. */
MUST_USE enum status plane_of_directions(struct plane *out, struct err *e);

/* c (n) = coefficients of the parts at (a, b). */
void plane_coefficients(const struct plane *p, double a, double b, double *c);
