/* mix: random orthogonal matrices M that spread large numbers over all columns: a Hadamard matrix
 * (math/hadamard.h) over its root, and random signs before or after it; or any orthogonal matrix.
 */
#pragma once
#include "util/err.h"

/* On which side of the Hadamard matrix the signs are; none: all are +1. */
enum mix_signs { MIX_BEFORE, MIX_AFTER, MIX_NO_SIGNS };

struct mix {
    int64_t n, part;  /* order of M; and of the equal Hadamard matrices on its diagonal; 0: M = I */
    int64_t factor;   /* of part (math/hadamard.h) */
    int signs;        /* enum mix_signs */
    int8_t *hadamard; // (factor, factor)
    double *sign;     // (n) ±1 / √part
    double *dense;    // (n, n) M itself; NULL: as above
};

/* The fields of M of order n that are numbers. */
struct mix mix_shape(int64_t n);
/* M of order n from the random numbers of (seed, stream). Where no Hadamard matrix of this order is
 * known, equal parts of a power of two are mixed. Free with mix_free, also after a failure.
 * ERR_NOMEM. */
MUST_USE enum status mix_make(struct mix *m, int64_t n, int signs, uint64_t seed, uint64_t stream,
                              struct err *e);
/* A random orthogonal M, whose rows are those of a normally distributed matrix, made orthogonal by
 * Gram and Schmidt: uniformly distributed. Takes n^3 operations, mix_row n^2. Parallel. */
MUST_USE enum status mix_make_dense(struct mix *m, int64_t n, uint64_t seed, uint64_t stream,
                                    struct err *e);
/* Gives M as a matrix, whatever it was made of. ERR_NOMEM. */
MUST_USE enum status mix_to_dense(struct mix *m, struct err *e);
void mix_free(struct mix *m);
/* x (n) <- x M or, back, x Mᵀ; scratch (n). In one thread. */
void mix_row(const struct mix *m, double *x, bool back, double *scratch);
/* The same for rows [first, first + rows) of `from` (rows, n) times `by`, rounded to f32 into `to`,
 * which may be `from`; scratch: so many numbers, at least 2 n, of each thread. Returns the first
 * row with a number that is not finite, -1: none. Parallel. */
int64_t mix_rows(const struct mix *m, float *to, const float *from, int64_t first, int64_t rows,
                 double by, bool back, double *scratch, int64_t numbers);
/* h <- Mᵀ h M for its first n rows and columns, of which only the upper triangle is read, with the
 * given row pitch; what rounding makes negative on the diagonal becomes 0. scratch: n numbers for
 * each thread. Parallel. */
void mix_gram(const struct mix *m, double *h, int64_t pitch, double *scratch);
