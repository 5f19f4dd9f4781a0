/* Derivatives of the MLP's activation, of rounding and of the additions of the residual stream. */
#include "activation/bitnet.h"
#include "math/row.h"
#include "model/diff_ops.h"
#include <math.h>
#include <string.h>

/* The derivative of softplus. */
static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* xIELU's scalars, a = softplus(alpha_p) and b = beta + softplus(alpha_n), and their tangents. */
static struct diff_xielu xielu_of(const struct diff_pass *p)
{
    real *const *w = p->w->extra;
    struct diff_xielu c = {.beta = w[EXTRA_BETA] ? *w[EXTRA_BETA] : (real)0.5,
                           .eps = w[EXTRA_EPS] ? *w[EXTRA_EPS] : (real)-1e-6};
    c.a = (real)softplus(*w[EXTRA_ALPHA_P]);
    c.b = c.beta + (real)softplus(*w[EXTRA_ALPHA_N]);
    const real *dp = p->v ? p->v->extra[EXTRA_ALPHA_P] : NULL;
    const real *dn = p->v ? p->v->extra[EXTRA_ALPHA_N] : NULL;
    if (dp) c.da = (real)(sigmoid(*w[EXTRA_ALPHA_P]) * *dp);
    if (dn) c.db = (real)(sigmoid(*w[EXTRA_ALPHA_N]) * *dn);
    return c;
}

/* Adds the adjoints of the alphas, from those of a and b summed over the tiles; with `tangent` the
 * tangents of the adjoints: d (sigmoid g) = sigmoid dg + sigmoid' dalpha g. */
static void xielu_scalars(const struct diff_pass *p, bool tangent)
{
    static const int extra[2] = {EXTRA_ALPHA_P, EXTRA_ALPHA_N};
    for (int k = 0; k < 2; k++) {
        real *to = p->g ? p->g->extra[extra[k]] : NULL;
        const real *v = p->v ? p->v->extra[extra[k]] : NULL;
        double g = 0, dg = 0, s = sigmoid(*p->w->extra[extra[k]]);
        if (!to) continue;
        for (int64_t i = 0; i < p->work->n_tiles; i++) {
            const double *sums = p->work->scalars + 4 * i;
            g += sums[k];
            dg += sums[2 + k];
        }
        *to += (real)(tangent ? s * dg + (v ? s * (1 - s) * *v * g : 0) : s * g);
    }
}

/* One token's row of all arrays that the activation reads or writes; NULL: not in this form. */
struct row {
    const real *x, *up, *dx, *dup, *gy, *dgy;
    real *y, *dy, *gx, *gup, *dgx, *dgup;
};

static real *at(const struct diff_lane *l, enum diff_buffer b, int64_t t, int64_t width)
{
    return l ? l->b[b] + t * width : NULL;
}

static struct row row_of(const struct diff_op *op, const struct diff_pass *p, int64_t t)
{
    int64_t I = p->program->width[op->y], W = p->program->width[op->a], up = p->spec->gated ? I : 0;
    struct row r = {.x = at(p->value, op->a, t, W),
                    .dx = at(p->tangent, op->a, t, W),
                    .gx = at(p->adjoint, op->a, t, W),
                    .dgx = at(p->adjoint_tangent, op->a, t, W),
                    .y = at(p->value, op->y, t, I),
                    .dy = at(p->tangent, op->y, t, I),
                    .gy = at(p->adjoint, op->y, t, I),
                    .dgy = at(p->adjoint_tangent, op->y, t, I)};
    if (up) r.up = r.x + up;
    if (up && r.dx) r.dup = r.dx + up;
    if (up && r.gx) r.gup = r.gx + up;
    if (up && r.dgx) r.dgup = r.dgx + up;
    return r;
}

static void xielu_row(enum diff_form form, const struct diff_xielu *c, const struct row *r,
                      int64_t n, double sums[4])
{
    if (form == DIFF_VALUE) diff_xielu(c, r->y, r->x, n);
    if (form == DIFF_TANGENT) diff_xielu_tangent(c, r->dy, r->x, r->dx, n);
    if (form == DIFF_ADJOINT) diff_xielu_adjoint(c, r->gx, r->x, r->gy, n, sums);
    if (form == DIFF_ADJOINT_TANGENT)
        diff_xielu_adjoint_tangent(c, r->dgx, r->x, r->dx, r->gy, r->dgy, n, sums, sums + 2);
}

static void act_row(enum diff_form form, enum diff_activation f, const struct row *r, int64_t n)
{
    if (form == DIFF_VALUE) diff_act(f, r->y, r->x, r->up, n);
    if (form == DIFF_TANGENT) diff_act_tangent(f, r->dy, r->x, r->dx, r->up, r->dup, n);
    if (form == DIFF_ADJOINT) diff_act_adjoint(f, r->gx, r->gup, r->x, r->up, r->gy, n);
    if (form == DIFF_ADJOINT_TANGENT)
        diff_act_adjoint_tangent(f, r->dgx, r->dgup, r->x, r->dx, r->up, r->dup, r->gy, r->dgy, n);
}

void diff_activate(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    static const enum diff_activation known[] = {[ACT_SILU] = DIFF_SILU,
                                                 [ACT_GELU] = DIFF_GELU,
                                                 [ACT_GELU_TANH] = DIFF_GELU_TANH,
                                                 [ACT_RELU2] = DIFF_RELU2};
    bool xielu = p->spec->activation == ACT_XIELU;
    struct diff_xielu c = {0};
    const struct diff_work *w = p->work;
    int64_t n = p->program->width[op->y];
    if (xielu) c = xielu_of(p);
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        double *sums = w->scalars + 4 * i;
        memset(sums, 0, 4 * sizeof *sums);
        for (int64_t t = w->tiles[i].row; t < w->tiles[i].row + w->tiles[i].n; t++) {
            struct row r = row_of(op, p, t);
            if (xielu)
                xielu_row(form, &c, &r, n, sums);
            else
                act_row(form, known[p->spec->activation], &r, n);
        }
    }
    if (xielu && form >= DIFF_ADJOINT) xielu_scalars(p, form == DIFF_ADJOINT_TANGENT);
}

static void sum_forward(const struct diff_op *op, const struct diff_pass *p,
                        const struct diff_lane *l)
{
    const struct diff_work *w = p->work;
    int64_t C = p->program->width[op->y];
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++) {
        int64_t from = w->tiles[i].row * C;
        row_add(l->b[op->y] + from, l->b[op->a] + from, l->b[op->b] + from, w->tiles[i].n * C);
    }
}

/* to (n) += or = g. */
static void pass_on(real *to, const real *g, int64_t n, bool add)
{
    if (add)
        row_axpy(to, 1, g, n);
    else
        memcpy(to, g, (size_t)n * sizeof *g);
}

/* Each term of a sum gets the whole adjoint of the sum. */
static void sum_backward(const struct diff_op *op, const struct diff_pass *p,
                         const struct diff_lane *l)
{
    const struct diff_work *w = p->work;
    const enum diff_buffer to[2] = {op->a, op->b};
    const bool add[2] = {op->add_a, op->add_b};
    int64_t C = p->program->width[op->y];
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t i = 0; i < w->n_tiles; i++)
        for (int k = 0; k < 2; k++) {
            int64_t from = w->tiles[i].row * C, n = w->tiles[i].n * C;
            pass_on(l->b[to[k]] + from, l->b[op->y] + from, n, add[k]);
        }
}

void diff_sum(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    (form < DIFF_ADJOINT ? sum_forward : sum_backward)(op, p, diff_lane_written(form, p));
}

void diff_round(enum diff_form form, const struct diff_op *op, const struct diff_pass *p)
{
    const struct diff_lane *l = diff_lane_written(form, p);
    const int64_t n = p->program->width[op->y];
    real *x = l->b[op->a], *y = l->b[op->y];
#pragma omp parallel for schedule(static) num_threads(p->work->threads)
    for (int64_t at = 0; at < p->work->tokens * n; at += n) {
        if (form == DIFF_VALUE && x != y) memcpy(y + at, x + at, (size_t)n * sizeof *y);
        if (form == DIFF_VALUE)
            bitnet_inputs((float *)(void *)(y + at), n); /* not in f64: hvp_open */
        if (form == DIFF_ADJOINT && x != y) pass_on(x + at, y + at, n, op->add_a);
    }
}
