/* GPTQ (Frantar et al. 2022) on the factor H = R Rᵀ alone. */
#include "quant/gptq.h"
#include "linalg/linalg.h"
#include "quant/report.h"
#include "quant/table.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void gptq_release(struct quant_prepared *p)
{
    if (!p) return;
    for (int64_t i = 0; p->blocks && i < p->n_blocks; i++) free(p->blocks[i].inverse);
    free(p->blocks);
    free(p->factor);
    free(p->dead);
    free(p->order);
    free(p);
}

/* H = scale * gram. */
static double hessian_scale(const struct quant_input *in, const struct quant_options *o)
{
    return 2.0 / (double)(o->hessian_per_token ? in->tokens : in->samples);
}

static enum status gram_check(const struct quant_input *in, struct err *e)
{
    enum status st = OK;
    ENSURE(in->samples > 0 && in->tokens > 0, ERR_NUMERIC,
           "the Hessian has no calibration sequences");
    for (int64_t i = 0; i < in->cols; i++) {
        const double *g = in->gram + i * in->cols;
        for (int64_t j = i; j < in->cols; j++)
            ENSURE(isfinite(g[j]), ERR_NUMERIC,
                   "the Hessian of input channels %lld and %lld is %g: the activations before this "
                   "layer are not finite",
                   (long long)i, (long long)j, g[j]);
        ENSURE(g[i] >= 0, ERR_NUMERIC, "the Hessian's diagonal is %g at input channel %lld", g[i],
               (long long)i);
    }
done:
    return st;
}

/* diagonal (cols) of H, 1 where a channel had no input; p->dead marks those. */
static enum status diagonal_make(struct quant_prepared *p, const struct quant_input *in,
                                 double *diagonal, struct err *e)
{
    enum status st = OK;
    double scale = hessian_scale(in, &p->options);
    for (int64_t i = 0; i < in->cols; i++) {
        diagonal[i] = scale * in->gram[i * in->cols + i];
        if (diagonal[i] > 0) continue;
        if (!p->dead) TRY(mem_zero(&p->dead, in->cols, sizeof *p->dead, "dead channels", e));
        p->dead[i] = true;
        diagonal[i] = 1;
    }
done:
    return st;
}

struct ranked {
    double group; /* greatest of its group, where groups are ordered */
    int64_t group_at;
    double size;
    int64_t column;
};

/* Falling size; equal ones as they stand. */
static int falling(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->group != y->group) return x->group > y->group ? -1 : 1;
    if (x->group_at != y->group_at) return x->group_at < y->group_at ? -1 : 1;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

/* Group-aware order (arXiv 2505.14638): whole groups by their greatest channel, channels by size
 * inside them. What is left behind the last whole group stays last, as it stands. */
static void groups_rank(struct ranked *ranks, int64_t n, int64_t group)
{
    for (int64_t a = 0; a < n; a += group) {
        bool whole = n - a >= group;
        double most = -INFINITY;
        for (int64_t i = a; i < min64(a + group, n); i++) {
            if (!whole) ranks[i].size = 0;
            if (whole && ranks[i].size > most) most = ranks[i].size;
        }
        for (int64_t i = a; i < min64(a + group, n); i++) {
            ranks[i].group = most;
            ranks[i].group_at = a;
        }
    }
}

static enum status order_make(struct quant_prepared *p, const double *diagonal, struct err *e)
{
    enum status st = OK;
    struct ranked *ranks = NULL;
    if (p->options.order == ORDER_NONE) goto done;
    TRY(mem_zero(&ranks, p->cols, sizeof *ranks, "the order of columns", e));
    TRY(mem_alloc(&p->order, p->cols, sizeof *p->order, "the order of columns", e));
    for (int64_t i = 0; i < p->cols; i++)
        ranks[i] = (struct ranked){.size = diagonal[i], .column = i};
    if (p->options.order == ORDER_GROUP)
        groups_rank(ranks, p->cols, min64(p->options.group_size, p->cols + 1));
    qsort(ranks, (size_t)p->cols, sizeof *ranks, falling);
    for (int64_t i = 0; i < p->cols; i++) p->order[i] = ranks[i].column;
done:
    free(ranks);
    return st;
}

/* h = upper triangle of the damped H in the order of the sweep. Off the diagonal a dead channel's
 * entries are zero already: its inputs all were. Every entry is rounded to f32, because the
 * reference's H is f32: near a tie between two codes the last bits of H decide, and then its own
 * are the better ones. Beside the damping, an ulp of f32 is nothing; the factorisation is f64. */
static void hessian_fill(double *h, const struct quant_prepared *p, const struct quant_input *in,
                         const double *diagonal, double lambda)
{
    int64_t n = in->cols;
    double scale = hessian_scale(in, &p->options);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = 0; i < n; i++) {
        int64_t a = p->order ? p->order[i] : i;
        h[i * n + i] = (double)((float)diagonal[a] + (float)lambda);
        for (int64_t j = i + 1; j < n; j++) {
            int64_t b = p->order ? p->order[j] : j;
            double sum = a < b ? in->gram[a * n + b] : in->gram[b * n + a];
            h[i * n + j] = (double)(float)(scale * sum);
        }
    }
}

/* The next damping to try where the factorisation failed, or 0 if there is none. By increments it
 * stays below 1, as in GPTQModel; else three times ten, from no damping at all first to 1e-4. */
static double damping_next(const struct quant_options *o, double damping, int failures)
{
    if (o->damping_increment > 0)
        return damping + o->damping_increment < 1 ? damping + o->damping_increment : 0;
    if (failures > 3) return 0;
    return damping > 0 ? damping * 10 : 1e-4;
}

/* Raises the damping until h, with `floor` under its diagonal, has a factor. ERR_NUMERIC when the
 * last damping did not help either. */
static enum status damping_find(struct quant_prepared *p, const struct quant_input *in,
                                const double *diagonal, double floor, double *h, struct err *e)
{
    enum status st = OK;
    double mean = 0, damping = p->options.damping;
    for (int64_t i = 0; i < in->cols; i++) mean += diagonal[i];
    mean /= (double)in->cols;
    for (int failures = 1;; failures++) {
        p->lambda = floor + damping * (mean + floor);
        p->damping = floor > 0 ? p->lambda / mean : damping;
        hessian_fill(h, p, in, diagonal, p->lambda);
        st = chol_upper(h, in->cols, e);
        if (st != ERR_NUMERIC) break;
        damping = damping_next(&p->options, damping, failures);
        if (damping == 0) break;
        err_clear(e);
        log_trace("gptq", "the Hessian is not positive definite: damping %g", damping);
    }
    if (st == ERR_NUMERIC)
        err_prefix(e, "the Hessian cannot be factored, not even with a damping of %g", p->damping);
    return st;
}

/* Without errors to make up for, the sweep rounds to nearest: R = I. */
static void factor_identity(struct quant_prepared *p, double *h)
{
    memset(h, 0, (size_t)(p->cols * p->cols) * sizeof *h);
    for (int64_t i = 0; i < p->cols; i++) h[i * p->cols + i] = 1;
    p->damping = NAN;
    p->lambda = 0;
}

enum { FLOORS = 6 };

/* GPTQModel's way (hessian_inverse since 5.2): damping alone, then over floors of 1e-6, 1e-5, ...
 * of the greatest entry, then rounding to nearest. */
static enum status factor_make(struct quant_prepared *p, const struct quant_input *in,
                               const double *diagonal, double *h, struct err *e)
{
    double most = 0;
    for (int64_t i = 0; i < in->cols; i++) most = fmax(most, diagonal[i]);
    enum status st = damping_find(p, in, diagonal, 0, h, e);
    for (int k = 0; st == ERR_NUMERIC && p->options.last_resort == RESORT_FLOOR && k < FLOORS;
         k++) {
        err_clear(e);
        st = damping_find(p, in, diagonal, 1e-6 * most * pow(10, k), h, e);
    }
    if (st != ERR_NUMERIC || p->options.last_resort == RESORT_NONE) return st;
    log_warn("a Hessian of %lld input channels cannot be factored with any damping: its layers are "
             "rounded to nearest",
             (long long)in->cols);
    err_clear(e);
    factor_identity(p, h);
    return OK;
}

/* Where the blocks lie and how far their groups reach. */
static void block_bounds(struct gptq_block *b, int64_t i, const struct quant_prepared *p)
{
    int64_t size = min64(p->options.block_size, p->cols), group = p->options.group_size;
    b->begin = i * size;
    b->end = min64(b->begin + size, p->cols);
    b->reach = b->end;
    if (group < 0 || p->options.static_groups) return;
    int64_t last = (b->end - 1) / group * group; /* the last group start before the end */
    if (last >= b->begin && group < p->cols - last) b->reach = last + group;
    if (last >= b->begin && group >= p->cols - last) b->reach = p->cols;
    if (b->reach < b->end) b->reach = b->end;
}

static enum status blocks_make(struct quant_prepared *p, const double *r, struct err *e)
{
    enum status st = OK;
    double *inverse = NULL;
    int64_t size = min64(p->options.block_size, p->cols), widest = 0;
    p->n_blocks = (p->cols + size - 1) / size;
    TRY(mem_zero(&p->blocks, p->n_blocks, sizeof *p->blocks, "blocks of columns", e));
    for (int64_t i = 0; i < p->n_blocks; i++) {
        struct gptq_block *b = &p->blocks[i];
        block_bounds(b, i, p);
        if (b->reach - b->begin > widest) widest = b->reach - b->begin;
    }
    TRY(mem_alloc(&inverse, widest * widest, sizeof *inverse, "the inverse of a block", e));
    for (int64_t i = 0; i < p->n_blocks; i++) {
        struct gptq_block *b = &p->blocks[i];
        int64_t m = b->reach - b->begin;
        TRY(mem_alloc(&b->inverse, m * m, sizeof *b->inverse, "the inverse of a block", e));
        TRY(triangular_inverse(inverse, r, p->cols, b->begin, m, e));
        for (int64_t k = 0; k < m * m; k++) b->inverse[k] = (float)inverse[k];
    }
done:
    free(inverse);
    return st;
}

static enum status gptq_prepare(const struct quant_input *in, const struct quant_options *options,
                                struct quant_prepared **out, struct err *e)
{
    enum status st = OK;
    struct quant_prepared *p = NULL;
    double *diagonal = NULL, *h = NULL;
    int64_t n = in->cols;
    *out = NULL;
    TRY(mem_zero(&p, 1, sizeof *p, "a Hessian's factor", e));
    p->options = *options;
    p->cols = n;
    TRY(gram_check(in, e));
    TRY(mem_alloc(&diagonal, n, sizeof *diagonal, "the Hessian's diagonal", e));
    TRY(diagonal_make(p, in, diagonal, e));
    TRY(order_make(p, diagonal, e));
    TRY(mem_alloc(&h, n * n, sizeof *h, "the Hessian", e));
    TRY(factor_make(p, in, diagonal, h, e));
    TRY(blocks_make(p, h, e));
    TRY(mem_alloc(&p->factor, n * n, sizeof *p->factor, "the Hessian's factor", e));
#pragma omp parallel for
    for (int64_t i = 0; i < n * n; i++) p->factor[i] = (float)h[i];
    *out = p;
    p = NULL;
done:
    gptq_release(p);
    free(diagonal);
    free(h);
    return st;
}

/* a / b for sums of squares whose damping part was taken off: rounding may leave less than nothing.
 */
static double share(double a, double b)
{
    return a <= 0 || b <= 0 ? 0 : a / b;
}

static enum status gptq_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    enum status st = OK;
    const struct quant_prepared *p = job->prepared;
    struct gptq_sums sums;
    ENSURE(p && p->cols == job->cols, ERR_SHAPE,
           "the weights have %lld columns, the Hessian's factor %lld", (long long)job->cols,
           p ? (long long)p->cols : 0LL);
    TRY(job_check(job, e));
    TRY(gptq_sweep(job, &sums, e));
    TRY(job_report(job, p->options.group_size, report, e));
    ENSURE(isfinite(sums.loss), ERR_NUMERIC, "the error of the layer is not finite");
    report->damping = p->damping;
    if (isnan(p->damping)) goto done; /* R is not the Hessian's */
    report->error = sums.loss / 2;
    report->relative_error =
        share(sums.loss - p->lambda * sums.loss_plain, sums.weight - p->lambda * sums.weight_plain);
done:
    return st;
}

static enum status gptq_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    enum status st = OK;
    (void)bits;
    ENSURE(o->order != ORDER_GROUP || o->group_size > 0, ERR_USAGE,
           "order: group needs a group_size; with whole rows say activation");
done:
    return st;
}

const struct quant_method quant_gptq = {
    .name = "gptq",
    .doc = "column by column, each column's error made up for by those behind it (Hessian of the "
           "calibration inputs)",
    .needs = NEEDS_HESSIAN,
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .options = "group_size symmetric order damping damping_increment block_size true_sequential "
               "static_groups range_search hessian_per_token scale_dtype last_resort hessian",
    .prepare_options = "group_size order damping damping_increment block_size static_groups "
                       "hessian_per_token last_resort",
    .check = gptq_check,
    .prepare = gptq_prepare,
    .release = gptq_release,
    .run = gptq_run,
};
