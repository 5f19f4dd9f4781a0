/* The factor of GPTQ's Hessian: damping, the fallbacks if it does not suffice, and the inverses of
 * the factor's diagonal blocks. */
#include "math/linalg.h"
#include "math/strip.h"
#include "quant/gptq.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

double gptq_hessian_scale(const struct quant_input *in, const struct quant_options *o)
{
    return 2.0 / (double)(o->hessian_per_token ? in->tokens : in->samples);
}

/* h = upper triangle of the damped H in the order of the sweep. Off the diagonal the entries of
 * dead channels are already zero. Every entry is rounded to f32, because the reference's H is f32
 * and near a tie between two codes the last bits of H decide. An ulp of f32 is negligible compared
 * with the damping; the factorisation is f64. */
static void hessian_fill(double *h, const struct gptq_prepared *p, const struct quant_input *in,
                         const double *diagonal, double lambda)
{
    int64_t n = in->cols;
    const double *gram = in->statistic[STATISTIC_GRAM];
    double scale = gptq_hessian_scale(in, &p->options);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = 0; i < n; i++) {
        int64_t a = p->order ? p->order[i] : i;
        h[i * n + i] = (double)((float)diagonal[a] + (float)lambda);
        for (int64_t j = i + 1; j < n; j++) {
            int64_t b = p->order ? p->order[j] : j;
            double sum = a < b ? gram[a * n + b] : gram[b * n + a];
            h[i * n + j] = (double)(float)(scale * sum);
        }
    }
}

/* Tries to factor with lambda on the diagonal, into h (cols, cols) or in place if the sums are
 * distributed. */
static enum status factor_try(const struct gptq_prepared *p, const struct quant_input *in,
                              const double *diagonal, double *h, struct err *e)
{
    AUTO_FREE double *damped = NULL;
    if (!in->dist) {
        hessian_fill(h, p, in, diagonal, p->lambda);
        return chol_upper(h, in->cols, e);
    }
    enum status st = mem_alloc(&damped, in->cols, sizeof *damped, "a Hessian's diagonal", e);
    PASS(team_agree(in->team, st, e));
    for (int64_t i = 0; i < in->cols; i++)
        damped[i] = (double)((float)diagonal[p->order ? p->order[i] : i] + (float)p->lambda);
    return dist_factor(in->dist, p->order, gptq_hessian_scale(in, &p->options), damped, e);
}

/* The next damping to try after the factorisation failed; 0: none. With increments it stays below
 * 1, as in GPTQModel; else it is multiplied by ten up to three times (a damping of 0 becomes 1e-4
 * first). */
static double damping_next(const struct quant_options *o, double damping, int failures)
{
    if (o->damping_increment > 0)
        return damping + o->damping_increment < 1 ? damping + o->damping_increment : 0;
    if (failures > 3) return 0;
    return damping > 0 ? damping * 10 : 1e-4;
}

/* Increases the damping until h, with `floor` added to its diagonal, has a factor. ERR_NUMERIC: the
 * last damping did not suffice either. */
static enum status damping_find(struct gptq_prepared *p, const struct quant_input *in,
                                const double *diagonal, double floor, double *h, struct err *e)
{
    enum status st = OK;
    double mean = 0, damping = p->options.damping;
    for (int64_t i = 0; i < in->cols; i++) mean += diagonal[i];
    mean /= (double)in->cols;
    for (int failures = 1;; failures++) {
        p->lambda = floor + damping * (mean + floor);
        p->damping = floor > 0 ? p->lambda / mean : damping;
        st = factor_try(p, in, diagonal, h, e);
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

/* With R = I no error is compensated, so that the sweep rounds to nearest. */
static void factor_identity(struct gptq_prepared *p, double *h)
{
    p->damping = NAN;
    p->lambda = 0;
    if (p->dist) return;
    memset(h, 0, (size_t)(p->cols * p->cols) * sizeof *h);
    for (int64_t i = 0; i < p->cols; i++) h[i * p->cols + i] = 1;
}

enum { FLOORS = 6 };

/* As in GPTQModel (hessian_inverse since 5.2): first damping alone, then with floors of 1e-6, 1e-5,
 * ... times the largest diagonal entry, then rounding to nearest. */
enum status gptq_factor(struct gptq_prepared *p, const struct quant_input *in,
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

struct gptq_block gptq_block_at(const struct gptq_prepared *p, int64_t i)
{
    struct gptq_block b = {0};
    int64_t size = min64(p->options.block_size, p->cols), group = p->options.group_size;
    b.begin = i * size;
    b.end = min64(b.begin + size, p->cols);
    b.reach = b.end;
    if (group < 0 || p->options.static_groups) return b;
    int64_t last = (b.end - 1) / group * group; /* the last group start before the end */
    if (last >= b.begin && group < p->cols - last) b.reach = last + group;
    if (last >= b.begin && group >= p->cols - last) b.reach = p->cols;
    if (b.reach < b.end) b.reach = b.end;
    return b;
}

/* Matrices of fewer columns are swept in single tiles and blocks. */
enum { MANY_COLUMNS = 4096, PANEL_COLUMNS = 512, WIDE_TILES = 2 };

int64_t gptq_band_tiles(int64_t cols)
{
    return cols >= MANY_COLUMNS ? WIDE_TILES : 1;
}

int64_t gptq_panel_blocks(int64_t block_size, int64_t cols)
{
    return cols >= MANY_COLUMNS ? max64(PANEL_COLUMNS / block_size, 1) : 1;
}

void gptq_shape(struct gptq_prepared *p, int64_t band_tiles, int64_t panel_blocks)
{
    p->band_tiles = band_tiles;
    p->panel_blocks = panel_blocks;
    p->strips = band_tiles > 1 && strip_fast();
    p->widest_panel = 0;
    for (int64_t i = 0; i < p->n_blocks; i++) {
        const struct gptq_block *first = &p->blocks[i / panel_blocks * panel_blocks];
        p->widest_panel = max64(p->widest_panel, p->blocks[i].reach - first->begin);
    }
}

enum status gptq_blocks(struct gptq_prepared *p, bool inverses, struct err *e)
{
    int64_t size = min64(p->options.block_size, p->cols);
    p->n_blocks = (p->cols + size - 1) / size;
    PASS(mem_zero(&p->blocks, p->n_blocks, sizeof *p->blocks, "blocks of columns", e));
    for (int64_t i = 0; i < p->n_blocks; i++) {
        struct gptq_block *b = &p->blocks[i];
        *b = gptq_block_at(p, i);
        int64_t m = b->reach - b->begin;
        p->widest = max64(p->widest, m);
        if (inverses)
            PASS(mem_alloc(&b->inverse, m * m, sizeof *b->inverse, "the inverse of a block", e));
    }
    gptq_shape(p, gptq_band_tiles(p->cols), gptq_panel_blocks(size, p->cols));
    return OK;
}

enum status gptq_inverses(struct gptq_prepared *p, const double *r, struct err *e)
{
    AUTO_FREE double *inverse = NULL;
    PASS(mem_alloc(&inverse, p->widest * p->widest, sizeof *inverse, "the inverse of a block", e));
    for (int64_t i = 0; i < p->n_blocks; i++) {
        struct gptq_block *b = &p->blocks[i];
        int64_t m = b->reach - b->begin;
        PASS(triangular_inverse(inverse, r, p->cols, b->begin, m, e));
        for (int64_t k = 0; k < m * m; k++) b->inverse[k] = (float)inverse[k];
    }
    return OK;
}
