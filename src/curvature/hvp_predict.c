#include "curvature/hvp_predict.h"
#include "curvature/hvp_internal.h"
#include "curvature/vector.h"
#include "util/mem.h"
#include <math.h>

/* The vectors of one prediction_make. */
struct predicting {
    struct hvp *h;
    const struct space *space;
    int64_t k, n_tensors;
    const real *const *delta; // (k) of space->n
    real **product;           // (k) of space->n
    real **part; // (k) of space->n: delta in one tensor, zero elsewhere; NULL: not requested
    struct prediction *out; // (k)
    int64_t tensor;         /* the next one of the diagonal */
};

static double dot(int64_t n, const real *x, const real *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

bool prediction_is_finite(const struct prediction *p, bool diagonal)
{
    bool finite =
        isfinite(p->first_order) && isfinite(p->second_order) && isfinite(p->squared_norm);
    for (int64_t t = 0; diagonal && t < p->n_tensors; t++)
        finite = finite && isfinite(p->parts[t].diagonal);
    return finite;
}

void prediction_free(struct prediction *p)
{
    free(p->parts);
    *p = (struct prediction){0};
}

/* In total and per tensor; one thread sums each tensor, so bits do not depend on threads. */
static enum status sum_parts(struct predicting *p, const real *g, int64_t i, struct err *e)
{
    enum { SUMS = 3 };
    struct prediction *out = &p->out[i];
    const real *d = p->delta[i], *hd = p->product[i];
    AUTO_FREE double *sums = NULL; // (n_tensors, SUMS): g.delta, delta.Hdelta, delta.delta
    PASS(mem_zero(&out->parts, p->n_tensors, sizeof *out->parts, "the prediction", e));
    PASS(mem_zero(&sums, SUMS * p->n_tensors, sizeof *sums, "the prediction", e));
    out->n_tensors = p->n_tensors;
#pragma omp parallel for schedule(dynamic)
    for (int64_t t = 0; t < p->n_tensors; t++) {
        int64_t begin, at, n = hvp_tensor_here(p->h, t, &begin, &at);
        sums[SUMS * t] = dot(n, g + at, d + at);
        sums[SUMS * t + 1] = dot(n, d + at, hd + at);
        sums[SUMS * t + 2] = dot(n, d + at, d + at);
    }
    space_sum(p->space, SUMS * p->n_tensors, sums);
    out->first_order = out->second_order = out->squared_norm = 0;
    for (int64_t t = 0; t < p->n_tensors; t++) {
        const struct prediction_part part = {sums[SUMS * t], sums[SUMS * t + 1] / 2, NAN};
        out->parts[t] = part;
        out->first_order += part.first_order;
        out->second_order += part.second_order;
        out->squared_norm += sums[SUMS * t + 2];
    }
    return OK;
}

/* With the changes of tensor t alone, delta . H delta is that of the diagonal block of H. */
static enum status add_diagonal(struct predicting *p, int64_t t, struct err *e)
{
    int64_t begin, at, n = hvp_tensor_here(p->h, t, &begin, &at);
    AUTO_FREE double *sums = NULL; // (k)
    size_t bytes = (size_t)n * sizeof(real);
    PASS(mem_alloc(&sums, p->k, sizeof *sums, "the prediction", e));
    for (int64_t i = 0; i < p->k; i++) memcpy(p->part[i] + at, p->delta[i] + at, bytes);
    PASS(hvp_apply_layer(p->h, hvp_tensor(p->h, t)->layer, p->k, (const real *const *)p->part,
                         p->product, e));
    for (int64_t i = 0; i < p->k; i++) {
        sums[i] = dot(n, p->delta[i] + at, p->product[i] + at);
        memset(p->part[i] + at, 0, bytes);
    }
    space_sum(p->space, p->k, sums);
    for (int64_t i = 0; i < p->k; i++) p->out[i].parts[t].diagonal = sums[i] / 2;
    return OK;
}

/* Between two passes of the diagonal. */
static void move(void *context, struct saved_move *m)
{
    struct predicting *p = context;
    saved_bytes(m, &p->tensor, sizeof p->tensor);
    for (int64_t i = 0; i < p->k; i++) {
        struct prediction *out = &p->out[i];
        saved_bytes(m, &out->first_order, sizeof out->first_order);
        saved_bytes(m, &out->second_order, sizeof out->second_order);
        saved_bytes(m, &out->squared_norm, sizeof out->squared_norm);
        out->n_tensors = p->n_tensors;
        saved_array(m, &out->parts, p->n_tensors, sizeof *out->parts, "the prediction");
    }
}

enum status prediction_make(struct hvp *h, const real *g, int64_t k, const real *const *delta,
                            bool diagonal, struct saved *saved, struct prediction *out,
                            struct err *e)
{
    enum status st = OK;
    struct predicting p = {.h = h,
                           .space = hvp_space(h),
                           .k = k,
                           .n_tensors = hvp_n_tensors(h),
                           .delta = delta,
                           .out = out};
    struct saved_level level = {.name = "prediction", .move = move, .context = &p};
    bool loaded;
    const char *what = "vectors of the prediction";
    memset(out, 0, (size_t)k * sizeof *out);
    TRY(vectors_alloc(&p.product, k, p.space->n, sizeof(real), what, e));
    if (diagonal) TRY(vectors_alloc(&p.part, k, p.space->n, sizeof(real), what, e));
    for (int64_t i = 0; diagonal && i < k; i++) hvp_zero(p.part[i], p.space->n);
    TRY(saved_enter(saved, &level, &loaded, e));
    if (!loaded) TRY(hvp_apply(h, k, delta, p.product, e));
    for (int64_t i = 0; i < k && !loaded; i++) TRY(sum_parts(&p, g, i, e));
    for (; diagonal && p.tensor < p.n_tensors; p.tensor++) {
        TRY(saved_point(saved, e));
        TRY(add_diagonal(&p, p.tensor, e));
    }
done:
    saved_leave(saved, &level);
    vectors_free(p.product, k);
    vectors_free(p.part, k);
    return st;
}
