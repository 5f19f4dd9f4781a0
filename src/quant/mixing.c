#include "quant/mixing.h"
#include "coding/tile.h"
#include "math/hadamard.h"
#include "quant/job.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

enum status mixing_check(const struct quant_options *o, int64_t cols, struct err *e)
{
    NEED(o->mixing == MIXING_NONE || hadamard_factor(cols) > 0, ERR_USAGE,
         "mixing: no Hadamard matrix of order %lld is known here, and the layer has so many input "
         "channels; quantize this model without mixing",
         (long long)cols);
    return OK;
}

enum status mixing_make(struct mixing **out, const struct quant_options *o, int64_t layer,
                        int64_t cols, struct err *e)
{
    CLEANUP(mixing_free_at) struct mixing *r = NULL;
    const char *what = "a mixing";
    *out = NULL;
    if (o->mixing == MIXING_NONE) return OK;
    PASS(mixing_check(o, cols, e));
    PASS(mem_zero(&r, 1, sizeof *r, what, e));
    PASS(mix_make(&r->mix, cols, MIX_AFTER, (uint64_t)o->mixing_seed, (uint64_t)layer, e));
    PASS(mem_alloc(&r->scratch, omp_get_max_threads() * 2 * cols, sizeof *r->scratch, what, e));
    *out = TAKE(r);
    return OK;
}

void mixing_free(struct mixing *r)
{
    if (!r) return;
    mix_free(&r->mix);
    free(r->scratch);
    free(r);
}

enum status mixing_rows(const struct mixing *r, float *to, const float *from, int64_t first,
                        int64_t n, bool back, struct err *e)
{
    if (!r) return OK;
    const int64_t bad = mix_rows(&r->mix, to, from, first, n, 1, back, r->scratch, 2 * r->mix.n);
    NEED(bad < 0, ERR_NUMERIC,
         "mixing row %lld gave a number that is not finite: its weights are too large for "
         "32-bit floats",
         (long long)bad);
    return OK;
}

void mixing_tile(const struct mixing *r, float *t, bool back)
{
    for (int i = 0; r && i < TILE_ROWS; i++) {
        double *x = r->scratch + omp_get_thread_num() * 2 * r->mix.n;
        for (int64_t j = 0; j < r->mix.n; j++) x[j] = (double)t[j * TILE_ROWS + i];
        mix_row(&r->mix, x, back, x + r->mix.n);
        for (int64_t j = 0; j < r->mix.n; j++) t[j * TILE_ROWS + i] = (float)x[j];
    }
}

void mixing_gram(const struct mixing *r, double *gram)
{
    if (r) mix_gram(&r->mix, gram, r->mix.n, r->scratch);
}

enum status mixing_input(const struct quant_input *from, const struct quant_options *o,
                         struct quant_input *to, double **gram, struct err *e)
{
    const double *sums = from->statistic[STATISTIC_GRAM];
    int64_t n = from->cols;
    CLEANUP(mixing_free_at) struct mixing *r = NULL;
    *to = *from;
    PASS(mixing_make(&r, o, from->layer, n, e));
    if (!r || !sums) return OK;
    PASS(mem_alloc(gram, n * n, sizeof **gram, "the Gram matrix of mixed inputs", e));
    memcpy(*gram, sums, (size_t)(n * n) * sizeof **gram);
    mixing_gram(r, *gram);
    to->statistic[STATISTIC_GRAM] = *gram;
    return OK;
}

/* Everything before `plain`. mixed (rows, cols): this rank's rows. */
static enum status run_begin(const struct quant_job *job, struct mixing **r, float **mixed,
                             struct err *e)
{
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    PASS(job_check(job, e));
    PASS(mixing_make(r, job->options, job->layer, job->cols, e));
    PASS(mem_alloc(mixed, job->rows * job->cols, sizeof **mixed, "mixed weights", e));
    return mixing_rows(*r, *mixed, job->w, first, end - first, false, e);
}

static enum status run_end(const struct quant_job *job, const struct mixing *r, struct err *e)
{
    int64_t first, end;
    team_own_rows(job->team, job->rows, &first, &end);
    PASS(mixing_rows(r, job->q, job->q, first, end - first, true, e));
    if (!job->unrounded) return OK;
    return mixing_rows(r, job->unrounded, job->unrounded, first, end - first, true, e);
}

enum status mixing_run(const struct quant_job *job, quant_run *plain, struct quant_report *report,
                       struct err *e)
{
    CLEANUP(mixing_free_at) struct mixing *r = NULL;
    AUTO_FREE float *mixed = NULL;
    struct quant_job inner = *job;
    if (job->options->mixing != MIXING_NONE) {
        PASS(team_agree(job->team, run_begin(job, &r, &mixed, e), e));
        inner.w = mixed;
    }
    PASS(plain(&inner, report, e));
    if (r) PASS(team_agree(job->team, run_end(job, r, e), e));
    return lqer_add(job, report, e);
}

/* --- plans --- */

int64_t mixing_bytes(const struct quant_extent *x)
{
    int64_t k = hadamard_factor(x->cols);
    return k * k + (1 + 2 * x->threads) * x->cols * (int64_t)sizeof(double);
}

void mixing_memory(const struct quant_options *o, const struct quant_extent *x, bool calibrates,
                   struct quant_memory *out)
{
    lqer_memory(o, x, out);
    if (o->mixing == MIXING_NONE) return;
    int64_t rows = (x->rows + x->ranks - 1) / x->ranks + TILE_ROWS;
    out->running += min64(rows, x->rows) * x->cols * (int64_t)sizeof(float) + mixing_bytes(x);
    if (calibrates) out->preparing += x->cols * x->cols * (int64_t)sizeof(double) + mixing_bytes(x);
}

void mixing_cost(const struct quant_options *o, int64_t rows, int64_t cols, bool calibrates,
                 struct quant_cost *out)
{
    lqer_cost(o, rows, cols, out);
    if (o->mixing == MIXING_NONE) return;
    double row = hadamard_flop(cols);
    out->run += 2 * (double)rows * row;
    if (calibrates) out->prepare += 2 * (double)cols * row;
}
