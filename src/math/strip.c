#include "math/strip.h"
#include "math/isa.h"
#include "util/num.h"

#define UNROLL _Pragma("GCC unroll 6")

/* --- any CPU --- */

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

#define SET(name)             name##_plain
#define TARGET                __attribute__((unused))
#define VECTOR                four
#define LANES                 4
#define ROWS                  2
#define WIDE                  4
#define ZERO()                ((four){0})
#define LOAD(p)               (*(const four *)(p))
#define STORE(p, x)           (*(four *)(p) = (x))
#define SPREAD(p)             ((four){*(p), *(p), *(p), *(p)})
#define ADD(x, y)             ((x) + (y))
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#include "math/strip_lane.h"

#ifdef KERNEL_SETS
#include <immintrin.h>

/* --- AVX2: 12 of the 16 registers are sums --- */

#define SET(name)             name##_avx2
#define TARGET                __attribute__((target("arch=x86-64-v3")))
#define VECTOR                __m256
#define LANES                 8
#define ROWS                  6
#define WIDE                  2
#define ZERO()                _mm256_setzero_ps()
#define LOAD(p)               _mm256_loadu_ps(p)
#define STORE(p, x)           _mm256_storeu_ps(p, x)
#define SPREAD(p)             _mm256_broadcast_ss(p)
#define ADD(x, y)             _mm256_add_ps(x, y)
#define MULTIPLY_ADD(x, y, z) _mm256_fmadd_ps(x, y, z)
#include "math/strip_lane.h"

/* --- AVX-512: 24 of the 32 registers are sums --- */

#define SET(name)             name##_avx512
#define TARGET                __attribute__((target("arch=x86-64-v4")))
#define VECTOR                __m512
#define LANES                 16
#define ROWS                  6
#define WIDE                  4
#define ZERO()                _mm512_setzero_ps()
#define LOAD(p)               _mm512_loadu_ps(p)
#define STORE(p, x)           _mm512_storeu_ps(p, x)
#define SPREAD(p)             _mm512_set1_ps(*(p))
#define ADD(x, y)             _mm512_add_ps(x, y)
#define MULTIPLY_ADD(x, y, z) _mm512_fmadd_ps(x, y, z)
#include "math/strip_lane.h"
#endif

static void (*const parts[ISA_N])(const struct strip *s, const struct strip_factor *f, int64_t from,
                                  int64_t to) = {
    [ISA_PLAIN] = part_plain,
#ifdef KERNEL_SETS
    [ISA_AVX2] = part_avx2,
    [ISA_AVX512] = part_avx512,
#endif
};

bool strip_fast(void)
{
    return isa_active() == ISA_AVX512;
}

void strip_products(const struct strip *s, int n, const struct strip_factor *f, int64_t depth)
{
    const enum isa isa = isa_active();
    int64_t from = 0;
    do {
        const int64_t to = min64(from + depth, f->k);
        for (int i = 0; i < n; i++) parts[isa](&s[i], f, from, to);
        from = to;
    } while (from < f->k);
}
