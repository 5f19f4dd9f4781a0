/* clones: a plain loop compiled once per instruction set, chosen by the loader. The numbers are the
 * same for all: the build allows no fused multiply-adds, and no loop here reorders a sum.
 * Sanitizers run before the loader's choice works, so they get one plain version. */
#pragma once

/* Lets the compiler compute both sides of a choice; nobody reads the floating-point flags. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(QTRAJ_NO_CLONES)
#define QUANT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QUANT_CLONES
#endif
