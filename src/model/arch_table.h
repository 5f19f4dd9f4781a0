/* arch_table: every family. A new one is its arch_*.c, a line here and a line in the table. */
#pragma once
#include "model/arch.h"

extern const struct arch arch_llama, arch_olmo, arch_olmo2, arch_smollm3, arch_apertus;
extern const struct arch arch_gpt_neox, arch_qwen2, arch_qwen3, arch_opensci;

/* The names of all families, "llama, olmo, ...", into text. */
void arch_list(char *text, size_t size);
