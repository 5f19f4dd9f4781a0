/* absmax: the 4-bit formats of bitsandbytes (Dettmers et al. 2023; csrc/kernels.cu, functional.py).
 *
 * Blocks are runs of consecutive weights of the flattened matrix, so that they cross rows where the
 * block size does not divide the row, as in the package; every 64 rows a block begins anew. Each
 * has its largest magnitude in f32, and codes of a table for weights divided by it. With double
 * quantization the largest magnitudes are stored in 8 bits: minus their mean, in blocks of 256, as
 * codes of the package's "dynamic" map. The package's CPU code takes the code of the nearest of
 * 65,536 evenly spaced numbers, so that one magnitude in 500 (133 of 65,536 for normal weights)
 * gets the code beside the nearest, and so does this; its CUDA kernel takes the nearest. The mean
 * is summed in f64; torch's f32 sum differs in the last place for two matrices of five, which moved
 * 2 of 104,000 codes. */
#pragma once
#include "quant/codes.h"
#include "quant/quant.h"

/* run, memory and FLOPs of a method with such a table. Options: absmax_block, double_quant. */
MUST_USE enum status absmax_run(const struct codes *table, const struct quant_job *job,
                                struct quant_report *report, struct err *e);
void absmax_memory(const struct quant_options *o, const struct quant_extent *x,
                   struct quant_memory *out);
enum { ABSMAX_FLOP = 75 };

enum { DYNAMIC_N = 256 };
/* The values of the package's signed 8-bit dynamic map, rising (functional.create_dynamic_map). */
void absmax_dynamic(float map[DYNAMIC_N]);
