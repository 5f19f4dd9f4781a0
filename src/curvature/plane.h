/* plane: planes through points of weight space, and the coordinates of the points. A point of a
 * plane is a weighted sum of its parts, which are checkpoints or directions
 * (docs/math/curvature.md).
 *
 * Everything follows from the Gram matrix of the differences d_i = x_i - x_0 over all parameters,
 * summed in f64. Coordinates (a, b) are lengths along two orthonormal vectors e1, e2. Local. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/err.h"

struct plane {
    int64_t n;       /* number of parts */
    double *origin;  // (n) coefficients of the parts at (0, 0)
    double *step[2]; // (n) change of the coefficients per unit length along e1, e2
    double *at[2];   // (n) coordinates of the parts, projected to the plane
    double share[2]; /* of the variance of the parts along e1, e2; NaN: not a principal plane */
    bool affine;     /* the coefficients sum to one */
};
void plane_free(struct plane *p);

/* gram (n, n) = d_i . d_j over the parameters of c[0], which all n checkpoints must have; row and
 * column 0 are zero. Reads each checkpoint once. Parallel (OpenMP), with the same bits for any
 * number of threads. ERR_FORMAT, ERR_SHAPE: a tensor is missing or differs; ERR_IO, ERR_NOMEM. */
MUST_USE enum status plane_gram(const struct checkpoint *const *c, int64_t n, double *gram,
                                struct err *e);

/* The functions below make a plane, to be freed with plane_free; ERR_NOMEM. */

/* Through x_0, x_1 and x_2, with x_0 at (0, 0): e1 = d_1 / |d_1|, e2 along the component of d_2
 * that is orthogonal to it. gram (3, 3). ERR_NUMERIC: the points lie on a line. */
MUST_USE enum status plane_of_three(const double *gram, struct plane *out, struct err *e);

/* The principal plane of n >= 3 points (the two main principal components), with their mean at (0,
 * 0); e1 and e2 point towards the last point. ERR_NUMERIC: all points lie on a line. */
MUST_USE enum status plane_principal(const double *gram, int64_t n, struct plane *out,
                                     struct err *e);

/* x_0 + a d_1 + b d_2 for two given directions (parts 1 and 2), which need not be orthonormal. */
MUST_USE enum status plane_of_directions(struct plane *out, struct err *e);

/* c (n) = the coefficients of the parts at (a, b). */
void plane_coefficients(const struct plane *p, double a, double b, double *c);
