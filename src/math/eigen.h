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

/* left (rank, rows) and right (rank, cols): of all sums of `rank` products left_kᵀ right_k the one
 * next to a (rows, cols), by squares (Eckart and Young). Each row of right has length 1, or is 0.
 * rank: at most the smaller side. From the eigenvectors of the smaller of a aᵀ and aᵀ a. Errors as
 * symmetric_eigen's. */
MUST_USE enum status low_rank(int64_t rows, int64_t cols, const double *a, int64_t rank,
                              double *left, double *right, struct err *e);

/* x (n, n) = a⁻¹ x, both row-major; a (n, n) is overwritten. ERR_NUMERIC: a is singular or not
 * finite; ERR_SHAPE, ERR_NOMEM. */
MUST_USE enum status linear_solve(int64_t n, double *a, double *x, struct err *e);
