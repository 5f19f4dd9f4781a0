/* LQER's correction of quantized weights (mixing.h): the factors of the scaled error, and their
 * product. */
#include "math/dtype.h"
#include "math/eigen.h"
#include "quant/job.h"
#include "quant/mixing.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

enum { FACTOR_BITS = 16 };
static const double LEAST = 1e-4; /* the authors' bound of means of |x| */

/* The correction of a linear. */
struct correction {
    const struct quant_job *job;
    int64_t rank;
    double *scale; // (cols) s
    double *error; // (rows, cols) (W - Q) diag(s)
    double *left;  // (rank, rows)
    double *right; // (rank, cols)
};

static enum status room(struct correction *c, struct err *e)
{
    const int64_t rows = c->job->rows, cols = c->job->cols;
    const int64_t numbers = cols + rows * cols + c->rank * (rows + cols);
    PASS(mem_zero(&c->scale, numbers, sizeof *c->scale, "a low-rank correction", e));
    c->error = c->scale + cols;
    c->left = c->error + rows * cols;
    c->right = c->left + c->rank * rows;
    return OK;
}

/* s over the root of its least and largest number, so that the factors fit in 16 bits, and this
 * rank's rows of the error. */
static enum status error_fill(struct correction *c, struct err *e)
{
    const struct quant_job *job = c->job;
    const double *sums = job->input->statistic[STATISTIC_MAGNITUDE];
    double least = INFINITY, most = 0;
    int64_t first, end;
    PASS(room(c, e));
    for (int64_t j = 0; j < job->cols; j++) {
        NEED(isfinite(sums[j]), ERR_NUMERIC, "the inputs of channel %lld are not finite",
             (long long)j);
        c->scale[j] = fmax(sums[j] / (double)max64(job->input->tokens, 1), LEAST);
        least = fmin(least, c->scale[j]);
        most = fmax(most, c->scale[j]);
    }
    for (int64_t j = 0; j < job->cols; j++) c->scale[j] /= sqrt(least * most);
    team_own_rows(job->team, job->rows, &first, &end);
    for (int64_t k = first * job->cols; k < end * job->cols; k++)
        c->error[k] = ((double)job->w[k] - (double)job->q[k]) * c->scale[k % job->cols];
    return OK;
}

/* The factors as they are stored. */
static enum status factor(struct correction *c, struct err *e)
{
    const int64_t rows = c->job->rows, cols = c->job->cols;
    PASS(low_rank(rows, cols, c->error, c->rank, c->left, c->right, e));
    for (int64_t k = 0; k < c->rank * cols; k++) c->right[k] /= c->scale[k % cols];
    for (int64_t k = 0; k < c->rank * (rows + cols); k++)
        c->left[k] = (double)dtype_round_f16((float)c->left[k]);
    return OK;
}

/* This rank's rows of q <- q + the product of the factors. */
static void product_add(const struct correction *c, float *q)
{
    const int64_t rows = c->job->rows, cols = c->job->cols;
    int64_t first, end;
    team_own_rows(c->job->team, rows, &first, &end);
#pragma omp parallel for
    for (int64_t i = first; i < end; i++)
        for (int64_t j = 0; j < cols; j++) {
            double sum = (double)q[i * cols + j];
            for (int64_t r = 0; r < c->rank; r++)
                sum += c->left[r * rows + i] * c->right[r * cols + j];
            q[i * cols + j] = (float)sum;
        }
}

enum status lqer_add(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    const int64_t rank = min64(job->options->lqer_rank, min64(job->rows, job->cols));
    const double bits = report->bits_per_weight, damping = report->damping;
    const double m = (double)job->rows, n = (double)job->cols;
    struct correction c = {.job = job, .rank = rank};
    if (rank == 0) return OK;
    enum status st = team_agree(job->team, error_fill(&c, e), e);
    if (st == OK) st = team_gather(job->team, c.error, job->cols, 1, job->rows, e);
    if (st == OK) st = team_agree(job->team, factor(&c, e), e);
    if (st == OK) product_add(&c, job->q);
    if (st == OK && job->unrounded) product_add(&c, job->unrounded);
    free(c.scale);
    PASS(st);
    PASS(job_report(job, bits + FACTOR_BITS * (double)rank * (m + n) / (m * n), report, e));
    report->damping = damping;
    return OK;
}

/* --- plans --- */

void lqer_memory(const struct quant_options *o, const struct quant_extent *x,
                 struct quant_memory *out)
{
    const int64_t n = min64(x->rows, x->cols), rank = min64(o->lqer_rank, n);
    if (rank == 0) return;
    out->running +=
        (x->rows * x->cols + rank * (x->rows + x->cols) + 2 * n * n) * (int64_t)sizeof(double);
}

/* Squares, eigenvectors, products with them. */
void lqer_cost(const struct quant_options *o, int64_t rows, int64_t cols, struct quant_cost *out)
{
    enum { EIGEN = 9 };
    const double n = (double)min64(rows, cols), rank = fmin((double)o->lqer_rank, n);
    if (rank > 0) out->run += (n + 4 * rank) * (double)rows * (double)cols + EIGEN * n * n * n;
}
