#include "curvature/lanczos.h"
#include "curvature/vector.h"
#include "math/eigen.h"
#include "util/mem.h"
#include "util/num.h"
#include <float.h>
#include <math.h>

/* The state between two products. Slots 0 .. j of v hold the orthonormal basis; A V = V T + beta
 * v_j e' below the last row, T symmetric: tridiagonal, with an arrowhead of the retained Ritz
 * values after a restart. */
struct lanczos {
    const struct operator* a;
    int64_t m;        /* order at which it restarts: slots - 1 */
    int64_t j;        /* order of T so far */
    float **v;        // (m + 1) of n
    double *t;        // (m, m) owner of s, ritz and c
    double *s;        // (m, m) row i: coordinates of Ritz vector i; order j, pitch j
    double *ritz, *c; // (m)
    double beta;      /* norm of the last product's component outside the basis */
    bool complete;    /* the basis spans an invariant subspace */
    struct lanczos_result *out;
};

static enum status open(struct lanczos *l, const struct operator* a,
                        const struct lanczos_options *o, struct err *e)
{
    *l = (struct lanczos){.a = a};
    NEED(a->space.total > 0 && o->products > 0 && o->vectors >= LANCZOS_VECTORS_MIN, ERR_USAGE,
         "Lanczos with %lld numbers, %lld products and %lld vectors: expected at least 1, 1 and "
         "%d",
         (long long)a->space.total, (long long)o->products, (long long)o->vectors,
         LANCZOS_VECTORS_MIN);
    l->m = min64(min64(o->vectors - 1, o->products), a->space.total);
    PASS(vectors_alloc(&l->v, l->m + 1, a->space.n, sizeof(float), "the vectors of Lanczos", e));
    PASS(mem_zero(&l->t, 2 * l->m * (l->m + 1), sizeof *l->t, "a Ritz problem", e));
    l->s = l->t + l->m * l->m;
    l->ritz = l->s + l->m * l->m;
    l->c = l->ritz + l->m;
    return vector_start(o->stream, &a->space, o->start, l->v[0], e);
}

/* Between two products; the rest follows from T. */
static void move(void *context, struct saved_move *m)
{
    struct lanczos *l = context;
    saved_bytes(m, l->out, sizeof *l->out);
    saved_bytes(m, &l->j, sizeof l->j);
    saved_bytes(m, l->t, l->m * l->m * (int64_t)sizeof *l->t);
    for (int64_t i = 0; i <= l->j; i++)
        saved_bytes(m, l->v[i], l->a->space.n * (int64_t)sizeof *l->v[i]);
}

static double scale(const struct lanczos *l)
{
    return fmax(fabs(l->ritz[0]), fabs(l->ritz[l->j - 1]));
}

/* One product: adds a row to T and, unless the remainder vanishes, a vector to v. */
static enum status step(struct lanczos *l, int64_t product, struct err *e)
{
    const float *x = l->v[l->j];
    float *w = l->v[l->j + 1];
    PASS(l->a->apply(l->a->context, 1, &x, &w, e));
    double alpha = vector_dot(&l->a->space, x, w);
    l->beta = vector_orthogonalise(&l->a->space, l->j + 1, l->v, w, l->c);
    NEED(isfinite(alpha) && isfinite(l->beta), ERR_NUMERIC, "product %lld of Lanczos is not finite",
         (long long)product);
    l->t[l->j * l->m + l->j] = alpha;
    l->j++;
    for (int64_t i = 0; i < l->j; i++)
        memcpy(l->s + i * l->j, l->t + i * l->m, (size_t)l->j * sizeof *l->s);
    PASS(symmetric_eigen(l->j, l->s, l->ritz, e));
    space_agree(&l->a->space, l->j * l->j, l->s);
    space_agree(&l->a->space, l->j, l->ritz);
    l->complete = l->j == l->a->space.total || l->beta <= 16 * (double)FLT_EPSILON * scale(l);
    if (!l->complete) vector_scale(l->a->space.n, 1 / l->beta, w, w);
    if (!l->complete && l->j < l->m)
        l->t[(l->j - 1) * l->m + l->j] = l->t[l->j * l->m + l->j - 1] = l->beta;
    return OK;
}

/* The vectors are f32: no residual is smaller than their rounding. */
static struct eigenpair pair(const struct lanczos *l, int64_t i, double tolerance)
{
    struct eigenpair p = {.value = l->ritz[i]};
    double bound = l->j == l->a->space.total ? 0 : l->beta * fabs(l->s[i * l->j + l->j - 1]);
    p.residual = fmax(bound, (double)FLT_EPSILON * scale(l));
    p.converged = eigenpair_converged(&p, tolerance, scale(l));
    return p;
}

static bool finished(const struct lanczos *l, const struct lanczos_options *o,
                     struct lanczos_result *out)
{
    out->smallest = pair(l, 0, o->tolerance);
    out->largest = pair(l, l->j - 1, o->tolerance);
    bool top = fabs(out->largest.value) >= fabs(out->smallest.value);
    out->dominant = top ? out->largest : out->smallest;
    if (l->complete) return true;
    return (!(o->want & LANCZOS_LARGEST) || out->largest.converged) &&
           (!(o->want & LANCZOS_SMALLEST) || out->smallest.converged) &&
           (!(o->want & LANCZOS_DOMINANT) || out->dominant.converged);
}

/* The largest relative residual of those that must converge. */
static double farthest(const struct lanczos_options *o, const struct lanczos_result *r)
{
    const struct eigenpair *pairs[] = {&r->largest, &r->smallest, &r->dominant};
    double most = 0;
    for (int i = 0; i < 3; i++)
        if ((o->want & 1U << i) && !pairs[i]->converged)
            most = fmax(most, pairs[i]->residual / fabs(pairs[i]->value));
    return most;
}

/* How many Ritz vectors of each end a restart retains: half of the stored ones, divided between the
 * wanted ends; one of an end that is not wanted, so that its estimate does not get worse. */
static void share(const struct lanczos *l, unsigned want, int64_t *low, int64_t *high)
{
    int64_t keep = min64(max64(l->m / 2, 2), l->m - 1);
    bool both =
        (want & LANCZOS_DOMINANT) || !(want & (LANCZOS_LARGEST | LANCZOS_SMALLEST)) ||
        (want & (LANCZOS_LARGEST | LANCZOS_SMALLEST)) == (LANCZOS_LARGEST | LANCZOS_SMALLEST);
    *low = both ? keep / 2 : want & LANCZOS_SMALLEST ? keep - 1 : 1;
    *high = keep - *low;
}

/* The basis becomes the retained Ritz vectors and the last product's remainder v_m; T their values
 * and the row of v_m: A x_i = theta_i x_i + beta s_i v_m. */
static enum status restart(struct lanczos *l, unsigned want, struct err *e)
{
    int64_t m = l->m, low, high;
    share(l, want, &low, &high);
    int64_t keep = low + high;
    memmove(l->s + low * m, l->s + (m - high) * m, (size_t)(high * m) * sizeof *l->s);
    memmove(l->ritz + low, l->ritz + m - high, (size_t)high * sizeof *l->ritz);
    PASS(vector_combine(l->a->space.n, m, keep, l->v, l->s, m, e));
    float *last = l->v[keep];
    l->v[keep] = l->v[m];
    l->v[m] = last;
    memset(l->t, 0, (size_t)(m * m) * sizeof *l->t);
    for (int64_t i = 0; i < keep; i++) {
        l->t[i * m + i] = l->ritz[i];
        l->t[i * m + keep] = l->t[keep * m + i] = l->beta * l->s[i * m + m - 1];
    }
    l->j = keep;
    return OK;
}

static void ritz_vector(const struct lanczos *l, int64_t i, float *out)
{
    if (!out) return;
    vector_sum(l->a->space.n, l->j, l->v, l->s + i * l->j, out);
    vector_scale(l->a->space.n, 1 / vector_norm(&l->a->space, out), out, out);
}

enum status lanczos_ends(const struct operator* a, const struct lanczos_options *o, float *largest,
                         float *smallest, struct lanczos_result *out, struct err *e)
{
    enum status st = OK;
    struct lanczos l;
    struct saved_level level = {.name = "Lanczos", .move = move, .context = &l};
    bool loaded;
    *out = (struct lanczos_result){0};
    TRY(open(&l, a, o, e));
    out->vectors = l.m + 1;
    l.out = out;
    TRY(saved_enter(a->saved, &level, &loaded, e));
    for (;;) {
        TRY(saved_point(a->saved, e));
        TRY(step(&l, ++out->iterations, e));
        bool last = finished(&l, o, out) || out->iterations >= o->products;
        forecast_note(o->forecast, out->iterations, farthest(o, out), o->tolerance, o->products);
        if (last) break;
        if (l.j < l.m) continue;
        TRY(restart(&l, o->want, e));
        out->restarts++;
    }
    ritz_vector(&l, l.j - 1, largest);
    ritz_vector(&l, 0, smallest);
done:
    saved_leave(a->saved, &level);
    if (l.v) vectors_free(l.v, l.m + 1);
    free(l.t);
    return st;
}
