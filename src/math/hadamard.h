/* hadamard: Hadamard matrices, H Hᵀ = n I with entries ±1, and products with them.
 *
 * An order is n = k 2^m, and H_n = H_k ⊗ S with Sylvester's matrix S of order 2^m, [[S, S], [S,
 * -S]] step by step. k is 1 for a power of two. Otherwise it is the smallest multiple of four with
 * n's odd part for which a construction is known: those of Paley (1933), or Williamson (1944) for
 * 172. They cover the input channels of all families (tests/unit/quant/test_mixing.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* The largest k. */
enum { HADAMARD_FACTOR_MAX = 1024 };

/* k of the order n; 0 if no matrix of this order is known here. */
int64_t hadamard_factor(int64_t n);

/* h (k, k) = H_k, row by row, for a k that hadamard_factor returned. */
void hadamard_make(int8_t *h, int64_t k);

/* x (n) <- x H_n, or x H_nᵀ if transposed; h is H_k, scratch (n). Local, in one thread; sums are in
 * a fixed order. */
void hadamard_row(double *x, int64_t n, const int8_t *h, int64_t k, bool transposed,
                  double *scratch);

/* Its FLOPs. */
double hadamard_flop(int64_t n);
