/* blocks: what the formats with a scale for each block of weights share. */
#pragma once
#include "quant/quant.h"

/* The largest magnitude of n weights; 0 for none. */
float blocks_largest(const float *w, int64_t n);

/* Cuts this rank's rows of job->w into runs of `block` columns, of which the last of a row may be
 * shorter, and calls round for each: q (n) <- w (n). whole: passed on. Parallel; local. */
void blocks_round(const struct quant_job *job, int64_t block,
                  void (*round)(const float *w, float *q, int64_t n, float whole), float whole);
