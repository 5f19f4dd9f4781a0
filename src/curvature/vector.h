/* vector: operations on long vectors for the curvature estimates. Vectors are f32 and may have
 * billions of numbers. Sums are f64, over fixed chunks that are added in their order, so that the
 * bits do not depend on the number of threads (a product of two f32 is exact in f64). Parallel
 * inside (OpenMP).
 *
 * Functions that take a space work on the ranks' parts of distributed vectors, and are collective
 * where there are several ranks unless marked local. Functions that take n are local and work on n
 * numbers. The caller owns all arrays. */
#pragma once
#include "curvature/space.h"
#include "util/err.h"

/* x . y, the 2-norm of x, and the 2-norm of y - a x. */
double vector_dot(const struct space *s, const float *x, const float *y);
double vector_norm(const struct space *s, const float *x);
double vector_distance(const struct space *s, const float *y, double a, const float *x);
/* c (k) = x . y over each of k parts; part t is [offset[t], offset[t + 1]) of the whole vector. */
void vector_part_dots(const struct space *s, int64_t k, const int64_t *offset, const float *x,
                      const float *y, double *c);

/* y = a x; y may be x. */
void vector_scale(int64_t n, double a, const float *x, float *y);
/* y += a x. */
void vector_add(int64_t n, double a, const float *x, float *y);

/* Subtracts from w its projection on the orthonormal v[0..k): classical Gram-Schmidt, twice (twice
 * is enough: Giraud, Langou, Rozloznik 2005). Returns the remainder's norm. c (k): scratch. */
double vector_orthogonalise(const struct space *s, int64_t k, float *const *v, float *w, double *c);

/* out = sum of c[j] v[j] over j < m; out is none of v. */
void vector_sum(int64_t n, int64_t m, float *const *v, const double *c, float *out);
/* v[i] = sum of s[i * pitch + j] v[j] over j < m, for i < k <= m, in place. ERR_NOMEM. */
MUST_USE enum status vector_combine(int64_t n, int64_t m, int64_t k, float *const *v,
                                    const double *s, int64_t pitch, struct err *e);

/* Local: x = random signs +1 and -1, or normal numbers, of a stream (util/rng.h), by their places
 * in the whole vector: the same vector however it is distributed. */
void vector_signs(uint64_t stream, const struct space *s, float *x);
void vector_normals(uint64_t stream, const struct space *s, float *x);

/* v = a unit vector to start an iteration from: normal numbers of the stream or, given `start`
 * (warm start), its direction plus a tenth of a random one, so that no eigenvector orthogonal to
 * start is missed. ERR_NUMERIC: start is zero or not finite. */
MUST_USE enum status vector_start(uint64_t stream, const struct space *s, const float *start,
                                  float *v, struct err *e);

/* Local: allocates k vectors of n numbers of `size` bytes, uninitialised, and an array of pointers
 * to them, which is stored in *v (a float ** or the like; NULL on failure). what: for the message.
 * Free with vectors_free, which takes the array. ERR_NOMEM. */
MUST_USE enum status vectors_alloc(void *v, int64_t k, int64_t n, size_t size, const char *what,
                                   struct err *e);
void vectors_free(void *v, int64_t k);
