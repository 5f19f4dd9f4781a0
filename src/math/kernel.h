/* kernel: how a vector kernel is written. Only source files with kernels include it, no header.
 *
 *     KERNEL(float, kern_sum, (const float *x, int64_t n), (x, n))
 *     {
 *         ... a plain loop ...
 *     }
 *
 * defines kern_sum, whose body is compiled once per instruction set; math/isa.h chooses one at
 * each call. All sets give the same bits: the build forbids fused multiply-adds, and sums are
 * written as explicit partial sums wherever the compiler could change their order. KERNEL_STATIC:
 * the same for a static function. KERN_LANE: marks helpers, which are inlined into every version.
 */
#pragma once
#include "math/isa.h"

/* Allows the compiler to compute both sides of a ?:, which may raise floating-point flags that
 * nobody reads but changes no value. Without it, loops with a ?: are not vectorised below AVX-512.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

#define KERN_LANE static inline __attribute__((always_inline))

#define KERNEL(type, name, parameters, arguments) KERNEL_(, type, name, parameters, arguments)
#define KERNEL_STATIC(type, name, parameters, arguments)                                           \
    KERNEL_(static, type, name, parameters, arguments)

#ifdef KERNEL_SETS
#define KERNEL_SET_(set, type, name, parameters, arguments)                                        \
    static type name##_##set parameters                                                            \
    {                                                                                              \
        return name##_body arguments;                                                              \
    }
#define KERNEL_(link, type, name, parameters, arguments)                                           \
    KERN_LANE type name##_body parameters;                                                         \
    __attribute__((target("arch=x86-64-v4")))                                                      \
    KERNEL_SET_(avx512, type, name, parameters, arguments)                                         \
        __attribute__((target("arch=x86-64-v3")))                                                  \
        KERNEL_SET_(avx2, type, name, parameters, arguments)                                       \
            KERNEL_SET_(plain, type, name, parameters, arguments) link type name parameters        \
    {                                                                                              \
        enum isa isa = isa_active();                                                               \
        if (isa == ISA_AVX512) return name##_avx512 arguments;                                     \
        if (isa == ISA_AVX2) return name##_avx2 arguments;                                         \
        return name##_plain arguments;                                                             \
    }                                                                                              \
    KERN_LANE type name##_body parameters
#else
#define KERNEL_(link, type, name, parameters, arguments) link type name parameters
#endif
