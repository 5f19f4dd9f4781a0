#include "curvature/plane.h"
#include "math/eigen.h"
#include "model/describe.h"
#include "util/mem.h"
#include <math.h>

/* --- the Gram matrix of the differences --- */

enum { CHUNK = 1 << 16 };

struct differences {
    const struct checkpoint *const *c;
    int64_t n;
    const struct tensor_entry **tensor; // (n) the current tensor in each checkpoint
    float *read;                        // (CHUNK)
    double *d;                          // (n, CHUNK) row 0: x_0 itself
    double *gram;                       // (n, n), its lower triangle
};

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static enum status add_chunk(struct differences *w, int64_t first, int64_t m, struct err *e)
{
    for (int64_t i = 0; i < w->n; i++) {
        double *d = w->d + i * CHUNK;
        PASS(checkpoint_read_range(w->c[i], w->tensor[i], first, m, w->read, e));
        for (int64_t k = 0; k < m; k++) d[k] = (double)w->read[k] - (i ? w->d[k] : 0);
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 1; i < w->n; i++)
        for (int64_t j = 1; j <= i; j++)
            w->gram[i * w->n + j] += dot(w->d + i * CHUNK, w->d + j * CHUNK, m);
    return OK;
}

static enum status add_tensor(struct differences *w, const char *name, struct err *e)
{
    for (int64_t i = 0; i < w->n; i++) {
        const struct tensor_entry *t = checkpoint_find(w->c[i], name);
        NEED(t, ERR_FORMAT, "%s: no tensor %s, which %s has", checkpoint_dir(w->c[i]), name,
             checkpoint_dir(w->c[0]));
        w->tensor[i] = t;
        NEED(t->n_elements == w->tensor[0]->n_elements, ERR_SHAPE,
             "%s: tensor %s has %lld elements; in %s %lld", checkpoint_dir(w->c[i]), name,
             (long long)t->n_elements, checkpoint_dir(w->c[0]),
             (long long)w->tensor[0]->n_elements);
    }
    int64_t n = w->tensor[0]->n_elements;
    for (int64_t first = 0; first < n; first += CHUNK)
        PASS(add_chunk(w, first, n - first < CHUNK ? n - first : CHUNK, e));
    return OK;
}

enum status plane_gram(const struct checkpoint *const *c, int64_t n, double *gram, struct err *e)
{
    AUTO_FREE const struct tensor_entry **tensor = NULL;
    AUTO_FREE struct tensor_description *tensors = NULL;
    AUTO_FREE float *read = NULL;
    AUTO_FREE double *d = NULL;
    int64_t n_tensors = 0;
    memset(gram, 0, (size_t)(n * n) * sizeof *gram);
    PASS(mem_alloc(&tensor, n, sizeof *tensor, "tensors", e));
    PASS(mem_alloc(&read, CHUNK, sizeof *read, "weights", e));
    PASS(mem_alloc(&d, n * CHUNK, sizeof *d, "differences of weights", e));
    PASS(model_parameters(c[0], &tensors, &n_tensors, e));
    struct differences w = {c, n, tensor, read, d, gram};
    for (int64_t t = 0; t < n_tensors; t++) PASS(add_tensor(&w, tensors[t].name, e));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) gram[j * n + i] = gram[i * n + j];
    return OK;
}

/* --- planes --- */

static enum status plane_new(int64_t n, bool affine, struct plane *p, struct err *e)
{
    double *numbers;
    *p = (struct plane){.n = n, .affine = affine, .share = {NAN, NAN}};
    PASS(mem_zero(&numbers, 5 * n, sizeof *numbers, "a plane", e));
    p->origin = numbers; /* owner of all */
    for (int k = 0; k < 2; k++) {
        p->step[k] = numbers + (1 + k) * n;
        p->at[k] = numbers + (3 + k) * n;
    }
    return OK;
}

void plane_free(struct plane *p)
{
    free(p->origin);
    *p = (struct plane){0};
}

enum status plane_of_three(const double *gram, struct plane *out, struct err *e)
{
    double uu = gram[4], uv = gram[5], vv = gram[8];
    double u = sqrt(uu), p = uv / u, rest = vv - p * p;
    NEED(uu > 0 && vv > 0, ERR_NUMERIC,
         "two of the surface's three points have the same weights: they span no plane");
    /* Below this the component of v orthogonal to u is rounding error. */
    NEED(rest > 1e-12 * vv, ERR_NUMERIC, "the surface's three points lie on a line");
    double q = sqrt(rest);
    PASS(plane_new(3, true, out, e));
    out->origin[0] = 1;
    out->step[0][0] = -1 / u;
    out->step[0][1] = 1 / u;
    out->step[1][0] = (p / u - 1) / q;
    out->step[1][1] = -p / (u * q);
    out->step[1][2] = 1 / q;
    out->at[0][1] = u;
    out->at[0][2] = p;
    out->at[1][2] = q;
    return OK;
}

/* The Gram matrix of the points' differences from their mean. */
static void centre(const double *gram, int64_t n, double *out)
{
    double total = 0, count = (double)n;
    for (int64_t i = 0; i < n * n; i++) total += gram[i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double rows = 0;
            for (int64_t k = 0; k < n; k++) rows += gram[i * n + k] + gram[j * n + k];
            out[i * n + j] = gram[i * n + j] - rows / count + total / (count * count);
        }
}

enum status plane_principal(const double *gram, int64_t n, struct plane *out, struct err *e)
{
    AUTO_FREE double *centred = NULL, *value = NULL;
    double trace = 0;
    NEED(n >= 3, ERR_USAGE, "a principal plane needs at least 3 checkpoints, not %lld",
         (long long)n);
    PASS(mem_alloc(&centred, n * n, sizeof *centred, "Gram matrix", e));
    PASS(mem_alloc(&value, n, sizeof *value, "eigenvalues", e));
    centre(gram, n, centred);
    for (int64_t i = 0; i < n; i++) trace += centred[i * n + i];
    PASS(symmetric_eigen(n, centred, value, e));
    NEED(value[n - 2] > 1e-12 * value[n - 1], ERR_NUMERIC,
         "the checkpoints' weights lie on a line: they have no principal plane");
    PASS(plane_new(n, true, out, e));
    for (int64_t i = 0; i < n; i++) out->origin[i] = 1 / (double)n;
    for (int k = 0; k < 2; k++) {
        const double *s = centred + (n - 1 - k) * n;
        double length = sqrt(value[n - 1 - k]), sign = s[n - 1] < s[0] ? -1 : 1;
        for (int64_t i = 0; i < n; i++) {
            out->at[k][i] = sign * s[i] * length;
            out->step[k][i] = sign * s[i] / length;
        }
        out->share[k] = value[n - 1 - k] / trace;
    }
    return OK;
}

enum status plane_of_directions(struct plane *out, struct err *e)
{
    PASS(plane_new(3, false, out, e));
    out->origin[0] = out->step[0][1] = out->step[1][2] = 1;
    out->at[0][1] = out->at[1][2] = 1;
    return OK;
}

void plane_coefficients(const struct plane *p, double a, double b, double *c)
{
    double others = 0;
    for (int64_t i = 0; i < p->n; i++) {
        c[i] = p->origin[i] + a * p->step[0][i] + b * p->step[1][i];
        if (i) others += c[i];
    }
    if (p->affine) c[0] = 1 - others;
}
