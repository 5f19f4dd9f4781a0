/* GPTAQ (Li et al. 2025, arXiv 2504.02692): GPTQ whose outputs aim at those of the full-precision
 * model, X̃ Wᵀ instead of X Wᵀ. With D = Σ (x̃ - x) xᵀ and U = R⁻¹, every column w_i that is rounded
 * adds w_i P_ij to the later columns j, P = alpha (D Uᵀ, above the diagonal) U. */
#include "math/linalg.h"
#include "quant/gptq.h"
#include "quant/grids.h"
#include "util/mem.h"
#include <math.h>

enum { SYMMETRIC_GPTQ, SYMMETRIC_GPTAQ };

struct gptaq_options {
    double alpha;
    bool consistent;
    int symmetric_grid;
};

static const struct gptaq_options *own_of(const struct quant_options *o)
{
    return quant_own(o, METHOD_gptaq);
}

/* d (n, n) = D in the order of the sweep, scaled as the Hessian; zero in dead columns, as in the
 * authors' code. */
static enum status differences_fill(double *d, const struct gptq_prepared *p,
                                    const struct quant_input *in, struct err *e)
{
    const double *sums = in->statistic[STATISTIC_ASYMMETRY],
                 scale = gptq_hessian_scale(in, &p->options);
    int64_t n = p->cols;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t a = p->order ? p->order[i] : i, b = p->order ? p->order[j] : j;
            d[i * n + j] = p->dead && p->dead[b] ? 0 : (double)(float)(scale * sums[a * n + b]);
            NEED(isfinite(d[i * n + j]), ERR_NUMERIC,
                 "the inputs of channels %lld and %lld differ by a number that is not finite",
                 (long long)a, (long long)b);
        }
    return OK;
}

static enum status correction_make(struct gptq_prepared *p, const struct quant_input *in,
                                   struct err *e)
{
    const double alpha = own_of(&p->options)->alpha;
    AUTO_FREE double *d = NULL, *r = NULL;
    int64_t n = p->cols;
    if (isnan(p->damping)) return OK; /* the layer is rounded to nearest */
    PASS(mem_alloc(&d, n * n, sizeof *d, "differences of inputs", e));
    PASS(mem_alloc(&r, n * n, sizeof *r, "the Hessian's factor", e));
    PASS(differences_fill(d, p, in, e));
    gptq_factor_unpack(p, r);
    triangular_divide(d, n, r, n, true);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) d[i * n + j] = j > i ? alpha * d[i * n + j] : 0;
    triangular_divide(d, n, r, n, false);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) p->asymmetry[i * n + j] = (float)d[i * n + j];
    return OK;
}

static enum status gptaq_prepare(const struct quant_input *in, const struct quant_options *o,
                                 void **out, struct err *e)
{
    PASS(gptq_prepare(in, o, out, e));
    struct gptq_prepared *p = *out;
    p->consistent = own_of(o)->consistent;
    if (o->symmetric && own_of(o)->symmetric_grid == SYMMETRIC_GPTAQ) p->form = GRID_AWQ;
    PASS(mem_zero(&p->asymmetry, p->cols * p->cols, sizeof *p->asymmetry, "a correction", e));
    if (in->team && in->team->rank != in->owner) return OK;
    return correction_make(p, in, e);
}

static enum status gptaq_share(const struct quant_input *in, void *prepared, enum status made,
                               struct err *e)
{
    struct gptq_prepared *p = prepared;
    PASS(gptq_share(in, prepared, made, e));
    return team_send(in->team, in->owner, p->asymmetry,
                     p->cols * p->cols * (int64_t)sizeof *p->asymmetry, e);
}

static enum status gptaq_run(const struct quant_job *job, struct quant_report *report,
                             struct err *e)
{
    PASS(quant_gptq.run(job, report, e));
    report->relative_error = NAN; /* of the corrected weights, not of the layer's */
    return OK;
}

static enum status gptaq_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    NEED(o->range_search == 0 || own_of(o)->symmetric_grid == SYMMETRIC_GPTQ, ERR_USAGE,
         "range_search needs symmetric_grid: gptq");
    return gptq_check(bits, o, e);
}

static void gptaq_memory(const struct quant_options *o, const struct quant_extent *x,
                         struct quant_memory *out)
{
    int64_t square = x->cols * x->cols;
    quant_gptq.memory(o, x, out);
    out->prepared += square * (int64_t)sizeof(float);
    out->preparing += square * (int64_t)sizeof(double);
    out->running +=
        x->threads * gptq_band_tiles(x->cols) * x->cols * TILE_ROWS * (int64_t)sizeof(float);
}

/* Beside GPTQ: two divisions by the factor, and a product of the rows with P. */
static void gptaq_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                       struct quant_cost *out)
{
    double n = (double)cols;
    quant_gptq.cost(o, rows, cols, out);
    out->prepare += 2 * n * n * n;
    out->run += (double)rows * n * n;
}

static const char *const symmetric_grids[] = {"gptq", "gptaq", NULL};

static const struct option own_options[] = {
    OPTION(gptaq_options, alpha, REAL,
           "gptaq: factor of the correction towards the full-precision outputs", .fallback = "0.25",
           .minimum = 0, .maximum = 1),
    OPTION(gptaq_options, consistent, BOOL,
           "gptaq: weights before they are rounded are corrected for everywhere; the authors' code "
           "takes rounded ones from one block of columns to the next",
           .fallback = "false"),
    OPTION(gptaq_options, symmetric_grid, CHOICE,
           "gptaq: symmetric grids are those of GPTQ, or those of the authors' code with scale "
           "max / (2^(bits-1) - 1)",
           .fallback = "gptq", .choices = symmetric_grids),
};

const struct quant_method quant_gptaq = {
    .name = "gptaq",
    .doc = "gptq that aims at the full-precision model's outputs (asymmetric calibration)",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .results = QUANT_UNIFORM_GRID | QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO | QUANT_DEAD_IS_ZERO,
    .options = "group_size symmetric range_search scale_dtype " GPTQ_OPTIONS,
    .own = {OPTION_ROWS(own_options, gptaq_options)},
    .check = gptaq_check,
    .statistics = WANTS(STATISTIC_GRAM) | WANTS(STATISTIC_ASYMMETRY),
    .unrounded = true,
    .describe_grids = grid_describe,
    .prepare = gptaq_prepare,
    .share = gptaq_share,
    .release = gptq_release,
    .run = gptaq_run,
    .memory = gptaq_memory,
    .cost = gptaq_cost,
};
