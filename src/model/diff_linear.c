/* Derivatives of the linear layers of a stage, whose outputs lie side by side in a row. */
#include "math/row.h"
#include "model/diff_ops.h"

enum { COLUMNS = 256, ROWS = 64 };

/* g (n) += the column sums of x (T, n): in `real` over runs of ROWS rows, which are added in f64.
 */
static void add_columns(real *g, const real *x, int64_t ldx, int64_t T, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < n; c += COLUMNS) {
        double sum[COLUMNS] = {0};
        int64_t m = n - c < COLUMNS ? n - c : COLUMNS;
        for (int64_t t = 0; t < T; t += ROWS) {
            real part[COLUMNS] = {0};
            row_sum(part, x + t * ldx + c, ldx, T - t < ROWS ? T - t : ROWS, m);
            for (int64_t i = 0; i < m; i++) sum[i] += (double)part[i];
        }
        for (int64_t i = 0; i < m; i++) g[c + i] += (real)sum[i];
    }
}

static void add_bias(const struct diff_pass *p, real *y, int64_t ldy, const real *b, int64_t n)
{
    const struct diff_work *w = p->work;
    if (!b) return;
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++)
        row_add_bias(y + w->tiles[i].row * ldy, ldy, b, w->tiles[i].n, n);
}

/* One linear of the stage: weight (n, c); its outputs start at `column` of rows of ld values. */
struct wiring {
    int k; /* its number in the block */
    int64_t n, c, column, ld, T;
};

static void value(const struct diff_op *op, const struct diff_pass *p, struct wiring l)
{
    real *y = p->value->b[op->y] + l.column;
    mat_with_weights(&p->work->products, MAT_NT, y, l.ld, p->value->b[op->a], l.c,
                     p->w->weight[l.k], l.c, l.T, l.n, l.c, false);
    add_bias(p, y, l.ld, p->w->bias[l.k], l.n);
}

static void tangent(const struct diff_op *op, const struct diff_pass *p, struct wiring l)
{
    const real *x = p->value->b[op->a], *dx = p->tangent->b[op->a], *v = p->v->weight[l.k];
    real *y = p->tangent->b[op->y] + l.column;
    mat_with_weights(&p->work->products, MAT_NT, y, l.ld, dx, l.c, p->w->weight[l.k], l.c, l.T, l.n,
                     l.c, false);
    if (v) mat_add_product(&p->work->products, MAT_NT, y, l.ld, x, l.c, v, l.c, l.T, l.n, l.c);
    add_bias(p, y, l.ld, p->v->bias[l.k], l.n);
}

static void adjoint(const struct diff_op *op, const struct diff_pass *p, struct wiring l)
{
    const real *x = p->value->b[op->a], *gy = p->adjoint->b[op->y] + l.column;
    real *gx = p->adjoint->b[op->a];
    mat_with_weights(&p->work->products, MAT_NN, gx, l.c, gy, l.ld, p->w->weight[l.k], l.c, l.T,
                     l.c, l.n, op->add_a || l.column > 0);
    if (!p->g) return;
    if (p->g->weight[l.k])
        mat_add_product(&p->work->products, MAT_TN, p->g->weight[l.k], l.c, gy, l.ld, x, l.c, l.n,
                        l.c, l.T);
    if (p->g->bias[l.k]) add_columns(p->g->bias[l.k], gy, l.ld, l.T, l.n, p->work->threads);
}

static void adjoint_tangent(const struct diff_op *op, const struct diff_pass *p, struct wiring l)
{
    const real *x = p->value->b[op->a], *dx = p->tangent->b[op->a], *v = p->v->weight[l.k];
    const real *gy = p->adjoint->b[op->y] + l.column;
    const real *dgy = p->adjoint_tangent->b[op->y] + l.column;
    real *dgx = p->adjoint_tangent->b[op->a], *g = p->g->weight[l.k];
    mat_with_weights(&p->work->products, MAT_NN, dgx, l.c, dgy, l.ld, p->w->weight[l.k], l.c, l.T,
                     l.c, l.n, op->add_a || l.column > 0);
    if (v) mat_add_product(&p->work->products, MAT_NN, dgx, l.c, gy, l.ld, v, l.c, l.T, l.c, l.n);
    if (g) mat_add_product(&p->work->products, MAT_TN, g, l.c, dgy, l.ld, x, l.c, l.n, l.c, l.T);
    if (g) mat_add_product(&p->work->products, MAT_TN, g, l.c, gy, l.ld, dx, l.c, l.n, l.c, l.T);
    if (p->g->bias[l.k]) add_columns(p->g->bias[l.k], dgy, l.ld, l.T, l.n, p->work->threads);
}

void diff_linear(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    static void (*const forms[DIFF_FORMS])(const struct diff_op *op, const struct diff_pass *p,
                                           struct wiring l) = {value, tangent, adjoint,
                                                               adjoint_tangent};
    struct wiring l = {.ld = p->program->width[op->y], .T = p->work->tokens};
    for (; l.k < p->program->n_linears; l.k++) {
        const struct linear *linear = &p->program->linear[l.k];
        if (linear->stage != op->arg) continue;
        l.n = linear->rows;
        l.c = linear->cols;
        forms[form](op, p, l);
        l.column += l.n;
    }
}
