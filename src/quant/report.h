/* report: checks the weights before, and reports errors after, quantizing a linear. */
#pragma once
#include "quant/quant.h"

/* ERR_NUMERIC names row and column of a weight in this rank's rows that is NaN or infinite. Local.
 */
MUST_USE enum status job_check(const struct quant_job *job, struct err *e);

/* ‖w − q‖² of n numbers, summed in their order. */
double row_distance(const float *w, const float *q, int64_t n);

/* Fills squared_distance and bits_per_weight and sets the rest to NaN. ERR_NUMERIC when q is not
 * finite. Parallel; collective on the team. */
MUST_USE enum status job_report(const struct quant_job *job, double bits_per_weight,
                                struct quant_report *report, struct err *e);
