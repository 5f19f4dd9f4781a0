/* kernel: how a vector kernel is written. Included by the files that hold kernels, no header.
 *
 *     KERNEL(float, kern_sum, (const float *x, int64_t n), (x, n))
 *     {
 *         ... a plain loop ...
 *     }
 *
 * defines kern_sum, whose body is compiled once for each instruction set; tensor/isa.h chooses when
 * it is called. Numbers are the same for all: the build allows no contraction to fused
 * multiply-adds, and a sum whose order the compiler could change is written as partial sums. */
#pragma once
#include "tensor/isa.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KERNEL_SETS
#endif

/* Lets the compiler compute both sides of a choice, which may raise floating-point flags that
 * nobody reads; values stay what they are. Without it loops with a choice stay scalar below
 * AVX-512. */
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
