#include "quant/incoherent.h"
#include "coding/tile.h"
#include "math/hadamard.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <float.h>
#include <math.h>
#include <omp.h>

/* What the linears of a stage share. */
struct prepared {
    struct feedback f;
    int64_t cols; /* f.cols: rounded up to whole blocks */
    double lambda, damping;
};
CLEANUP_BY_VALUE(struct prepared, incoherent_release);

static int64_t whole(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Mixes a block's inputs (linear -1) or a linear's outputs. */
static enum status mix_open(struct mix *m, const struct quant_options *o, int64_t layer,
                            int64_t linear, int64_t n, struct err *e)
{
    *m = (struct mix){.n = n};
    if (!o->incoherence || n < 2) return OK;
    return mix_make(m, n, MIX_BEFORE, (uint64_t)o->incoherence_seed,
                    (uint64_t)(layer * 100 + linear + 1), e);
}

/* --- prepare --- */

static void gram_fill(const struct quant_input *in, double *h, int64_t padded, double mean,
                      const struct mix *m, double *scratch)
{
    const int64_t n = in->cols;
    memset(h, 0, (size_t)(padded * padded) * sizeof *h);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++)
            h[i * padded + j] = h[j * padded + i] = in->statistic[STATISTIC_GRAM][i * n + j];
    for (int64_t i = n; i < padded; i++) h[i * padded + i] = mean;
    if (m->part > 0) mix_gram(m, h, padded, scratch);
}

/* Damps and factors; at most three times ten times more. */
static enum status factor(struct prepared *p, const struct quant_input *in,
                          const struct quant_options *o, double *h, double *scratch, struct err *e)
{
    enum status st = OK;
    double mean = 0;
    CLEANUP(mix_free) struct mix m = {0};
    const int64_t padded = p->f.cols;
    const double *gram = in->statistic[STATISTIC_GRAM];
    PASS(job_gram_check(in, e));
    for (int64_t i = 0; i < in->cols; i++) mean += gram[i * in->cols + i] / (double)in->cols;
    if (mean <= 0) {
        feedback_plain(&p->f);
        p->damping = NAN;
        return st;
    }
    PASS(mix_open(&m, o, in->layer, -1, in->cols, e));
    p->damping = o->damping;
    for (int tries = 0; tries < 4; tries++, p->damping *= 10) {
        gram_fill(in, h, padded, mean, &m, scratch);
        p->lambda = p->damping * mean;
        for (int64_t i = 0; i < padded; i++) h[i * padded + i] += p->lambda;
        st = feedback_make(&p->f, h, tries < 3 ? NULL : e);
        if (st != ERR_NUMERIC) break;
    }
    return st;
}

enum status incoherent_prepare(const struct quant_input *in, const struct quant_options *o,
                               int64_t block, void **out, struct err *e)
{
    CLEANUP(incoherent_release_at) struct prepared *p = NULL;
    AUTO_FREE double *h = NULL, *scratch = NULL;
    const int64_t padded = whole(in->cols, block);
    *out = NULL;
    PASS(mem_zero(&p, 1, sizeof *p, "a Hessian's factor", e));
    p->cols = in->cols;
    PASS(feedback_room(&p->f, padded, block, e));
    p->f.open = !o->feedback;
    if (!in->team || in->team->rank == in->owner) {
        PASS(mem_alloc(&h, padded * padded, sizeof *h, "the Hessian", e));
        PASS(mem_alloc(&scratch, omp_get_max_threads() * padded, sizeof *scratch, "rows", e));
        PASS(factor(p, in, o, h, scratch, e));
    }
    *out = TAKE(p);
    return OK;
}

enum status incoherent_share(const struct quant_input *in, void *prepared, enum status made,
                             struct err *e)
{
    struct prepared *p = prepared;
    const struct quant_team *t = in->team;
    if (!t) return made;
    PASS(team_agree(t, made, e));
    double head[] = {p->lambda, p->damping};
    const int64_t n = feedback_floats(p->f.cols, p->f.block),
                  corner = feedback_corner_floats(p->f.cols, p->f.block);
    PASS(team_send(t, in->owner, head, sizeof head, e));
    p->lambda = head[0];
    p->damping = head[1];
    PASS(team_send(t, in->owner, p->f.factor, n * (int64_t)sizeof(float), e));
    return team_send(t, in->owner, p->f.corner, corner * (int64_t)sizeof(float), e);
}

void incoherent_release(void *prepared)
{
    struct prepared *p = prepared;
    if (!p) return;
    feedback_free(&p->f);
    free(p);
}

/* --- run --- */

struct run {
    const struct quant_job *job;
    const struct prepared *p;
    const struct incoherent_code *c;
    struct block_sides sides;
    float scale;
    float *w;       // (rows, cols) mixed, over the scale
    uint8_t *codes; // of whole tiles
    double *sums;   // (tiles, 4) struct feedback_sums
    float *bands;   // (threads, 3 BAND_ROWS padded)
};

enum { SUMS = sizeof(struct feedback_sums) / sizeof(double) };

/* Codes the bands of a tile of rows. */
static void tile_code(const struct run *r, int64_t tile)
{
    const struct block_form *form = &r->c->values->form;
    const int64_t n = r->job->cols, padded = r->p->f.cols, size = BAND_ROWS * padded;
    const int thread = omp_get_thread_num();
    float *w = r->bands + thread * 3 * size;
    double *sums = r->sums + tile * SUMS;
    for (int64_t row = tile * TILE_ROWS; row < min64((tile + 1) * TILE_ROWS, r->job->rows);
         row += BAND_ROWS) {
        struct feedback_sums s;
        const int64_t here = min64(BAND_ROWS, r->job->rows - row);
        memset(w, 0, (size_t)size * sizeof *w);
        for (int64_t i = 0; i < here; i++)
            memcpy(w + i * padded, r->w + (row + i) * n, (size_t)n * sizeof *w);
        feedback_band(&r->p->f, w, r->codes + block_all_bytes(form, row, n), block_bytes(form),
                      r->c->code, r->c->contexts[thread], w + size, &s);
        sums[0] += s.loss;
        sums[1] += s.weight;
        sums[2] += s.loss_plain;
        sums[3] += s.weight_plain;
    }
}

static enum status run_open(struct run *r, struct err *e)
{
    const struct quant_job *job = r->job;
    const int64_t tiles = tile_count(job->rows), n = job->cols, threads = omp_get_max_threads();
    double squares = 0;
    PASS(job_check(job, e));
    PASS(mix_open(&r->sides.in, job->options, job->layer, -1, n, e));
    PASS(mix_open(&r->sides.out, job->options, job->layer, job->linear, job->rows, e));
    PASS(block_sides_room(&r->sides, e));
    PASS(mem_alloc(&r->w, job->rows * n, sizeof *r->w, "mixed weights", e));
    PASS(mem_zero(&r->codes, block_all_bytes(&r->c->values->form, tiles * TILE_ROWS, n), 1,
                  "coded weights", e));
    PASS(mem_zero(&r->sums, tiles * SUMS, sizeof *r->sums, "sums of tiles", e));
    PASS(mem_alloc(&r->bands, threads * 3 * BAND_ROWS * r->p->f.cols, sizeof *r->bands,
                   "bands of weights", e));
    for (int64_t i = 0; i < job->rows; i++) squares += row_squares(job->w + i * n, n);
    r->scale = (float)(sqrt(squares / (double)(job->rows * n)) / r->c->rms);
    if (r->scale < FLT_MIN) r->scale = 0;
    return OK;
}

static void run_close(struct run *r)
{
    block_sides_free(&r->sides);
    free(r->w);
    free(r->codes);
    free(r->sums);
    free(r->bands);
}

static enum status report_fill(const struct run *r, struct quant_report *report, struct err *e)
{
    const struct quant_job *job = r->job;
    const double scale = (double)r->scale, weights = (double)job->rows * (double)job->cols;
    const int64_t signs = job->options->incoherence ? block_sign_bytes(job->rows, job->cols) : 0;
    const int64_t bytes = block_all_bytes(&r->c->values->form, job->rows, job->cols) + signs +
                          (int64_t)sizeof r->scale;
    double sum[SUMS] = {0};
    PASS(job_report(job, 8 * (double)bytes / weights, report, e));
    for (int64_t t = 0; t < tile_count(job->rows); t++)
        for (int k = 0; k < SUMS; k++) sum[k] += r->sums[t * SUMS + k];
    report->damping = r->p->damping;
    if (isnan(r->p->damping)) return OK; /* no inputs: the factor is not the Hessian's */
    report->error = sum[0] * scale * scale;
    report->relative_error =
        error_share(sum[0] - r->p->lambda * sum[2], sum[1] - r->p->lambda * sum[3]);
    return OK;
}

/* Hands over what a packed format stores. */
static enum status blocks_note(struct run *r, struct quant_grids *g, struct err *e)
{
    const int64_t n = block_sign_bytes(r->job->rows, r->job->cols);
    PASS(mem_alloc(&g->signs, n, 1, "signs", e));
    block_signs(&r->sides, g->signs);
    g->codes = TAKE(r->codes);
    g->scale = r->scale;
    return OK;
}

enum status incoherent_run(const struct quant_job *job, const struct incoherent_code *c,
                           struct quant_report *report, struct err *e)
{
    CLEANUP(run_close)
    struct run r = {
        .job = job, .p = job->prepared, .c = c, .sides = {.rows = job->rows, .cols = job->cols}};
    const int64_t n = job->cols;
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    PASS(team_agree(job->team, run_open(&r, e), e));
    if (r.scale > 0) {
        block_sides_mix(&r.sides, r.w, job->w, 1 / (double)r.scale);
#pragma omp parallel for schedule(dynamic)
        for (int64_t t = first / TILE_ROWS; t < tile_count(end); t++) tile_code(&r, t);
    }
    const int64_t tile = block_all_bytes(&c->values->form, TILE_ROWS, n) / (int64_t)sizeof(double);
    PASS(team_gather(job->team, (double *)(void *)r.codes, tile, TILE_ROWS, job->rows, e));
    PASS(team_gather(job->team, r.sums, SUMS, TILE_ROWS, job->rows, e));
    block_weights(c->values, &r.sides, r.codes, r.w);
    for (int64_t k = first * n; k < end * n; k++)
        job->q[k] = (float)((double)r.w[k] * (double)r.scale);
    PASS(report_fill(&r, report, e));
    return job->grids ? team_agree(job->team, blocks_note(&r, job->grids, e), e) : OK;
}

/* --- plans --- */

void incoherent_memory(const struct quant_extent *x, int64_t block, struct quant_memory *out)
{
    const int64_t padded = whole(x->cols, block), half = 2 /* 4 bits */;
    const int64_t d = sizeof(double), f = sizeof(float);
    out->prepared += (feedback_floats(padded, block) + padded * block) * f;
    out->preparing += (padded * padded + x->threads * padded) * d;
    out->running += x->rows * x->cols * f + (x->rows + TILE_ROWS) * padded / half +
                    block_sides_bytes(x->rows, x->cols, x->threads) +
                    x->threads * 3 * BAND_ROWS * padded * f;
}

void incoherent_cost(int64_t rows, int64_t cols, struct quant_cost *out)
{
    const double m = (double)rows, n = (double)cols;
    out->prepare += n * n * n / 3 + 2 * n * hadamard_flop(cols);
    out->run += 2 * m * n * n + 2 * (m * hadamard_flop(cols) + n * hadamard_flop(rows));
}
