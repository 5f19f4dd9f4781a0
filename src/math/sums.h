/* sums: products of f32 matrices whose numbers are the same sums whatever is computed beside them.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* y (m, n) of row pitch ldy = x (m, k) times w (n, k), transposed. In every number up to 512 terms,
 * or, of more than 1024, up to 1024 are multiplied and added one after the other, in fused steps
 * but with the set "plain" (math/isa.h), and such sums are added in order. On the calling thread.
 * False: it is out of memory. */
bool sums_nt(float *y, int64_t ldy, const float *x, const float *w, int64_t m, int64_t n,
             int64_t k);
