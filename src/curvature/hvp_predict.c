#include "curvature/hvp_predict.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One call's vectors. */
struct predicting {
    struct hvp *h;
    int64_t k, n, n_tensors;
    const real *const *delta; // (k) of n
    real **product;           // (k) of n
    real **part;              // (k) of n: delta in one tensor, zero elsewhere; NULL: not asked for
    struct prediction *out;   // (k)
};

static double dot(int64_t n, const real *x, const real *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static enum status vectors(int64_t k, int64_t n, real ***out, struct err *e)
{
    enum status st = OK;
    TRY(mem_zero(out, k, sizeof **out, "vectors of the prediction", e));
    for (int64_t i = 0; i < k; i++)
        TRY(mem_zero(&(*out)[i], n, sizeof(real), "vectors of the prediction", e));
done:
    return st;
}

static void vectors_drop(real **v, int64_t k)
{
    for (int64_t i = 0; v && i < k; i++) free(v[i]);
    free(v);
}

void prediction_free(struct prediction *p)
{
    free(p->parts);
    *p = (struct prediction){0};
}

/* Sums run tensor by tensor, so that they do not depend on the threads. */
static enum status sum_parts(struct predicting *p, const real *g, int64_t i, struct err *e)
{
    enum status st = OK;
    struct prediction *out = &p->out[i];
    const real *d = p->delta[i], *hd = p->product[i];
    double *squares = NULL;
    TRY(mem_zero(&out->parts, p->n_tensors, sizeof *out->parts, "the prediction", e));
    TRY(mem_zero(&squares, p->n_tensors, sizeof *squares, "the prediction", e));
    out->n_tensors = p->n_tensors;
#pragma omp parallel for schedule(dynamic)
    for (int64_t t = 0; t < p->n_tensors; t++) {
        const struct hvp_tensor *at = hvp_tensor(p->h, t);
        const real *here = d + at->offset;
        out->parts[t] =
            (struct prediction_part){.first_order = dot(at->elements, g + at->offset, here),
                                     .second_order = dot(at->elements, here, hd + at->offset) / 2,
                                     .diagonal = NAN};
        squares[t] = dot(at->elements, here, here);
    }
    out->first_order = out->second_order = out->squared_norm = 0;
    for (int64_t t = 0; t < p->n_tensors; t++) {
        out->first_order += out->parts[t].first_order;
        out->second_order += out->parts[t].second_order;
        out->squared_norm += squares[t];
    }
    ENSURE(isfinite(out->first_order) && isfinite(out->second_order), ERR_NUMERIC,
           "the second-order prediction is not finite");
done:
    free(squares);
    return st;
}

/* The changes of tensor t alone: delta . H delta sees the diagonal block of H. */
static enum status add_diagonal(struct predicting *p, int64_t t, struct err *e)
{
    enum status st = OK;
    const struct hvp_tensor *at = hvp_tensor(p->h, t);
    size_t bytes = (size_t)at->elements * sizeof(real);
    for (int64_t i = 0; i < p->k; i++)
        memcpy(p->part[i] + at->offset, p->delta[i] + at->offset, bytes);
    TRY(hvp_apply(p->h, p->k, (const real *const *)p->part, p->product, e));
    for (int64_t i = 0; i < p->k; i++) {
        p->out[i].parts[t].diagonal =
            dot(at->elements, p->delta[i] + at->offset, p->product[i] + at->offset) / 2;
        memset(p->part[i] + at->offset, 0, bytes);
    }
done:
    return st;
}

enum status prediction_make(struct hvp *h, const real *g, int64_t k, const real *const *delta,
                            bool diagonal, struct prediction *out, struct err *e)
{
    enum status st = OK;
    struct predicting p = {
        .h = h, .k = k, .n = hvp_n(h), .n_tensors = hvp_n_tensors(h), .delta = delta, .out = out};
    memset(out, 0, (size_t)k * sizeof *out);
    TRY(vectors(k, p.n, &p.product, e));
    if (diagonal) TRY(vectors(k, p.n, &p.part, e));
    TRY(hvp_apply(h, k, delta, p.product, e));
    for (int64_t i = 0; i < k; i++) TRY(sum_parts(&p, g, i, e));
    for (int64_t t = 0; diagonal && t < p.n_tensors; t++) TRY(add_diagonal(&p, t, e));
done:
    vectors_drop(p.product, k);
    vectors_drop(p.part, k);
    return st;
}
