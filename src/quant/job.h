/* job: what the runs of methods share: weights are checked before, rows are quantized in parallel,
 * errors are reported after. */
#pragma once
#include "coding/tile.h"
#include "quant/quant.h"

/* ERR_NUMERIC names row and column of a weight in this rank's rows that is NaN or infinite. Local.
 */
MUST_USE enum status job_check(const struct quant_job *job, struct err *e);

/* ERR_NUMERIC: a number of the Gram matrix of inputs is not finite, or its diagonal is negative. */
MUST_USE enum status job_gram_check(const struct quant_input *in, struct err *e);

/* Quantizes a tile of rows or a row of job->w, from `row` on; scratch: of the thread. */
typedef void job_step(const struct quant_job *job, const void *context, int64_t row, void *scratch);
/* job_check, and then the step for each tile of this rank's rows, or each row where step_rows is 1,
 * in parallel with so many bytes of scratch for each thread. Collective on the team. ERR_NOMEM;
 * ERR_NUMERIC as job_check. */
MUST_USE enum status job_rows(const struct quant_job *job, int64_t step_rows, job_step *step,
                              const void *context, int64_t scratch, struct err *e);

/* Fills squared_distance and bits_per_weight and sets the rest to NaN. ERR_NUMERIC when q is not
 * finite. Parallel; collective on the team. */
MUST_USE enum status job_report(const struct quant_job *job, double bits_per_weight,
                                struct quant_report *report, struct err *e);
/* a / b for sums of squares without their damping part, which rounding may make negative. */
double error_share(double a, double b);
