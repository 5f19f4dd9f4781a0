/* report: what every method checks before and says after its work. */
#pragma once
#include "quant/quant.h"

/* ERR_NUMERIC with the row and column of a weight that is NaN or infinite, of this rank's rows. Not
 * collective. */
MUST_USE enum status job_check(const struct quant_job *job, struct err *e);

/* Fills squared_distance and bits_per_weight and sets the rest to NaN. ERR_NUMERIC when q is not
 * finite. Parallel; collective on the team. */
MUST_USE enum status job_report(const struct quant_job *job, double bits_per_weight,
                                struct quant_report *report, struct err *e);
