#include "curvature/measure.h"
#include "curvature/vector.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include <math.h>

/* Start vectors, probes and densities of one seed use different random streams. */
static const uint64_t start_index = UINT64_C(1) << 40, density_index = UINT64_C(1) << 41;
enum { VECTORS_MAX = 32 };

struct measuring {
    const struct subject *s;
    const struct curvature_request *r;
    const struct space *space; /* of the vectors */
    int64_t *offset;           // (n_tensors + 1)
    int64_t fit;               /* vectors of n numbers that the memory holds */
    int64_t bytes;
    struct curvature *out;
    int64_t stage; /* the current estimate, an index into the table below */
};

static enum status gradient(struct measuring *m, struct err *e)
{
    struct curvature *out = m->out;
    AUTO_FREE float *g = NULL;
    double sum = 0;
    PASS(mem_alloc(&g, m->space->n, sizeof *g, "the gradient", e));
    PASS(m->s->gradient(m->s->context, g, &out->loss, e));
    NEED(isfinite(out->loss), ERR_NUMERIC,
         "the loss is not finite: a weight is not, or an activation overflows");
    vector_part_dots(m->space, out->n_tensors, m->offset, g, g, out->gradient_norms);
    for (int64_t t = 0; t < out->n_tensors; t++) {
        double norm = out->gradient_norms[t] = sqrt(out->gradient_norms[t]);
        NEED(isfinite(norm), ERR_NUMERIC, "the gradient of %s is not finite",
             m->s->tensors[t].name);
        sum += norm * norm;
    }
    out->gradient_norm = sqrt(sum);
    return OK;
}

static enum status probe(struct measuring *m, struct err *e)
{
    struct curvature *out = m->out;
    AUTO_FREE float *v = NULL, *hv = NULL;
    if (!m->r->probe) return OK;
    PASS(mem_alloc(&v, m->space->n, sizeof *v, "a probe vector", e));
    PASS(mem_alloc(&hv, m->space->n, sizeof *hv, "a product with a probe vector", e));
    PASS(mem_zero(&out->vhv_per_tensor, out->n_tensors, sizeof(double), "parts of a product", e));
    PASS(mem_zero(&out->hv_norms, out->n_tensors, sizeof(double), "parts of a product", e));
    vector_signs(m->r->salt, m->space, v);
    PASS(m->s->hessian.apply(m->s->hessian.context, 1, (const float *const[]){v}, &hv, e));
    out->products++;
    vector_part_dots(m->space, out->n_tensors, m->offset, v, hv, out->vhv_per_tensor);
    vector_part_dots(m->space, out->n_tensors, m->offset, hv, hv, out->hv_norms);
    out->vhv = 0;
    for (int64_t t = 0; t < out->n_tensors; t++) {
        out->vhv += out->vhv_per_tensor[t];
        out->hv_norms[t] = sqrt(out->hv_norms[t]);
    }
    return OK;
}

/* Of the sharpness so many products are expected, and the rest as planned. */
static void say_expected(void *context, int64_t products)
{
    const struct measuring *m = context;
    struct curvature_options rest = m->r->options;
    rest.sharpness = SHARPNESS_NONE;
    if (m->r->ahead) m->r->ahead(m->r->ahead_context, products + curvature_products_max(&rest));
}

static enum status power(struct measuring *m, float *vector, struct err *e)
{
    const struct curvature_options *c = &m->r->options;
    struct curvature *out = m->out;
    struct forecast forecast = {.tell = say_expected, .context = m};
    struct power_options o = {.stop = c->stop,
                              .tolerance = c->tolerance,
                              .products = c->products,
                              .stream = rng_stream(m->r->seed, start_index),
                              .start = m->r->start,
                              .forecast = &forecast};
    struct power_result r;
    PASS(power_iterate(&m->s->hessian, &o, vector, &r, e));
    out->sharpness = out->dominant = r.top;
    out->iterations = r.iterations;
    out->products += r.iterations;
    return OK;
}

/* Vectors of n numbers that the options' memory holds. */
static int64_t vectors_fit(const struct curvature_options *o, int64_t n)
{
    return n > 0 ? (int64_t)(o->memory * 0x1p30) / n / (int64_t)sizeof(float) : 0;
}

/* Probes of the trace that share a pass: as many as fit besides the stored vectors of Hutch++. */
static int64_t probes_together(const struct curvature_options *o, int64_t fit)
{
    int64_t room = (o->hutchpp ? fit - trace_sketch(o->trace) : fit) / 2;
    return max64(1, min64(room, trace_together(o->trace, o->together, o->hutchpp)));
}

static enum status lanczos(struct measuring *m, float *vector, struct err *e)
{
    const struct curvature_options *c = &m->r->options;
    struct curvature *out = m->out;
    struct forecast forecast = {.tell = say_expected, .context = m};
    struct lanczos_options o = {.want = LANCZOS_LARGEST | (c->smallest ? LANCZOS_SMALLEST : 0),
                                .tolerance = c->tolerance,
                                .products = c->products,
                                .vectors = min64(m->fit, VECTORS_MAX),
                                .stream = rng_stream(m->r->seed, start_index),
                                .start = m->r->start,
                                .forecast = &forecast};
    struct lanczos_result r;
    NEED(o.vectors >= LANCZOS_VECTORS_MIN, ERR_USAGE,
         "Lanczos needs %d vectors of %lld numbers (%.3g GiB), and memory is %g GiB: raise it, or "
         "take sharpness: power, which needs 2",
         LANCZOS_VECTORS_MIN, (long long)m->space->n_max,
         LANCZOS_VECTORS_MIN * sizeof(float) * (double)m->space->n_max / 0x1p30, c->memory);
    PASS(lanczos_ends(&m->s->hessian, &o, vector, NULL, &r, e));
    out->sharpness = r.largest;
    out->smallest = r.smallest;
    out->dominant = r.dominant;
    out->iterations = r.iterations;
    out->products += r.iterations;
    out->restarts = r.restarts;
    out->vectors = r.vectors;
    return OK;
}

static enum status sharpness(struct measuring *m, struct err *e)
{
    bool by_power = m->r->options.sharpness == SHARPNESS_POWER;
    if (m->r->options.sharpness == SHARPNESS_NONE) return OK;
    if (by_power || m->r->keep_vector)
        PASS(mem_alloc(&m->out->vector, m->space->n, sizeof(float), "an eigenvector", e));
    PASS(by_power ? power(m, m->out->vector, e) : lanczos(m, m->out->vector, e));
    if (!m->r->keep_vector) {
        free(m->out->vector);
        m->out->vector = NULL;
    }
    return OK;
}

static enum status trace(struct measuring *m, struct err *e)
{
    const struct curvature_options *c = &m->r->options;
    say_expected(m, 0);
    if (c->trace <= 0) return OK;
    struct trace_options o = {.probes = c->trace,
                              .target = c->trace_error,
                              .probes_max = c->trace_most,
                              .together = probes_together(c, m->fit),
                              .seed = m->r->seed,
                              .hutchpp = c->hutchpp,
                              .memory = m->bytes,
                              .parts = {m->out->n_tensors, m->offset}};
    PASS(trace_estimate(&m->s->hessian, &o, &m->out->trace, e));
    m->out->products += m->out->trace.products;
    return trace_split(m->s, &m->out->trace, &m->out->split, e);
}

static enum status density(struct measuring *m, struct err *e)
{
    const struct curvature_options *c = &m->r->options;
    /* Only this is still to come. */
    if (m->r->ahead) m->r->ahead(m->r->ahead_context, c->density * c->density_runs);
    if (c->density <= 0) return OK;
    struct density_options o = {c->density_runs, c->density, rng_stream(m->r->seed, density_index),
                                m->bytes};
    PASS(density_estimate(&m->s->hessian, &o, &m->out->density, e));
    m->out->products += m->out->density.products;
    return OK;
}

/* The estimates, in their order. */
static enum status (*const stages[])(struct measuring *m,
                                     struct err *e) = {gradient, probe, sharpness, trace, density};
enum { TRACE_STAGE = 3, STAGES = sizeof stages / sizeof *stages };

/* What the stages before the current one have found. (A probe is for tests and the command
 * curvature, which save nothing.) */
static void move(void *context, struct saved_move *m)
{
    struct measuring *of = context;
    struct curvature *out = of->out;
    saved_bytes(m, &of->stage, sizeof of->stage);
    saved_bytes(m, &out->loss, sizeof out->loss);
    saved_bytes(m, &out->gradient_norm, sizeof out->gradient_norm);
    saved_bytes(m, out->gradient_norms, out->n_tensors * (int64_t)sizeof *out->gradient_norms);
    saved_bytes(m, &out->sharpness, sizeof out->sharpness);
    saved_bytes(m, &out->smallest, sizeof out->smallest);
    saved_bytes(m, &out->dominant, sizeof out->dominant);
    saved_bytes(m, &out->iterations, sizeof out->iterations);
    saved_bytes(m, &out->restarts, sizeof out->restarts);
    saved_bytes(m, &out->vectors, sizeof out->vectors);
    saved_bytes(m, &out->products, sizeof out->products);
    if (of->stage >= TRACE_STAGE && of->r->keep_vector && of->r->options.sharpness)
        saved_array(m, &out->vector, of->space->n, sizeof *out->vector, "an eigenvector");
    if (of->stage > TRACE_STAGE && of->r->options.trace > 0) trace_estimate_move(&out->trace, m);
}

static void clear(struct curvature *c)
{
    const struct eigenpair none = {.value = NAN, .residual = NAN};
    *c = (struct curvature){.loss = NAN, .gradient_norm = NAN, .vhv = NAN};
    c->sharpness = c->smallest = c->dominant = none;
    c->trace.mean = c->trace.error = NAN;
}

static enum status open(struct measuring *m, struct err *e)
{
    struct curvature *out = m->out;
    out->n_tensors = m->s->n_tensors;
    out->parameters = m->space->total;
    PASS(mem_zero(&m->offset, out->n_tensors + 1, sizeof *m->offset, "places of tensors", e));
    PASS(mem_zero(&out->gradient_norms, out->n_tensors, sizeof(double), "norms", e));
    for (int64_t t = 0; t < out->n_tensors; t++) m->offset[t] = m->s->tensors[t].offset;
    m->offset[out->n_tensors] = m->space->total;
    /* 0 would mean no limit to the estimates. */
    m->bytes = max64(1, (int64_t)(m->r->options.memory * 0x1p30));
    m->fit = vectors_fit(&m->r->options, m->space->n_max);
    return OK;
}

enum status curvature_measure(const struct subject *s, const struct curvature_request *request,
                              struct curvature *out, struct err *e)
{
    enum status st = OK;
    struct measuring m = {.s = s, .r = request, .space = &s->hessian.space, .out = out};
    struct saved_level level = {.name = "curvature", .move = move, .context = &m};
    bool loaded;
    double start = clock_seconds();
    clear(out);
    TRY(open(&m, e));
    TRY(saved_enter(s->hessian.saved, &level, &loaded, e));
    ENSURE(m.stage >= 0 && m.stage < STAGES, ERR_FORMAT, "the saved curvature is malformed");
    if (loaded && out->trace.probes > 0) TRY(trace_split(s, &out->trace, &out->split, e));
    for (; m.stage < STAGES; m.stage++) TRY(stages[m.stage](&m, e));
done:
    saved_leave(s->hessian.saved, &level);
    out->seconds = clock_seconds() - start;
    free(m.offset);
    return st;
}

void curvature_free(struct curvature *c)
{
    free(c->gradient_norms);
    free(c->vector);
    free(c->vhv_per_tensor);
    free(c->hv_norms);
    trace_estimate_free(&c->trace);
    trace_split_free(&c->split);
    density_free(&c->density);
    *c = (struct curvature){0};
}

/* Vectors that Lanczos stores, and the density, given that `fit` vectors fit. */
static int64_t lanczos_vectors(const struct curvature_options *o, int64_t fit)
{
    return min64(min64(fit, VECTORS_MAX), o->products + 1);
}

static int64_t density_vectors(const struct curvature_options *o, int64_t fit)
{
    return o->density + 1 <= fit ? o->density + 1 : 3;
}

int64_t curvature_saved_bytes(const struct curvature_options *o, int64_t n)
{
    const int64_t fit = vectors_fit(o, n);
    int64_t vectors = 0;
    if (o->sharpness == SHARPNESS_POWER) vectors = 1;
    if (o->sharpness == SHARPNESS_LANCZOS) vectors = lanczos_vectors(o, fit);
    if (o->trace > 0 && o->hutchpp) vectors = max64(vectors, trace_sketch(o->trace));
    if (o->density > 0) vectors = max64(vectors, density_vectors(o, fit));
    return vectors * n * (int64_t)sizeof(float);
}

int64_t curvature_bytes(const struct curvature_options *o, int64_t n, const struct hvp_bytes *calls)
{
    int64_t vector = n * (int64_t)sizeof(float), fit = vectors_fit(o, n);
    int64_t bytes = vector + calls->gradient;
    if (o->sharpness == SHARPNESS_POWER) bytes = max64(bytes, 2 * vector + calls->product);
    if (o->sharpness == SHARPNESS_LANCZOS) {
        bytes = max64(bytes, lanczos_vectors(o, fit) * vector + calls->product);
    }
    if (o->trace > 0) {
        int64_t together = probes_together(o, fit), kept = o->hutchpp ? trace_sketch(o->trace) : 0;
        int64_t call = calls->product + (together - 1) * calls->further;
        bytes = max64(bytes, (kept + 2 * together) * vector + call);
    }
    if (o->density > 0) {
        bytes = max64(bytes, density_vectors(o, fit) * vector + calls->product);
    }
    return bytes;
}
