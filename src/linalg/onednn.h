/* onednn: products of bf16 matrices by oneDNN (https://oneapi-src.github.io/oneDNN), summed in f32.
 * Builds without oneDNN have the same functions, which find no units. One thread each. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

enum onednn_units {
    ONEDNN_NONE, /* no oneDNN, no instructions for bf16, or a oneDNN whose threads are not OpenMP's
                  */
    ONEDNN_AVX512, /* AVX512_BF16 */
    ONEDNN_AMX     /* AMX_BF16 too */
};
/* What this CPU has and oneDNN may use (its variable ONEDNN_MAX_CPU_ISA). Thread-safe. */
enum onednn_units onednn_units(void);
/* "oneDNN 2.6.3 avx512_bf16"; "" for ONEDNN_NONE. Static string; thread-safe. */
const char *onednn_name(void);
/* Why it is ONEDNN_NONE, and what to do where the CPU has instructions for bf16 nevertheless; ""
 * otherwise. Static strings; thread-safe. */
const char *onednn_why_not(void);
const char *onednn_remedy(void);

/* A matrix in the layout that products want. */
struct onednn_matrix;
/* *out (the caller frees) = b (n, k). ERR_NOMEM: also for any other failure inside oneDNN. */
MUST_USE enum status onednn_matrix_make(const uint16_t *b, int64_t n, int64_t k,
                                        struct onednn_matrix **out, struct err *e);
/* NULL: does nothing. */
void onednn_matrix_free(struct onednn_matrix *b);
/* y (m, n) = a (m, k) bᵀ, or is added to. Rows of a and of y follow each other without gaps: for
 * others oneDNN has no fast kernel. False: it is out of memory. */
MUST_USE bool onednn_multiply(float *y, const uint16_t *a, const struct onednn_matrix *b, int64_t m,
                              bool add);
