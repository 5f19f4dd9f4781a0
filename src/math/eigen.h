/* eigen: all eigenvalues and eigenvectors of small symmetric matrices, and solutions of small
 * systems, by LAPACK, in f64. Serial: the same bits for any number of threads. The caller owns
 * every array. */
#pragma once
#include "util/err.h"

/* Eigenproblem of the symmetric a (n, n), row-major, of which only the upper triangle is read. On
 * exit w (n) holds the eigenvalues in ascending order and row j of a the unit eigenvector of w[j].
 * ERR_NUMERIC: an entry is not finite, or no convergence; ERR_SHAPE: n too large; ERR_NOMEM. */
MUST_USE enum status symmetric_eigen(int64_t n, double *a, double *w, struct err *e);

/* The same for the symmetric tridiagonal matrix with diagonal d (n) and off-diagonal b (n - 1). On
 * exit d holds the eigenvalues in ascending order, b is garbage, and row j of z (n, n) is the unit
 * eigenvector of d[j]; z NULL: eigenvalues only. Errors as above. */
MUST_USE enum status tridiagonal_eigen(int64_t n, double *d, double *b, double *z, struct err *e);

/* x (n, n) = a⁻¹ x, both row-major; a (n, n) is overwritten. ERR_NUMERIC: a is singular or not
 * finite; ERR_SHAPE, ERR_NOMEM. */
MUST_USE enum status linear_solve(int64_t n, double *a, double *x, struct err *e);
