/* Derivatives of the linear layers of a stage, whose outputs lie side by side in a row. */
#include "linalg/matmul.h"
#include "model/diff_ops.h"
#include "tensor/row.h"

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

/* Loops over the program's linears k of the stage; the body advances `column`, where k's outputs
 * start. */
#define EACH_LINEAR(k, column)                                                                     \
    int64_t column = 0;                                                                            \
    for (int k = 0; k < p->program->n_linears; k++)                                                \
        if (p->program->linear[k].stage == op->arg)

static void value(const struct diff_op *op, const struct diff_pass *p)
{
    const real *x = p->value->b[op->a];
    int64_t ld = p->program->width[op->y], T = p->work->tokens;
    EACH_LINEAR(k, column)
    {
        int64_t n = p->program->linear[k].rows, c = p->program->linear[k].cols;
        real *y = p->value->b[op->y] + column;
        mat_nt(y, ld, x, c, p->w->weight[k], c, T, n, c, 0);
        add_bias(p, y, ld, p->w->bias[k], n);
        column += n;
    }
}

static void tangent(const struct diff_op *op, const struct diff_pass *p)
{
    const real *x = p->value->b[op->a], *dx = p->tangent->b[op->a];
    int64_t ld = p->program->width[op->y], T = p->work->tokens;
    EACH_LINEAR(k, column)
    {
        int64_t n = p->program->linear[k].rows, c = p->program->linear[k].cols;
        real *y = p->tangent->b[op->y] + column;
        mat_nt(y, ld, dx, c, p->w->weight[k], c, T, n, c, 0);
        if (p->v->weight[k]) mat_nt(y, ld, x, c, p->v->weight[k], c, T, n, c, 1);
        add_bias(p, y, ld, p->v->bias[k], n);
        column += n;
    }
}

static void adjoint(const struct diff_op *op, const struct diff_pass *p)
{
    const real *x = p->value->b[op->a];
    real *gx = p->adjoint->b[op->a];
    int64_t ld = p->program->width[op->y], T = p->work->tokens;
    EACH_LINEAR(k, column)
    {
        int64_t n = p->program->linear[k].rows, c = p->program->linear[k].cols;
        const real *gy = p->adjoint->b[op->y] + column;
        mat_nn(gx, c, gy, ld, p->w->weight[k], c, T, c, n, op->add_a || column > 0);
        if (p->g && p->g->weight[k]) mat_tn(p->g->weight[k], c, gy, ld, x, c, n, c, T, 1);
        if (p->g && p->g->bias[k]) add_columns(p->g->bias[k], gy, ld, T, n, p->work->threads);
        column += n;
    }
}

static void adjoint_tangent(const struct diff_op *op, const struct diff_pass *p)
{
    const real *x = p->value->b[op->a], *dx = p->tangent->b[op->a];
    real *dgx = p->adjoint_tangent->b[op->a];
    int64_t ld = p->program->width[op->y], T = p->work->tokens;
    EACH_LINEAR(k, column)
    {
        int64_t n = p->program->linear[k].rows, c = p->program->linear[k].cols;
        const real *gy = p->adjoint->b[op->y] + column;
        const real *dgy = p->adjoint_tangent->b[op->y] + column;
        mat_nn(dgx, c, dgy, ld, p->w->weight[k], c, T, c, n, op->add_a || column > 0);
        if (p->v->weight[k]) mat_nn(dgx, c, gy, ld, p->v->weight[k], c, T, c, n, 1);
        if (p->g->weight[k]) {
            mat_tn(p->g->weight[k], c, dgy, ld, x, c, n, c, T, 1);
            mat_tn(p->g->weight[k], c, gy, ld, dx, c, n, c, T, 1);
        }
        if (p->g->bias[k]) add_columns(p->g->bias[k], dgy, ld, T, n, p->work->threads);
        column += n;
    }
}

void diff_linear(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    static void (*const forms[DIFF_FORMS])(const struct diff_op *op, const struct diff_pass *p) = {
        value, tangent, adjoint, adjoint_tangent};
    forms[form](op, p);
}
