/* table: the methods. A new one is a file, a line here and a line in quant_table.c. */
#pragma once
#include "quant/quant.h"

extern const struct quant_method quant_rtn;
extern const struct quant_method quant_gptq;
