#include "quant/blocks.h"
#include "util/num.h"
#include <math.h>

float blocks_largest(const float *w, int64_t n)
{
    float most = 0;
    for (int64_t j = 0; j < n; j++) most = fmaxf(most, fabsf(w[j]));
    return most;
}

void blocks_round(const struct quant_job *job, int64_t block,
                  void (*round)(const float *w, float *q, int64_t n, float whole), float whole)
{
    int64_t first, end;
    const int64_t cols = job->cols;
    team_own_rows(job->team, job->rows, &first, &end);
#pragma omp parallel for
    for (int64_t i = first; i < end; i++)
        for (int64_t a = 0; a < cols; a += block)
            round(job->w + i * cols + a, job->q + i * cols + a, min64(block, cols - a), whole);
}
