/* vector: what the estimates do to long vectors. Vectors are f32 and may have billions of numbers;
 * sums are f64, over fixed chunks added in their order, so that the numbers do not depend on the
 * threads. Parallel inside. A product of two f32 is exact in f64.
 *
 * What takes a space works on the ranks' parts of whole vectors and is collective where there are
 * several; what takes n works on the n numbers that are here. */
#pragma once
#include "curvature/space.h"
#include "util/err.h"
#include <stdint.h>

double vector_dot(const struct space *s, const float *x, const float *y);
double vector_norm(const struct space *s, const float *x);
/* ‖y - a x‖ without storing it. */
double vector_distance(const struct space *s, const float *y, double a, const float *x);
/* c (k) = x . y over each of k parts, part t being [offset[t], offset[t + 1]) of a whole vector. */
void vector_part_dots(const struct space *s, int64_t k, const int64_t *offset, const float *x,
                      const float *y, double *c);

/* y = a x; y may be x. */
void vector_scale(int64_t n, double a, const float *x, float *y);
/* y += a x */
void vector_add(int64_t n, double a, const float *x, float *y);

/* c (k) = v[i] . w */
void vector_dots(const struct space *s, int64_t k, float *const *v, const float *w, double *c);
/* w -= sum of c[i] v[i], rounded to f32 once an element. */
void vector_subtract(int64_t n, int64_t k, float *const *v, const double *c, float *w);
/* w loses what it has of the orthonormal v[0..k), by classical Gram-Schmidt done twice (which is
 * enough: Giraud, Langou, Rozloznik 2005); c (k) is scratch. Returns the norm of what is left. */
double vector_orthogonalise(const struct space *s, int64_t k, float *const *v, float *w, double *c);

/* out = sum of s[j] v[j] over j < m; out is none of v. */
void vector_sum(int64_t n, int64_t m, float *const *v, const double *s, float *out);
/* v[i] = sum over j < m of s[i * pitch + j] v[j], for i < k <= m, in place. ERR_NOMEM. */
MUST_USE enum status vector_combine(int64_t n, int64_t m, int64_t k, float *const *v,
                                    const double *s, int64_t pitch, struct err *e);

/* x = random numbers of a stream (rng.h), by their places in the whole vector: the same vector
 * however it is cut. Not collective. */
void vector_signs(uint64_t stream, const struct space *s, float *x);
void vector_normals(uint64_t stream, const struct space *s, float *x);

/* v = a unit vector to start an iteration from: normal numbers of the stream, or, with `start`
 * (warm), start's direction plus a tenth of a random one, so that no eigenvector that start lacks
 * stays hidden. ERR_NUMERIC: start is zero or not finite. */
MUST_USE enum status vector_start(uint64_t stream, const struct space *s, const float *start,
                                  float *v, struct err *e);

/* k vectors of n numbers. On failure *v is NULL and nothing is kept; `what` stands in the message.
 * ERR_NOMEM. */
MUST_USE enum status vectors_alloc(int64_t k, int64_t n, const char *what, float ***v,
                                   struct err *e);
void vectors_free(float **v, int64_t k);
