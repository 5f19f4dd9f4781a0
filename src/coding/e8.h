/* e8: codebooks of eight numbers from the lattice E8, those of QuIP# (Tseng et al. 2024, arXiv
 * 2402.04396, section 4; tables of its authors' code, lib/codebook/latticee8_padded12*.py).
 *
 * E8P has 2^16 vectors: 256 vectors of magnitudes (all of half-odd numbers with a squared norm of
 * at most 10, and 29 of norm 12), seven free signs (the number of minus signs is even if the sum of
 * magnitudes is), and 1/4 added to all or subtracted from all. E8B has 2^8: the vectors of E8 with
 * a squared norm of at most 2, and 15 of norm 4. */
#pragma once
#include <stdint.h>

enum { E8_DIM = 8, E8_TABLE = 256, E8_ROWS = 16 };

struct e8 {
    float size[E8_TABLE][E8_DIM], size_norm[E8_TABLE];   /* magnitudes of E8P, squared norms */
    int32_t odd[E8_TABLE];                               /* their sum is odd */
    float small[E8_TABLE][E8_DIM], small_norm[E8_TABLE]; /* E8B */
};

/* Fills the tables. */
void e8_fill(struct e8 *t);

/* code (E8_ROWS, bits) = those of the nearest vectors to x (E8_ROWS, E8_DIM), two bytes of E8P:
 * the number of the magnitudes; from the highest bit on the signs of the first seven, and whether
 * 1/4 is subtracted. bits 3, 4: then the number of a vector of E8B, or two bytes of E8P, of what is
 * left, times 2.04 or 3.45. */
void e8_nearest(const struct e8 *t, int64_t bits, const float *x, uint8_t *code);
/* q (E8_ROWS, E8_DIM) = what they stand for. */
void e8_values(const struct e8 *t, int64_t bits, const uint8_t *code, float *q);
/* The root mean square of normally distributed numbers that this suits. */
double e8_rms(int64_t bits);
