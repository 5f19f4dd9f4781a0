/* panels: products of f32 matrices with AVX-512, in f32 or of numbers rounded to bf16 that are
 * summed in f32, for factors that are multiplied once. The right one is copied into panels, which
 * the innermost loop reads one after the other, so that rows may begin any distance apart at the
 * same speed; one that is stored turned, and whose rows begin near each other, is read where it is.
 */
#pragma once
#include "util/err.h"
#include <stdbool.h>

/* Whether AVX-512 is in use (math/isa.h). */
bool panels_run(void);
/* Whether the CPU also has AVX-512's instruction for bf16. */
bool panels_run_bf16(void);

/* Buffers of one caller. */
struct panels {
    int64_t threads;
    float *right; // panels of the right factor
};
/* Free with panels_close whatever is returned. ERR_NOMEM. */
MUST_USE enum status panels_open(struct panels *p, int64_t threads, struct err *e);
void panels_close(struct panels *p);
int64_t panels_bytes(void);

/* A factor as rows of k numbers: of a matrix (rows, k), or turned: of one (k, rows). Rows of the
 * matrix begin ld numbers apart. */
struct panels_factor {
    const float *x;
    int64_t ld;
    bool turned;
};
/* The factor from that row and that number of each row on. */
static inline struct panels_factor panels_part(const struct panels_factor *f, int64_t row,
                                               int64_t k)
{
    struct panels_factor part = *f;
    part.x += f->turned ? k * f->ld + row : row * f->ld + k;
    return part;
}
/* A panel: to (k, width) = n <= width rows of the factor, as columns; zeros beyond n. width: a
 * multiple of 8. */
void panels_copy(float *to, int64_t width, const struct panels_factor *f, int64_t n, int64_t k);

/* Whether the product is large enough for the copies to pay. By the shape alone. */
bool panels_pay(int64_t m, int64_t n, int64_t k);
/* y (m, n), rows ldy apart, = or, with add, += a (m rows) times b (n rows) transposed. Parallel
 * (OpenMP): each number is the same sum in the same order for any number of threads. bf16: of
 * factors rounded to bf16, k being even; subnormal ones count as zero. */
void panels_multiply(struct panels *p, bool bf16, float *y, int64_t ldy,
                     const struct panels_factor *a, const struct panels_factor *b, int64_t m,
                     int64_t n, int64_t k, bool add);
