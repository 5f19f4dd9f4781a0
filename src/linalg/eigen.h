/* eigen: small symmetric eigenproblems by LAPACK, in f64. Serial: the same bits for any number of
 * threads. */
#pragma once
#include "util/err.h"
#include <stdint.h>

/* a (n, n) symmetric, its upper triangle read. On exit w (n) = the eigenvalues, ascending, and row
 * j of a = the unit eigenvector of w[j]. ERR_NUMERIC: an entry that is not finite, or no
 * convergence; ERR_NOMEM. */
MUST_USE enum status symmetric_eigen(int64_t n, double *a, double *w, struct err *e);

/* The same for the tridiagonal matrix with diagonal d (n) and off-diagonal b (n - 1): on exit d =
 * the eigenvalues, b is garbage, row j of z (n, n) = the eigenvector of d[j]; z may be NULL. */
MUST_USE enum status tridiagonal_eigen(int64_t n, double *d, double *b, double *z, struct err *e);
