/* mat_products: the products of matmul.h in f32 or in bf16 terms (products.h), for factors that are
 * multiplied once, as those of derivatives are: both are split when they are needed, a block at a
 * time. In the f64 build everything is computed in f64. */
#pragma once
#include "math/matmul.h"
#include "math/panels.h"
#include "math/products.h"
#include "math/real.h"

/* Buffers of one caller. */
struct mat_work {
    /* Kinds of the products with weights, which may be exact in one term, and of those of two other
     * matrices (products_of_sums). */
    enum products of_weights, of_sums;
    int64_t threads;
    float *right;         // a block of the right factor, whose rows are columns of the result
    uint16_t *left;       // terms of a block of the left factor
    float *tile;          // (threads, a tile of the result)
    struct panels panels; /* of products in f32 */
    struct err failure;   /* of the first product that failed; those after it did nothing */
};
/* Elements of the largest left and right factor, a and b below, of any product. */
struct mat_largest {
    int64_t left, right;
};
/* kind: not AUTO; the f64 build takes f32. Free with mat_work_close whatever is returned.
 * ERR_NOMEM. */
MUST_USE enum status mat_work_open(struct mat_work *w, enum products kind,
                                   struct mat_largest largest, int64_t threads, struct err *e);
void mat_work_close(struct mat_work *w);
/* Bytes that mat_work_open and the products allocate. */
int64_t mat_work_bytes(enum products kind, struct mat_largest largest, int64_t threads);
/* Returns the failure of a product since the last call, and forgets it. ERR_NOMEM. */
MUST_USE enum status mat_work_check(struct mat_work *w, struct err *e);

/* Products in the forms of matmul.h. Parallel (OpenMP), with the same bits for any number of
 * threads. */
/* y = or, with add, += a times weights b. */
void mat_with_weights(struct mat_work *w, enum mat_form form, real *y, int64_t ldy, const real *a,
                      int64_t lda, const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k,
                      bool add);
/* y += a times b, neither of which are weights. */
void mat_add_product(struct mat_work *w, enum mat_form form, real *y, int64_t ldy, const real *a,
                     int64_t lda, const real *b, int64_t ldb, int64_t m, int64_t n, int64_t k);
