/* onednn: products of bf16 matrices, summed in f32, and of f32 matrices by oneDNN
 * (https://oneapi-src.github.io/oneDNN). Builds without oneDNN have the same functions, which find
 * no units. One thread each. */
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
/* What this CPU has and oneDNN may use (its variable ONEDNN_MAX_CPU_ISA). */
struct onednn {
    enum onednn_units units;
    bool f32; /* it multiplies f32 matrices: it may use AVX-512, which makes it fast, and its sums
                 have the order of sums_nt */
    bool integers; /* it multiplies bytes exactly, by instructions that never saturate */
    char name[64]; /* version and kernel, "oneDNN 2.6.3 brg:avx512_core_bf16"; "": ONEDNN_NONE */
    char f32_name[64];      /* "oneDNN 2.6.3 brg:avx512_core" where f32, else "" */
    char integers_name[64]; /* the same where integers */
    /* Why it is ONEDNN_NONE, and what to do where the CPU has instructions for bf16 nevertheless;
     * NULL otherwise. Static strings. */
    const char *why_not, *remedy;
};
/* Static; thread-safe. */
const struct onednn *onednn_found(void);

/* What the factors of a product are. */
enum onednn_type {
    ONEDNN_BF16, /* needs units */
    ONEDNN_F32,  /* needs f32 */
    ONEDNN_U8S8  /* needs integers: a of unsigned bytes, b of signed ones, y of int32_t */
};
/* The layout of a matrix (n, k) that products want; it depends on its type and size, the CPU and
 * the version of oneDNN. */
struct onednn_layout;
/* The caller frees *out. ERR_NOMEM: also for any other failure inside oneDNN. */
MUST_USE enum status onednn_layout_make(enum onednn_type type, int64_t n, int64_t k,
                                        struct onednn_layout **out, struct err *e);
/* Bytes of a matrix in it. */
int64_t onednn_layout_bytes(const struct onednn_layout *l);
/* A number that different layouts do not share, also those of other processes. */
uint64_t onednn_layout_digest(const struct onednn_layout *l);
/* data = b (n, k) in the layout; data begins at a multiple of 64 bytes. ERR_NOMEM as above. */
MUST_USE enum status onednn_pack(const struct onednn_layout *l, const void *b, void *data,
                                 struct err *e);
/* y (m, n) = a (m, k) bᵀ, or is added to; a: of the layout's type; data: b in the layout. Rows of a
 * and of y follow each other without gaps: for others oneDNN has no fast kernel. y: f32 but for
 * bytes. False: it is out of memory, or oneDNN has another kernel for this shape than `name` says
 * (of bytes any will do, as all are exact). */
MUST_USE bool onednn_multiply(void *y, const void *a, const struct onednn_layout *l,
                              const void *data, int64_t m, bool add);

/* y (m, n) of row pitch ldy = a (m, k) times b (k, n), or, turned, b (n, k)ᵀ; or is added to. Rows
 * of a and of b follow each other without gaps. Needs f32. False: as onednn_multiply,
 * and y is as it was. */
MUST_USE bool onednn_product(float *y, int64_t ldy, const float *a, const float *b, bool turned,
                             int64_t m, int64_t n, int64_t k, bool add);
