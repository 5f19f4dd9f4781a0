#include "quant/job.h"
#include "activation/activation.h"
#include "util/mem.h"
#include <math.h>
#include <omp.h>

enum status job_check(const struct quant_job *job, struct err *e)
{
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    for (int64_t i = first; i < end; i++) {
        const float *w = job->w + i * job->cols;
        if (activation_finite(w, job->cols)) continue;
        int64_t j = 0;
        while (isfinite(w[j])) j++;
        RAISE(ERR_NUMERIC, "the weight in row %lld, column %lld is %g: is the checkpoint damaged?",
              (long long)i, (long long)j, (double)w[j]);
    }
    return OK;
}

enum status job_rows(const struct quant_job *job, int64_t step_rows, job_step *step,
                     const void *context, int64_t scratch, struct err *e)
{
    enum status st = job_check(job, e);
    AUTO_FREE char *memory = NULL;
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    if (st == OK) st = mem_alloc(&memory, omp_get_max_threads(), (size_t)scratch, "scratch", e);
    PASS(team_agree(job->team, st, e));
#pragma omp parallel for schedule(dynamic)
    for (int64_t row = first; row < end; row += step_rows)
        step(job, context, row, memory + omp_get_thread_num() * scratch);
    return OK;
}

enum status job_gram_check(const struct quant_input *in, struct err *e)
{
    for (int64_t i = 0; i < in->cols; i++) {
        const double *g = in->statistic[STATISTIC_GRAM] + i * in->cols;
        for (int64_t j = i; j < in->cols; j++)
            NEED(isfinite(g[j]), ERR_NUMERIC,
                 "the Hessian of input channels %lld and %lld is %g: the activations before this "
                 "layer are not finite",
                 (long long)i, (long long)j, g[j]);
        NEED(g[i] >= 0, ERR_NUMERIC, "the Hessian's diagonal is %g at input channel %lld", g[i],
             (long long)i);
    }
    return OK;
}

double error_share(double a, double b)
{
    return a <= 0 || b <= 0 ? 0 : a / b;
}

enum status job_report(const struct quant_job *job, double bits_per_weight,
                       struct quant_report *report, struct err *e)
{
    AUTO_FREE double *distance = NULL;
    double sum = 0;
    int64_t n = job->cols, first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    enum status st = mem_zero(&distance, job->rows, sizeof *distance, "distances of rows", e);
    PASS(team_agree(job->team, st, e));
#pragma omp parallel for
    for (int64_t i = first; i < end; i++)
        distance[i] = row_distance(job->w + i * n, job->q + i * n, n);
    PASS(team_gather(job->team, distance, 1, 1, job->rows, e));
    for (int64_t i = 0; i < job->rows; i++) {
        NEED(isfinite(distance[i]), ERR_NUMERIC,
             "quantizing row %lld gave a number that is not finite: %sits weights or their "
             "Hessian are too large for 32-bit floats",
             (long long)i,
             job->options && job->options->scale_dtype != SCALE_F32
                 ? "a scale is above 65504, the largest of 16 bits (scale_dtype f32 holds it), or "
                 : "");
        sum += distance[i];
    }
    *report = (struct quant_report){
        .squared_distance = sum,
        .error = NAN,
        .relative_error = NAN,
        .damping = NAN,
        .bits_per_weight = bits_per_weight,
    };
    return OK;
}
