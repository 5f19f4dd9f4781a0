#include "curvature/trace.h"
#include "curvature/vector.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include <float.h>
#include <math.h>

/* State of one estimate. */
struct probing {
    const struct operator* a;
    const struct trace_options *o;
    struct parts parts;
    int64_t whole[2]; /* the offsets of the only part */
    int64_t together;
    float **v, **av; // (together) of n
    float **q;       // (rank) of n: orthonormal, Hutch++; else NULL
    int64_t rank, room;
    double *c;    // (room)
    double *dots; // (parts) of one product
    /* The state between two products, with the vectors q and out. */
    int64_t goal;             /* Hutchinson: probes after which it looks at the error */
    int64_t sketched, summed; /* Hutch++: probes of the sketch, and vectors of q summed over */
    struct trace_estimate *out;
    int64_t capacity; /* of out->samples */
};

int64_t trace_sketch(int64_t probes)
{
    return probes / 3;
}

int64_t trace_together(int64_t probes, int64_t together, bool hutchpp)
{
    int64_t most = hutchpp ? probes - 2 * trace_sketch(probes) : probes;
    return together > 1 ? min64(together, most) : 1;
}

static enum status open(struct probing *p, const struct operator* a, const struct trace_options *o,
                        struct err *e)
{
    *p = (struct probing){.a = a, .o = o, .whole = {0, a->space.total}};
    NEED(a->space.total > 0 && o->probes > 0, ERR_USAGE,
         "a trace of %lld numbers from %lld probes: expected some of both",
         (long long)a->space.total, (long long)o->probes);
    p->parts = o->parts.n > 0 ? o->parts : (struct parts){1, p->whole};
    p->together = trace_together(o->probes, o->together, o->hutchpp);
    PASS(mem_alloc(&p->dots, p->parts.n, sizeof *p->dots, "traces of tensors", e));
    PASS(vectors_alloc(&p->v, p->together, a->space.n, sizeof(float), "probe vectors", e));
    PASS(vectors_alloc(&p->av, p->together, a->space.n, sizeof(float),
                       "products with probe vectors", e));
    if (!o->hutchpp) return OK;
    p->room = min64(trace_sketch(o->probes), a->space.total);
    PASS(mem_zero(&p->c, p->room, sizeof *p->c, "coefficients of Hutch++", e));
    return vectors_alloc(&p->q, p->room, a->space.n, sizeof(float), "the vectors of Hutch++", e);
}

static void release(struct probing *p)
{
    vectors_free(p->v, p->together);
    vectors_free(p->av, p->together);
    vectors_free(p->q, p->room);
    free(p->c);
    free(p->dots);
}

/* Makes room for the samples of so many probes. */
static enum status grow_samples(struct probing *p, int64_t probes, struct err *e)
{
    while (p->capacity < probes * p->parts.n)
        PASS(mem_grow(&p->out->samples, p->capacity, &p->capacity, sizeof *p->out->samples, e));
    return OK;
}

static void move(void *context, struct saved_move *m)
{
    struct probing *p = context;
    struct err why = {0};
    const int64_t row = p->parts.n * (int64_t)sizeof(double);
    saved_bytes(m, &p->goal, sizeof p->goal);
    saved_bytes(m, &p->sketched, sizeof p->sketched);
    saved_bytes(m, &p->summed, sizeof p->summed);
    saved_bytes(m, &p->rank, sizeof p->rank);
    for (int64_t i = 0; i < p->rank; i++)
        saved_bytes(m, p->q[i], p->a->space.n * (int64_t)sizeof *p->q[i]);
    saved_bytes(m, &p->out->probes, sizeof p->out->probes);
    saved_bytes(m, &p->out->products, sizeof p->out->products);
    saved_bytes(m, p->out->exact, row);
    if (saved_loads(m) && grow_samples(p, p->out->probes, &why) != OK) saved_fail(m, &why);
    saved_bytes(m, why.code == OK ? p->out->samples : NULL, p->out->probes * row);
}

/* to[t] += x.y over part t */
static enum status add_parts(const struct probing *p, const float *x, const float *y, double *to,
                             int64_t product, struct err *e)
{
    vector_part_dots(&p->a->space, p->parts.n, p->parts.offset, x, y, p->dots);
    for (int64_t t = 0; t < p->parts.n; t++) {
        NEED(isfinite(p->dots[t]), ERR_NUMERIC, "the product with probe %lld is not finite",
             (long long)product);
        to[t] += p->dots[t];
    }
    return OK;
}

static enum status products(struct probing *p, int64_t k, struct trace_estimate *out, struct err *e)
{
    PASS(saved_point(p->a->saved, e));
    out->products += k;
    return p->a->apply(p->a->context, k, (const float *const *)p->v, p->av, e);
}

/* Adds the probes first .. first + k - 1, k <= together. Hutch++ projects each probe: h = (I - Q
 * Q') g; h.(A h) summed over a part is that part's estimate because (I - Q Q') Q = 0. */
static enum status probe(struct probing *p, int64_t first, int64_t k, struct trace_estimate *out,
                         struct err *e)
{
    for (int64_t i = 0; i < k; i++) {
        vector_signs(rng_stream(p->o->seed, (uint64_t)(first + i)), &p->a->space, p->v[i]);
        if (p->rank) vector_orthogonalise(&p->a->space, p->rank, p->q, p->v[i], p->c);
    }
    PASS(products(p, k, out, e));
    for (int64_t i = 0; i < k; i++) {
        double *sample = out->samples + out->probes * p->parts.n;
        memset(sample, 0, (size_t)p->parts.n * sizeof *sample);
        PASS(add_parts(p, p->v[i], p->av[i], sample, first + i, e));
        out->probes++;
    }
    return OK;
}

static enum status summarise(struct trace_estimate *t, struct err *e)
{
    AUTO_FREE int64_t *group = NULL;
    PASS(mem_zero(&group, t->n_parts, sizeof *group, "groups of tensors", e));
    enum status st = trace_group(t, group, 1, &t->mean, &t->error, e);
    for (int64_t i = 0; i < t->n_parts; i++) group[i] = i;
    if (st == OK) st = trace_group(t, group, t->n_parts, t->part, t->part_error, e);
    return st;
}

static enum status hutchinson(struct probing *p, struct trace_estimate *out, struct err *e)
{
    for (;;) {
        for (int64_t k; out->probes < p->goal;) {
            k = min64(p->together, p->goal - out->probes);
            PASS(grow_samples(p, out->probes + k, e));
            PASS(probe(p, out->probes, k, out, e));
        }
        PASS(summarise(out, e));
        double far = p->o->target > 0 && !(out->error <= p->o->target * fabs(out->mean));
        space_agree(&p->a->space, 1, &far);
        out->converged = far != 1;
        if (out->converged || p->goal >= p->o->probes_max) break;
        p->goal = min64(p->goal + p->together, p->o->probes_max);
    }
    return OK;
}

/* q = an orthonormal basis of A times `count` probes; linearly dependent vectors are skipped. */
static enum status find_range(struct probing *p, int64_t count, struct trace_estimate *out,
                              struct err *e)
{
    const struct space *s = &p->a->space;
    for (int64_t first; (first = p->sketched) < count;) {
        int64_t k = min64(p->together, count - first);
        for (int64_t i = 0; i < k; i++)
            vector_signs(rng_stream(p->o->seed, (uint64_t)(first + i)), s, p->v[i]);
        PASS(products(p, k, out, e));
        for (int64_t i = 0; i < k; i++) {
            float *w = p->av[i];
            double before = vector_norm(s, w);
            double after = vector_orthogonalise(s, p->rank, p->q, w, p->c);
            NEED(isfinite(after), ERR_NUMERIC, "the product with probe %lld is not finite",
                 (long long)(first + i));
            if (after <= 16 * (double)FLT_EPSILON * before) continue;
            vector_scale(s->n, 1 / after, w, p->q[p->rank++]);
        }
        p->sketched += k;
    }
    return OK;
}

/* exact[t] = tr(P_t A Q Q'), P_t the projection on part t. */
static enum status sum_range(struct probing *p, struct trace_estimate *out, struct err *e)
{
    for (int64_t first; (first = p->summed) < p->rank;) {
        int64_t k = min64(p->together, p->rank - first);
        for (int64_t i = 0; i < k; i++) vector_scale(p->a->space.n, 1, p->q[first + i], p->v[i]);
        PASS(products(p, k, out, e));
        for (int64_t i = 0; i < k; i++)
            PASS(add_parts(p, p->v[i], p->av[i], out->exact, first + i, e));
        p->summed += k;
    }
    return OK;
}

static enum status hutchpp(struct probing *p, struct trace_estimate *out, struct err *e)
{
    int64_t sketch = p->room, left = p->o->probes - 2 * sketch;
    PASS(grow_samples(p, left, e));
    PASS(find_range(p, sketch, out, e));
    PASS(sum_range(p, out, e));
    /* New probes, because those of the sketch are not independent of q. */
    for (int64_t i; (i = out->probes) < left;)
        PASS(probe(p, sketch + i, min64(p->together, left - i), out, e));
    PASS(summarise(out, e));
    out->converged = true;
    return OK;
}

static enum status check_hutchpp(const struct operator* a, const struct trace_options *o,
                                 struct err *e)
{
    NEED(o->probes >= 6, ERR_USAGE, "Hutch++ with %lld products: expected at least 6",
         (long long)o->probes);
    if (o->memory <= 0) return OK;
    int64_t together = trace_together(o->probes, o->together, true);
    int64_t need = trace_sketch(o->probes) + 2 * together;
    int64_t n = a->space.n_max, fit = n > 0 ? o->memory / n / (int64_t)sizeof(float) : need;
    int64_t products = 3 * (fit - 2) + 2;               /* one probe at a time */
    double vector = sizeof(float) * (double)n / 0x1p30; /* in GiB, as the option is */
    if (need <= fit) return OK;
    if (products >= 6)
        RAISE(ERR_USAGE,
              "Hutch++ with %lld products, %lld together, needs %lld vectors of %lld numbers (%.3g "
              "GiB), and %.3g GiB may be used: take at most %lld products one at a time, more "
              "memory, or Hutchinson's estimate, which needs 2",
              (long long)o->probes, (long long)together, (long long)need, (long long)n,
              (double)need * vector, (double)o->memory / 0x1p30, (long long)products);
    RAISE(ERR_USAGE,
          "Hutch++ needs at least 4 vectors of %lld numbers (%.3g GiB), and %.3g GiB may be used: "
          "take more memory, or Hutchinson's estimate, which needs 2",
          (long long)n, 4 * vector, (double)o->memory / 0x1p30);
}

enum status trace_estimate(const struct operator* a, const struct trace_options *o,
                           struct trace_estimate *out, struct err *e)
{
    enum status st = OK;
    struct probing p = {0};
    struct saved_level level = {.name = "trace", .move = move, .context = &p};
    bool loaded;
    *out = (struct trace_estimate){0};
    if (o->hutchpp) TRY(check_hutchpp(a, o, e));
    TRY(open(&p, a, o, e));
    out->n_parts = p.parts.n;
    TRY(mem_zero(&out->part, out->n_parts, sizeof(double), "traces of tensors", e));
    TRY(mem_zero(&out->part_error, out->n_parts, sizeof(double), "traces of tensors", e));
    TRY(mem_zero(&out->exact, out->n_parts, sizeof(double), "traces of tensors", e));
    p.out = out;
    p.goal = o->probes;
    TRY(saved_enter(a->saved, &level, &loaded, e));
    TRY((o->hutchpp ? hutchpp : hutchinson)(&p, out, e));
done:
    saved_leave(a->saved, &level);
    release(&p);
    if (st != OK) trace_estimate_free(out);
    return st;
}

void trace_estimate_free(struct trace_estimate *t)
{
    free(t->part);
    free(t->part_error);
    free(t->exact);
    free(t->samples);
    *t = (struct trace_estimate){0};
}

void trace_estimate_move(struct trace_estimate *t, struct saved_move *m)
{
    double **const arrays[] = {&t->part, &t->part_error, &t->exact, &t->samples};
    enum { ARRAYS = sizeof arrays / sizeof *arrays };
    saved_bytes(m, &t->mean, sizeof t->mean);
    saved_bytes(m, &t->error, sizeof t->error);
    saved_bytes(m, &t->converged, sizeof t->converged);
    saved_bytes(m, &t->probes, sizeof t->probes);
    saved_bytes(m, &t->products, sizeof t->products);
    saved_bytes(m, &t->n_parts, sizeof t->n_parts);
    for (int i = 0; i < ARRAYS; i++) {
        const int64_t n = t->n_parts * (i + 1 < ARRAYS ? 1 : t->probes);
        saved_array(m, arrays[i], n, sizeof(double), "a trace");
    }
}

enum status trace_group(const struct trace_estimate *t, const int64_t *group, int64_t n_groups,
                        double *mean, double *error, struct err *e)
{
    AUTO_FREE double *sum = NULL;
    int64_t m = t->probes;
    PASS(mem_alloc(&sum, m * n_groups, sizeof *sum, "samples of groups", e)); /* (groups, m) */
    for (int64_t i = 0; i < m * n_groups; i++) sum[i] = 0;
    for (int64_t g = 0; g < n_groups; g++) mean[g] = error[g] = 0;
    for (int64_t i = 0; i < t->n_parts; i++) {
        mean[group[i]] += t->exact[i];
        for (int64_t k = 0; k < m; k++) sum[group[i] * m + k] += t->samples[k * t->n_parts + i];
    }
    for (int64_t g = 0; g < n_groups; g++) {
        double average = 0, spread = 0;
        for (int64_t k = 0; k < m; k++) average += sum[g * m + k] / (double)m;
        for (int64_t k = 0; k < m; k++) spread += pow(sum[g * m + k] - average, 2);
        mean[g] += average;
        error[g] = m > 1 ? sqrt(spread / (double)(m - 1) / (double)m) : NAN;
    }
    return OK;
}
