/* isa: which instruction set the vector kernels run with.
 *
 * A kernel is a plain loop that the compiler vectorises, once for each of the sets below
 * (tensor/kernel.h). All give the same bits, so that the choice is no part of a result. */
#pragma once
#include "util/err.h"
#include <stdbool.h>

enum isa { ISA_PLAIN, ISA_AVX2, ISA_AVX512, ISA_N };

/* "plain" (what every CPU of the architecture has), "avx2" (x86-64-v3), "avx512" (x86-64-v4). */
const char *isa_name(enum isa isa);
/* Compiled in, and this CPU has it. */
bool isa_runs(enum isa isa);
/* The set in use: the widest that runs, unless one was asked for. Thread-safe. */
enum isa isa_active(void);
/* Makes the environment variable QTRAJ_KERNELS choose; unset or empty: the widest. Call before the
 * threads start. ERR_USAGE: no such set, or this CPU has it not. */
MUST_USE enum status isa_setup(struct err *e);
/* For tests and benches; the set must run. */
void isa_use(enum isa isa);
