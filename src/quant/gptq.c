/* GPTQ (Frantar et al. 2022) on the factor H = R Rᵀ alone. */
#include "quant/gptq.h"
#include "quant/grids.h"
#include "quant/job.h"
#include "quant/mixing.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

void gptq_release(void *prepared)
{
    struct gptq_prepared *p = prepared;
    if (!p) return;
    for (int64_t i = 0; p->blocks && i < p->n_blocks; i++) free(p->blocks[i].inverse);
    free(p->blocks);
    free(p->factor);
    free(p->asymmetry);
    free(p->dead);
    free(p->order);
    free(p);
}

/* diagonal (cols) = the diagonal of H from that of the sums; 1 for channels whose input is always
 * zero, which p->dead marks. */
static enum status diagonal_make(struct gptq_prepared *p, const struct quant_input *in,
                                 double *diagonal, struct err *e)
{
    double scale = gptq_hessian_scale(in, &p->options);
    for (int64_t i = 0; i < in->cols; i++) {
        diagonal[i] *= scale;
        if (diagonal[i] > 0) continue;
        if (!p->dead) PASS(mem_zero(&p->dead, in->cols, sizeof *p->dead, "dead channels", e));
        p->dead[i] = true;
        diagonal[i] = 1;
    }
    return OK;
}

/* Columns by decreasing diagonal, or (group-aware order, arXiv 2505.14638) whole groups by their
 * largest entry, columns so inside them, and behind the last whole group as they are; or outlier
 * columns last. */
static enum status order_make(struct gptq_prepared *p, const struct quant_input *in,
                              const double *diagonal, struct err *e)
{
    const struct quant_options *o = &p->options;
    const int64_t n = p->cols, size = o->order == ORDER_GROUP ? min64(o->group_size, n + 1) : n;
    const int64_t groups = size > 0 ? n / size : 0;
    AUTO_FREE double *score = NULL;
    AUTO_FREE int64_t *first = NULL;
    if (o->outlier_columns > 0) return grid_order_outliers(in, o, n, &p->order, e);
    if (o->order == ORDER_NONE) return OK;
    PASS(mem_alloc(&p->order, n, sizeof *p->order, "the order of columns", e));
    PASS(mem_zero(&score, n + groups, sizeof *score, "the order of columns", e));
    PASS(mem_alloc(&first, groups, sizeof *first, "the order of columns", e));
    double *most = score + n;
    for (int64_t j = 0; j < n; j++) {
        score[j] = -diagonal[j];
        if (j / size < groups) most[j / size] = fmin(most[j / size], score[j]);
        p->order[j] = j;
    }
    PASS(grid_order(most, groups, first, e));
    for (int64_t k = 0; k < groups; k++) {
        int64_t *order = p->order + k * size;
        PASS(grid_order(score + first[k] * size, size, order, e));
        for (int64_t j = 0; j < size; j++) order[j] += first[k] * size;
    }
    return OK;
}

/* Gets the diagonal of the sums and checks that all sums are finite. */
static enum status diagonal_sums(const struct quant_input *in, double *sums, struct err *e)
{
    NEED(in->samples > 0 && in->tokens > 0, ERR_NUMERIC,
         "the Hessian has no calibration sequences");
    if (in->dist) {
        PASS(dist_diagonal(in->dist, sums, e));
        return OK;
    }
    PASS(job_gram_check(in, e));
    const double *gram = in->statistic[STATISTIC_GRAM];
    for (int64_t i = 0; i < in->cols; i++) sums[i] = gram[i * in->cols + i];
    return OK;
}

/* Makes everything except the factor. Collective if the sums are distributed. */
static enum status prepare_order(struct gptq_prepared *p, const struct quant_input *in,
                                 double *diagonal, struct err *e)
{
    PASS(diagonal_sums(in, diagonal, e));
    PASS(team_agree(in->dist ? in->team : NULL, diagonal_make(p, in, diagonal, e), e));
    return team_agree(in->dist ? in->team : NULL, order_make(p, in, diagonal, e), e);
}

/* Prepares on this rank alone. */
static enum status prepare_alone(struct gptq_prepared *p, const struct quant_input *in,
                                 double *diagonal, struct err *e)
{
    int64_t n = p->cols;
    AUTO_FREE double *h = NULL;
    PASS(prepare_order(p, in, diagonal, e));
    PASS(mem_alloc(&h, n * n, sizeof *h, "the Hessian", e));
    PASS(gptq_factor(p, in, diagonal, h, e));
    PASS(gptq_inverses(p, h, e));
    gptq_factor_pack(p, h);
    return OK;
}

/* Allocates what a rank that did not factor receives. */
static enum status share_room(struct gptq_prepared *p, bool ordered, bool with_dead, struct err *e)
{
    if (ordered && !p->order)
        PASS(mem_alloc(&p->order, p->cols, sizeof *p->order, "the order of columns", e));
    if (with_dead && !p->dead)
        PASS(mem_zero(&p->dead, p->cols, sizeof *p->dead, "dead channels", e));
    return OK;
}

static enum status prepare_room(struct gptq_prepared **out, const struct quant_input *in,
                                const struct quant_options *options, double **diagonal,
                                struct err *e)
{
    int64_t n = in->cols;
    PASS(mem_zero(out, 1, sizeof **out, "a Hessian's factor", e));
    struct gptq_prepared *p = *out;
    p->options = *options;
    p->cols = n;
    p->dist = in->dist;
    PASS(mem_alloc(diagonal, n, sizeof **diagonal, "the Hessian's diagonal", e));
    PASS(gptq_blocks(p, in->dist == NULL, e));
    if (in->dist) return OK;
    return mem_alloc(&p->factor, gptq_factor_floats(p), sizeof *p->factor, "the Hessian's factor",
                     e);
}

enum status gptq_prepare(const struct quant_input *in, const struct quant_options *options,
                         void **out, struct err *e)
{
    CLEANUP(gptq_release_at) struct gptq_prepared *p = NULL;
    AUTO_FREE double *diagonal = NULL, *gram = NULL;
    struct quant_input mixed;
    *out = NULL;
    const enum status st = prepare_room(&p, in, options, &diagonal, e);
    PASS(team_agree(in->dist ? in->team : NULL, st, e));
    if (in->dist) {
        PASS(prepare_order(p, in, diagonal, e));
        PASS(gptq_factor(p, in, diagonal, NULL, e));
    } else if (!in->team || in->team->rank == in->owner) {
        PASS(mixing_input(in, options, &mixed, &gram, e));
        PASS(prepare_alone(p, &mixed, diagonal, e));
    }
    *out = TAKE(p);
    return OK;
}

/* Sends the owner's result to the other ranks of the team. */
enum status gptq_share(const struct quant_input *in, void *prepared, enum status made,
                       struct err *e)
{
    struct gptq_prepared *p = prepared;
    const struct quant_team *t = in->team;
    if (!t || in->dist) return made;
    PASS(team_agree(t, made, e));
    struct {
        double damping, lambda;
        bool ordered, dead;
    } head = {p->damping, p->lambda, p->order != NULL, p->dead != NULL};
    PASS(team_send(t, in->owner, &head, sizeof head, e));
    p->damping = head.damping;
    p->lambda = head.lambda;
    PASS(team_agree(t, share_room(p, head.ordered, head.dead, e), e));
    if (p->order) PASS(team_send(t, in->owner, p->order, p->cols * (int64_t)sizeof *p->order, e));
    if (p->dead) PASS(team_send(t, in->owner, p->dead, p->cols * (int64_t)sizeof *p->dead, e));
    PASS(team_send(t, in->owner, p->factor, gptq_factor_floats(p) * (int64_t)sizeof *p->factor, e));
    for (int64_t i = 0; i < p->n_blocks; i++) {
        int64_t m = p->blocks[i].reach - p->blocks[i].begin;
        PASS(team_send(t, in->owner, p->blocks[i].inverse, m * m * (int64_t)sizeof(float), e));
    }
    return OK;
}

static enum status sweep(const struct quant_job *all, struct gptq_sums *sums, struct err *e)
{
    struct quant_job job = *all;
    AUTO_FREE double *shared = NULL;
    PASS(grid_share(&job, &shared, e));
    return gptq_sweep(&job, sums, e);
}

static enum status gptq_plain(const struct quant_job *job, struct quant_report *report,
                              struct err *e)
{
    const struct gptq_prepared *p = job->prepared;
    struct gptq_sums sums;
    NEED(p && p->cols == job->cols, ERR_SHAPE,
         "the weights have %lld columns, the Hessian's factor %lld", (long long)job->cols,
         p ? (long long)p->cols : 0LL);
    PASS(team_agree(job->team, job_check(job, e), e));
    PASS(sweep(job, &sums, e));
    PASS(team_agree(job->team, grid_outliers(job, p->order, job->q, e), e));
    if (job->unrounded)
        PASS(team_agree(job->team, grid_outliers(job, p->order, job->unrounded, e), e));
    PASS(job_report(job, grid_bits(job), report, e));
    NEED(isfinite(sums.loss), ERR_NUMERIC, "the error of the layer is not finite");
    report->damping = p->damping;
    if (isnan(p->damping)) return OK; /* R = I is not the Hessian's factor */
    report->error = sums.loss / 2;
    report->relative_error = error_share(sums.loss - p->lambda * sums.loss_plain,
                                         sums.weight - p->lambda * sums.weight_plain);
    return OK;
}

static enum status gptq_run(const struct quant_job *job, struct quant_report *report, struct err *e)
{
    return mixing_run(job, gptq_plain, report, e);
}

enum status gptq_check(int64_t bits, const struct quant_options *o, struct err *e)
{
    (void)bits;
    NEED(o->order != ORDER_GROUP || o->group_size > 0, ERR_USAGE,
         "order: group needs a group_size; with whole rows say activation");
    return grid_check(o, e);
}

/* The factor in f32 and the inverses of its diagonal blocks; during prepare also H in f64. */
static void gptq_memory(const struct quant_options *o, const struct quant_extent *x,
                        struct quant_memory *out)
{
    int64_t cols = x->cols, block = min64(o->block_size, cols);
    int64_t reach = o->group_size > 0 && !o->static_groups && o->group_size > block
                        ? min64(block + o->group_size, cols)
                        : block;
    int64_t together = gptq_panel_blocks(block, cols);
    int64_t panel = min64(reach + (together - 1) * block, cols);
    int64_t inverses = (cols + block - 1) / block * reach * reach * (int64_t)sizeof(float);
    const struct gptq_prepared p = {.options = *o,
                                    .cols = cols,
                                    .n_blocks = (cols + block - 1) / block,
                                    .panel_blocks = together};
    out->prepared = gptq_factor_floats(&p) * (int64_t)sizeof(float) + inverses;
    out->preparing = (cols * cols + reach * reach) * (int64_t)sizeof(double);
    out->running = gptq_sweep_bytes(o, x);
    mixing_memory(o, x, true, out);
    if (!x->distributed) return;
    /* One panel in f32 with its corner (in f64 and in f32), another in transfer; buffers of
     * dist_fill and ScaLAPACK's panels. */
    int64_t doubles = sizeof(double);
    out->prepared = cols * doubles;
    out->preparing = 8 * cols * doubles + dist_factor_bytes(cols, x->ranks);
    out->running +=
        cols * panel * (int64_t)sizeof(float) + dist_panel_bytes(cols, panel) +
        (panel * panel + reach * reach) * doubles +
        ((together + 1) * reach * reach + gptq_panel_own_most(&p)) * (int64_t)sizeof(float);
}

/* docs/math/gptq.md: the factor takes n³/3, the sweep rows n². That |W R|² takes as many again is
 * in the fraction of the rate that sweeps reach (memory/cost.c). */
static void gptq_cost(const struct quant_options *o, int64_t rows, int64_t cols,
                      struct quant_cost *out)
{
    double n = (double)cols;
    out->prepare = n * n * n / 3;
    out->run = grid_flop(rows, cols, o) + (double)rows * n * n;
    mixing_cost(o, rows, cols, true, out);
}

const struct quant_method quant_gptq = {
    .name = "gptq",
    .doc = "column by column, each column's error compensated by the later ones (Hessian of the "
           "calibration inputs)",
    .bits_min = QUANT_BITS_MIN,
    .bits_max = QUANT_BITS_MAX,
    .results = QUANT_UNIFORM_GRID | QUANT_ROWS_ALONE | QUANT_ZERO_IS_ZERO | QUANT_DEAD_IS_ZERO,
    .options = GRID_OPTIONS " " GPTQ_OPTIONS " true_sequential hessian",
    .check = gptq_check,
    .only_bits = grid_only_bits,
    .statistics = WANTS(STATISTIC_GRAM),
    .distributed = true,
    .unrounded = true,
    .describe_grids = grid_describe,
    .prepare_options = "group_size mixing mixing_seed outlier_columns outlier_score outlier_least "
                       "outlier_relative down_bits " GPTQ_OPTIONS,
    .prepare = gptq_prepare,
    .share = gptq_share,
    .release = gptq_release,
    .run = gptq_run,
    .memory = gptq_memory,
    .cost = gptq_cost,
};
