/* isa: the instruction set that the vector kernels use. The compiler vectorises each row kernel
 * once per set (math/kernel.h), and all sets give the same bits. Products do not: "plain" does
 * not fuse multiplication and addition, and GPTQ's wide matrices and derivatives have products of
 * their own with AVX-512 (math/strip.h, math/panels.h). So a fingerprint names the set. */
#pragma once
#include "util/err.h"

/* More than one set is compiled in. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KERNEL_SETS
#endif

enum isa { ISA_PLAIN, ISA_AVX2, ISA_AVX512, ISA_N };

/* "plain" (what every CPU of the architecture has), "avx2" (x86-64-v3), "avx512" (x86-64-v4). */
const char *isa_name(enum isa isa);
/* Whether the set is compiled in and this CPU has it. */
bool isa_runs(enum isa isa);
/* The set in use: the one that isa_use chose or QTRAJ_KERNELS names, else the widest that runs.
 * Thread-safe. */
enum isa isa_active(void);
/* Chooses the set that the environment variable QTRAJ_KERNELS names; unset or empty: the widest.
 * Call before any kernel runs. ERR_USAGE: no such set, or it does not run here. */
MUST_USE enum status isa_setup(struct err *e);
/* Chooses a set that runs; for tests and benches. */
void isa_use(enum isa isa);
