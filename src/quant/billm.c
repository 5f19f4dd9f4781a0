/* BiLLM as its authors' code has it (Huang et al. 2024, arXiv 2402.04291; bigptq.py of
 * Aaronhuang-778/BiLLM with the Hessian as metric): block by block of columns, weights in binary
 * terms (coding/binary.h) by the scores w² / U_jj², H⁻¹ = Uᵀ U. Unlike GPTQ, a block's weights see
 * nothing of each other's errors; later blocks take up E diag(U)⁻¹ U of it. */
#include "coding/binary.h"
#include "math/linalg.h"
#include "quant/gptq.h"
#include "quant/grids.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>
#include <string.h>

struct run {
    const struct quant_job *job;
    const struct gptq_prepared *p;
    double *u;       // (cols, cols) U
    double *sums;    // (tiles, wide)
    double *total;   // (wide)
    double *scratch; // (threads, widest, TILE_ROWS)
    float *w;        // (whole tiles of rows, cols) compensated weights
    float *strip;    // (widest, cols) rows of U of the block
    int64_t widest, begin;
    struct binary_block block;
};

/* Later columns take up the tile's errors in the block. */
static void compensate(const struct run *r, int64_t tile, const float *error)
{
    const int64_t cols = r->job->cols, n = r->block.n, later = r->begin + n;
    if (r->job->options->feedback && later < cols)
        mat_gemm(MAT_NN, r->w + tile * TILE_ROWS * cols + later, cols, error, n, r->strip + later,
                 cols, TILE_ROWS, cols - later, n, 1);
}

/* r->total = the sums of so many numbers over all tiles. Collective. */
static enum status all_tiles(struct run *r, binary_step *step, int64_t numbers, struct err *e)
{
    const int64_t rows = r->job->rows;
    int64_t first, end;
    team_own_rows(r->job->team, rows, &first, &end);
    memset(r->sums, 0, (size_t)(tile_count(rows) * numbers) * sizeof *r->sums);
    memset(r->total, 0, (size_t)numbers * sizeof *r->total);
#pragma omp parallel for schedule(dynamic)
    for (int64_t t = first / TILE_ROWS; t < tile_count(end); t++) {
        double *scratch = r->scratch + omp_get_thread_num() * r->widest * TILE_ROWS;
        step(&r->block, t, scratch, r->sums + t * numbers);
        if (step == binary_code) compensate(r, t, (const float *)scratch);
    }
    PASS(team_gather(r->job->team, r->sums, numbers, TILE_ROWS, rows, e));
    for (int64_t k = 0; k < tile_count(rows) * numbers; k++) r->total[k % numbers] += r->sums[k];
    return OK;
}

/* Columns [begin, begin + n). *loss += the squared errors over U's diagonal. Collective. */
static enum status block_code(struct run *r, int64_t begin, int64_t n, double *loss, struct err *e)
{
    const int64_t cols = r->job->cols;
    struct binary_block *b = &r->block;
    r->begin = begin;
    b->n = n;
    b->w = r->w + begin;
    b->q = r->job->q + begin;
    b->d = r->u + begin * (cols + 1);
    for (int64_t k = 0; k < n * cols; k++) r->strip[k] = (float)r->u[begin * cols + k];
    PASS(all_tiles(r, binary_score, n, e));
    PASS(team_gather(r->job->team, b->scores, n, 1, b->rows, e));
    PASS(team_agree(r->job->team, grid_order(r->total, n, b->order, e), e));
    PASS(all_tiles(r, binary_count, binary_counts(n), e));
    binary_choose_salient(b, r->total);
    PASS(all_tiles(r, binary_split, BINARY_POINTS, e));
    binary_choose_point(b, r->total);
    PASS(all_tiles(r, binary_code, 1, e));
    *loss += r->total[0];
    return OK;
}

/* --- a linear --- */

static enum status run_open(struct run *r, struct err *e)
{
    const struct quant_job *job = r->job;
    struct binary_block *b = &r->block;
    const int64_t n = job->cols, tiles = tile_count(job->rows), threads = omp_get_max_threads();
    const int64_t widest = min64(job->options->block_size, n), wide = max64(BINARY_POINTS, widest);
    const int64_t doubles = n * n + (tiles + 1) * wide + threads * widest * TILE_ROWS;
    AUTO_FREE double *factor = NULL;
    PASS(job_check(job, e));
    PASS(mem_alloc(&factor, n * n, sizeof *factor, "a Hessian's factor", e));
    PASS(mem_alloc(&r->u, doubles, sizeof *r->u, "a Hessian's factor", e));
    PASS(mem_zero(&r->w, (tiles * TILE_ROWS + widest) * n, sizeof *r->w, "weights", e));
    PASS(binary_open(b, job->rows, widest, e));
    b->pitch = n;
    b->dn = n + 1;
    b->f16 = job->options->scale_dtype != SCALE_F32;
    r->widest = widest;
    r->sums = r->u + n * n;
    r->total = r->sums + tiles * wide;
    r->scratch = r->total + wide;
    r->strip = r->w + tiles * TILE_ROWS * n;
    gptq_factor_unpack(r->p, factor);
    PASS(triangular_inverse(r->u, factor, n, 0, n, e));
    for (int64_t k = 0; k < job->rows * n; k++)
        r->w[k] = r->p->dead && r->p->dead[k % n] ? 0 : job->w[k];
    return OK;
}

static void run_close(struct run *r)
{
    free(r->u);
    free(r->w);
    binary_close(&r->block);
}

/* sum[0] = tr(X H Xᵀ) with damping, sum[1] = |X|²; X = W or (error) W - Q, 0 in dead columns.
 * Collective. */
static enum status squares(const struct run *r, bool error, double *sum, struct err *e)
{
    const struct quant_job *job = r->job;
    const int64_t n = job->cols;
    AUTO_FREE double *x = NULL, *sums = NULL;
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    enum status st = mem_alloc(&x, (end - first) * n, sizeof *x, "weights", e);
    if (st == OK) st = mem_zero(&sums, 2 * job->rows, sizeof *sums, "sums of rows", e);
    PASS(team_agree(job->team, st, e));
    for (int64_t k = 0; k < (end - first) * n; k++) {
        const double w = (double)job->w[first * n + k], q = (double)job->q[first * n + k];
        x[k] = r->p->dead && r->p->dead[k % n] ? 0 : w - (error ? q : 0);
        sums[2 * (first + k / n) + 1] += x[k] * x[k];
    }
    triangular_divide(x, end - first, r->u, n, false);
    for (int64_t k = 0; k < (end - first) * n; k++) sums[2 * (first + k / n)] += x[k] * x[k];
    PASS(team_gather(job->team, sums, 2, 1, job->rows, e));
    sum[0] = sum[1] = 0;
    for (int64_t k = 0; k < 2 * job->rows; k++) sum[k % 2] += sums[k];
    return OK;
}

static enum status billm_run(const struct quant_job *job, struct quant_report *report,
                             struct err *e)
{
    CLEANUP(run_close) struct run r = {.job = job, .p = job->prepared};
    double loss = 0, error[2], weight[2];
    PASS(team_agree(job->team, run_open(&r, e), e));
    for (int64_t begin = 0; begin < job->cols; begin += r.widest)
        PASS(block_code(&r, begin, min64(r.widest, job->cols - begin), &loss, e));
    PASS(job_report(job, binary_bits(job->rows, job->cols, r.widest, r.block.f16), report, e));
    report->damping = r.p->damping;
    if (isnan(r.p->damping)) return OK; /* U = I is not the Hessian's factor */
    PASS(squares(&r, true, error, e));
    PASS(squares(&r, false, weight, e));
    report->error = loss / 2;
    report->relative_error =
        error_share(error[0] - r.p->lambda * error[1], weight[0] - r.p->lambda * weight[1]);
    return OK;
}

/* --- plans --- */

static void billm_memory(const struct quant_options *o, const struct quant_extent *x,
                         struct quant_memory *out)
{
    const int64_t n = x->cols, widest = min64(o->block_size, n), tiles = tile_count(x->rows);
    const int64_t d = sizeof(double), f = sizeof(float);
    quant_gptq.memory(o, x, out);
    out->running = n * n * d + widest * n * f + tiles * TILE_ROWS * n * f +
                   max64(n * n, x->rows * n / x->ranks) * d + binary_bytes(x->rows, widest) +
                   (tiles + 1) * max64(BINARY_POINTS, widest) * d +
                   x->threads * widest * TILE_ROWS * d;
}

/* Beside GPTQ's: U, two products with its inverse, and the search, to match the measured time. */
static void billm_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                       struct quant_cost *out)
{
    enum { FLOP_WEIGHT = 2000 };
    const double m = (double)rows, n = (double)cols;
    quant_gptq.cost(o, rows, cols, out);
    out->run = n * n * n / 3 + 3 * m * n * n + FLOP_WEIGHT * m * n;
}

#define BILLM_OPTIONS "damping damping_increment block_size hessian_per_token last_resort"

const struct quant_method quant_billm = {
    .name = "billm",
    .doc = "weights in terms of a mean plus or minus a scale: two terms for salient columns, one "
           "for large and one for small weights of the others (BiLLM)",
    .bits_min = QUANT_BITS_LEAST,
    .bits_max = 1,
    .results = QUANT_ZERO_IS_ZERO,
    .options = BILLM_OPTIONS " scale_dtype feedback true_sequential hessian",
    .statistics = WANTS(STATISTIC_GRAM),
    .prepare_options = BILLM_OPTIONS,
    .prepare = gptq_prepare,
    .share = gptq_share,
    .release = gptq_release,
    .run = billm_run,
    .memory = billm_memory,
    .cost = billm_cost,
};
