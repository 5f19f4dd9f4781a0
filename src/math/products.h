/* products: activations times weights, y = x Wᵀ, of forward passes, in f32 or in bf16 numbers that
 * are summed in f32 (docs/math/products.md). The weights are prepared once and then multiplied with
 * the activations of many tokens.
 *
 * In bf16 the activations are split into terms first, and so are weights that are not exact in one:
 * PRODUCTS_BF16X3 keeps all terms and has f32's accuracy, PRODUCTS_BF16X2 keeps terms down to about
 * 2^-17, PRODUCTS_BF16 one term. oneDNN computes them where the build has it and the CPU has
 * instructions for bf16. Elsewhere BLAS multiplies the same terms in f32: as accurate, and as slow
 * as so many f32 products (docs/decisions/0027-products.md).
 *
 * Everything here runs on the calling thread alone, so that callers cut the work and the bits do
 * not depend on the number of threads. */
#pragma once
#include "math/integers.h"
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

enum products {
    PRODUCTS_F32,
    PRODUCTS_BF16X3,
    PRODUCTS_BF16X2,
    PRODUCTS_BF16,
    PRODUCTS_AUTO /* f32's accuracy by the fastest way of this machine: products_resolve */
};
/* "f32", "bf16x3", ..., in the order of the enum; NULL after the last. */
extern const char *const products_words[];
/* The kind of that word; NULL or none of them: PRODUCTS_F32. */
enum products products_of_word(const char *word);

/* Terms of an activation; 0: it stays f32. */
int products_terms(enum products kind);
/* Products of terms that one product takes whose factors both have products_terms terms: 6, 3 or 1;
 * of f32 1. */
int products_pairs(enum products kind);
/* What AUTO is on this CPU in this build: PRODUCTS_BF16X3 where it has matrix units (AMX) for bf16,
 * else PRODUCTS_F32. Other kinds are themselves. */
enum products products_resolve(enum products kind);
/* Whether products of this kind, not AUTO, have f32's accuracy. */
static inline bool products_in_f32(enum products kind)
{
    return kind == PRODUCTS_F32 || kind == PRODUCTS_BF16X3;
}
/* What sums of activations times activations take beside products of this kind, where all factors
 * have as many terms: up to six products of terms. Without matrix units that is slower than f32,
 * which is as accurate: PRODUCTS_F32 then, but for PRODUCTS_BF16. */
enum products products_of_sums(enum products kind);
/* What passes that calibrate quantizers are computed in beside products of this kind, which has at
 * most as many terms: the kind itself, but PRODUCTS_BF16X3 for PRODUCTS_BF16X2. GPTQ turns errors
 * of 2^-17 in its inputs into other codes, which change its error by far more. */
enum products products_of_calibration(enum products kind);
/* Whether weights are prepared for products of this kind here: for bf16 always, for f32 where
 * oneDNN multiplies, which then need not lay them out for every product. */
bool products_prepare(enum products kind);
/* What computes products of this kind here: the version and kernel of oneDNN, or "terms in
 * f32" where nothing is faster, or, of f32, "qtraj avx2". kind: not AUTO. Static string;
 * thread-safe. */
const char *products_unit(enum products kind);
/* Whether bf16 products are computed by instructions for bf16, and, where not, why. Static string.
 */
bool products_native(void);
const char *products_why_not(void);
/* What to do where the CPU has such instructions and they are not used; NULL: it has none, or they
 * are used. Static string. */
const char *products_remedy(void);
/* Logs a warning if products of this kind are asked for and their terms are multiplied in f32. */
void products_warn(enum products kind);

/* Weights of one matrix, prepared for one kind of products and those with fewer terms. */
struct product_weights;
/* *out (the caller frees) = w (rows, cols) prepared, in pieces of `piece` rows, the last one
 * shorter. kind: products_prepare, not AUTO. w is not needed any more. Parallel (OpenMP) over the
 * pieces. ERR_NOMEM. The same in steps, for ranks that share memory, each of which prepares some
 * pieces: product_weights_describe, product_weights_terms_of and product_weights_fill. */
MUST_USE enum status product_weights_make(enum products kind, const float *w, int64_t rows,
                                          int64_t cols, int64_t piece, struct product_weights **out,
                                          struct err *e);
/* *out (the caller frees): what w has, without its numbers. ERR_NOMEM. */
MUST_USE enum status product_weights_describe(enum products kind, int64_t rows, int64_t cols,
                                              int64_t piece, struct product_weights **out,
                                              struct err *e);
/* Pieces number part, part + parts, ... */
struct product_part {
    int part, parts;
};
/* The same of weights on integer grids, borrowed until they are filled: for product_integers alone.
 * integers_run and integers_fit. */
MUST_USE enum status product_weights_integers(const struct integer_grids *g, int64_t rows,
                                              int64_t cols, int64_t piece,
                                              struct product_weights **out, struct err *e);
/* Terms that the pieces of the part take; the matrix takes the largest number of any part.
 * Parallel.
 */
int product_weights_terms_of(const struct product_weights *p, const float *w,
                             struct product_part part);
/* Bytes of storage with so many terms; and a number that is the same in another process if, and
 * only if, that one would lay out the same bytes. */
int64_t product_weights_size(const struct product_weights *p, int terms);
uint64_t product_weights_digest(const struct product_weights *p);
/* Writes the part's pieces to storage (product_weights_size, borrowed, a multiple of 64 bytes),
 * which has all pieces when all parts are there. Parallel. ERR_NOMEM; ERR_NUMERIC: a weight is not
 * on its integer grid. */
MUST_USE enum status product_weights_fill(struct product_weights *p, const float *w, int terms,
                                          void *storage, struct product_part part, struct err *e);
/* The same of all pieces to storage of its own. */
MUST_USE enum status product_weights_fill_own(struct product_weights *p, const float *w, int terms,
                                              struct err *e);
/* NULL: does nothing. */
void product_weights_free(struct product_weights *w);
CLEANUP_BY_VALUE(struct product_weights, product_weights_free);
/* Terms of its weights, 1 to 3. */
int product_weights_terms(const struct product_weights *w);
/* Most bytes that so many prepared weights take; 0 where they are not prepared. */
int64_t product_weights_bytes(enum products kind, int64_t weights);

/* y (m, rows of the piece), row pitch ldy = x times the piece's weights, transposed, in products of
 * that kind, which has at most as many terms as the one that w was prepared for. terms: x (m, cols)
 * split (bf16_split) into products_terms(kind) rows, `stride` elements apart. Ends the process with
 * a message if memory is too small for a few kilobytes. */
void product_nt(enum products kind, float *y, int64_t ldy, const uint16_t *terms, int64_t stride,
                const struct product_weights *w, int64_t piece, int64_t m);
/* The same in f32, of x (m, cols), plus bias (rows of the piece; NULL: none) in every row. w:
 * prepared for f32. The bits are those of product_plain. */
void product_nt_f32(float *y, int64_t ldy, const float *x, const struct product_weights *w,
                    int64_t piece, int64_t m, const float *bias);
/* The same of codes of integers. w: product_weights_integers. */
void product_integers(float *y, int64_t ldy, const struct integer_inputs *x,
                      const struct product_weights *w, int64_t piece, int64_t m);
/* y (m, n) of row pitch ldy = x (m, k) times w (n, k), transposed, in f32. Every number is the same
 * whatever other rows and columns there are: sums_nt (sums.h) or, for large products where it uses
 * AVX-512, oneDNN, with the same bits. Ends the process as product_nt does. */
void product_plain(float *y, int64_t ldy, const float *x, const float *w, int64_t m, int64_t n,
                   int64_t k);
