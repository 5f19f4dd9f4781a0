#include "curvature/density.h"
#include "curvature/vector.h"
#include "math/eigen.h"
#include "util/mem.h"
#include "util/rng.h"
#include <float.h>
#include <math.h>

enum { SHORT = 3 }; /* vectors of the three-term recurrence */

struct quadrature {
    const struct operator* a;
    int64_t steps, slots;
    bool all; /* all vectors are stored */
    float **v;
    double *alpha, *beta, *c; // (steps)
    double *z;                // (steps, steps) owner of the three
    /* The state between two products, with the vectors and out. */
    int64_t run, j; /* the iteration and the current step */
    double largest;
    struct density *out;
};

static enum status open(struct quadrature *q, const struct operator* a,
                        const struct density_options *o, struct err *e)
{
    *q = (struct quadrature){.a = a};
    NEED(a->space.total > 0 && o->runs > 0 && o->steps > 0, ERR_USAGE,
         "a density of %lld numbers from %lld runs of %lld steps: expected some of each",
         (long long)a->space.total, (long long)o->runs, (long long)o->steps);
    q->steps = o->steps < a->space.total ? o->steps : a->space.total;
    q->all = o->memory <= 0 || q->steps + 1 <= o->memory / a->space.n_max / (int64_t)sizeof(float);
    q->slots = q->all ? q->steps + 1 : SHORT;
    PASS(
        vectors_alloc(&q->v, q->slots, a->space.n, sizeof(float), "the vectors of the density", e));
    PASS(mem_zero(&q->z, (q->steps + 3) * q->steps, sizeof *q->z, "a density", e));
    q->alpha = q->z + q->steps * q->steps;
    q->beta = q->alpha + q->steps;
    q->c = q->beta + q->steps;
    return OK;
}

static void move(void *context, struct saved_move *m)
{
    struct quadrature *q = context;
    const int64_t one = (int64_t)sizeof(double), all = q->out->runs * q->out->steps;
    saved_bytes(m, &q->run, sizeof q->run);
    saved_bytes(m, &q->j, sizeof q->j);
    saved_bytes(m, &q->largest, sizeof q->largest);
    saved_bytes(m, q->alpha, q->steps * one);
    saved_bytes(m, q->beta, q->steps * one);
    for (int64_t i = 0; i < (q->all ? q->j + 1 : SHORT); i++)
        saved_bytes(m, q->v[i], q->a->space.n * (int64_t)sizeof *q->v[i]);
    saved_bytes(m, &q->out->products, sizeof q->out->products);
    saved_bytes(m, q->out->count, q->out->runs * (int64_t)sizeof *q->out->count);
    saved_bytes(m, q->out->node, all * one);
    saved_bytes(m, q->out->weight, all * one);
}

/* Norm of the component of w = A v_j outside the basis, or only outside its last two vectors. */
static double remainder_norm(struct quadrature *q, int64_t j, float *w)
{
    const struct space *s = &q->a->space;
    if (q->all) return vector_orthogonalise(s, j + 1, q->v, w, q->c);
    vector_add(s->n, -q->alpha[j], q->v[j % SHORT], w);
    if (j > 0) vector_add(s->n, -q->beta[j - 1], q->v[(j - 1) % SHORT], w);
    return vector_norm(s, w);
}

/* One Lanczos iteration from v[0], or the rest of one; *count = its length. */
static enum status iterate(struct quadrature *q, int64_t *count, struct err *e)
{
    const struct space *s = &q->a->space;
    int64_t j;
    for (; (j = q->j) < q->steps; q->j++) {
        PASS(saved_point(q->a->saved, e));
        const float *x = q->v[j % q->slots];
        float *w = q->v[(j + 1) % q->slots];
        PASS(q->a->apply(q->a->context, 1, &x, &w, e));
        q->alpha[j] = vector_dot(s, x, w);
        q->beta[j] = remainder_norm(q, j, w);
        NEED(isfinite(q->alpha[j]) && isfinite(q->beta[j]), ERR_NUMERIC,
             "product %lld of the density is not finite", (long long)(j + 1));
        q->largest = fmax(q->largest, fabs(q->alpha[j]) + q->beta[j]);
        if (q->beta[j] <= 16 * (double)FLT_EPSILON * q->largest) break;
        vector_scale(s->n, 1 / q->beta[j], w, w);
    }
    *count = j < q->steps ? j + 1 : j;
    q->j = 0;
    q->largest = 0;
    return OK;
}

static enum status run(struct quadrature *q, uint64_t stream, double *node, double *weight,
                       int64_t *count, struct err *e)
{
    const struct space *s = &q->a->space;
    if (q->j == 0) {
        vector_signs(stream, s, q->v[0]);
        vector_scale(s->n, 1 / sqrt((double)s->total), q->v[0], q->v[0]);
    }
    PASS(iterate(q, count, e));
    PASS(tridiagonal_eigen(*count, q->alpha, q->beta, q->z, e));
    for (int64_t i = 0; i < *count; i++) {
        node[i] = q->alpha[i];
        weight[i] = q->z[i * *count] * q->z[i * *count];
    }
    return OK;
}

enum status density_estimate(const struct operator* a, const struct density_options *o,
                             struct density *out, struct err *e)
{
    enum status st = OK;
    struct quadrature q;
    struct saved_level level = {.name = "density", .move = move, .context = &q};
    bool loaded;
    *out = (struct density){0};
    TRY(open(&q, a, o, e));
    out->runs = o->runs;
    out->steps = o->steps;
    out->orthogonal = q.all;
    TRY(mem_zero(&out->count, o->runs, sizeof *out->count, "a density", e));
    TRY(mem_alloc(&out->node, o->runs * o->steps, sizeof(double), "a density", e));
    TRY(mem_alloc(&out->weight, o->runs * o->steps, sizeof(double), "a density", e));
    for (int64_t i = 0; i < o->runs * o->steps; i++) out->node[i] = out->weight[i] = NAN;
    q.out = out;
    TRY(saved_enter(a->saved, &level, &loaded, e));
    for (int64_t r; (r = q.run) < o->runs; q.run++) {
        TRY(run(&q, rng_stream(o->seed, (uint64_t)r), out->node + r * o->steps,
                out->weight + r * o->steps, &out->count[r], e));
        out->products += out->count[r];
    }
done:
    saved_leave(a->saved, &level);
    vectors_free(q.v, q.slots);
    free(q.z);
    if (st != OK) density_free(out);
    return st;
}

void density_free(struct density *d)
{
    free(d->count);
    free(d->node);
    free(d->weight);
    *d = (struct density){0};
}
