#include "math/isa.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[ISA_N] = {
    [ISA_PLAIN] = "plain", [ISA_AVX2] = "avx2", [ISA_AVX512] = "avx512"};
static atomic_int active = -1;

const char *isa_name(enum isa isa)
{
    return names[isa];
}

bool isa_runs(enum isa isa)
{
#ifdef KERNEL_SETS
    if (isa == ISA_AVX512) return __builtin_cpu_supports("x86-64-v4");
    if (isa == ISA_AVX2) return __builtin_cpu_supports("x86-64-v3");
#endif
    return isa == ISA_PLAIN;
}

static enum isa widest(void)
{
    enum isa isa = ISA_AVX512;
    while (!isa_runs(isa)) isa--;
    return isa;
}

enum isa isa_active(void)
{
    int isa = atomic_load_explicit(&active, memory_order_relaxed);
    if (isa >= 0) return (enum isa)isa;
    if (isa_setup(NULL) != OK) isa_use(widest()); /* who starts the program says that it is wrong */
    return isa_active();
}

void isa_use(enum isa isa)
{
    atomic_store_explicit(&active, (int)isa, memory_order_relaxed);
}

enum status isa_setup(struct err *e)
{
    const char *name = getenv("QTRAJ_KERNELS");
    int isa = 0;
    if (!name || !*name) name = names[widest()];
    while (isa < ISA_N && strcmp(name, names[isa]) != 0) isa++;
    NEED(isa < ISA_N, ERR_USAGE, "QTRAJ_KERNELS=%s: expected plain, avx2 or avx512", name);
    NEED(isa_runs((enum isa)isa), ERR_USAGE,
         "QTRAJ_KERNELS=%s: this CPU or build does not have it; the widest here is %s", name,
         names[widest()]);
    isa_use((enum isa)isa);
    return OK;
}
