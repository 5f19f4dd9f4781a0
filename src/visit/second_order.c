#include "visit/second_order.h"
#include "checkpoint/derived.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "visit/internal.h"
#include "visit/memory_after.h"
#include "visit/weights_file.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- tasks as text --- */

void second_order_task_free(struct second_order_task *t)
{
    if (!t) return;
    data_options_free(&t->data);
    free(t->previous);
    free(t->identity);
    free(t);
}

json_t *second_order_task_to_json(const struct second_order_task *t)
{
    return json_pack("{s:i, s:b, s:s*, s:o, s:s, s:I, s:f}", "depth", t->depth, "critical",
                     t->critical, "previous", t->previous, "data", data_options_to_json(&t->data),
                     "identity", t->identity, "together", (json_int_t)t->together, "memory",
                     t->memory);
}

enum status second_order_task_from_json(const json_t *json, struct second_order_task **out,
                                        struct err *e)
{
    enum status st = OK;
    struct second_order_task *t = NULL;
    const char *previous = json_text(json, "previous", NULL);
    TRY(mem_zero(&t, 1, sizeof *t, "a task", e));
    t->depth = (int)json_integer_value(json_object_get(json, "depth"));
    t->critical = json_is_true(json_object_get(json, "critical"));
    if (previous) TRY(mem_string(&t->previous, previous, e));
    t->together = json_integer_value(json_object_get(json, "together"));
    t->memory = json_number_value(json_object_get(json, "memory"));
    TRY(data_options_from_json(json_object_get(json, "data"), &t->data, e));
    TRY(mem_string(&t->identity, json_text(json, "identity", ""), e));
    *out = t;
    t = NULL;
done:
    second_order_task_free(t);
    return st;
}

void second_order_result_free(struct second_order_result *r)
{
    for (int64_t i = 0; i < r->n_tensors; i++) free(r->names[i]);
    free(r->names);
    free(r->failure);
    prediction_free(&r->prediction);
    *r = (struct second_order_result){0};
}

/* --- the variants' weights on scratch --- */

struct spill {
    char *path; /* NULL once it is open for reading and its name is gone */
    struct safetensors_out *out;
    int64_t linears; /* written */
    struct checkpoint *quantized;
};

struct second_order {
    const struct visit *visit;
    const struct checkpoint *base;
    const struct visit_hooks *outer;
    struct visit_hooks own;
    bool alone;
    int64_t n, n_linears;
    struct spill *spills; // (n)
};

static enum status emit(void *context, const json_t *record, struct err *e)
{
    const struct visit_hooks *outer = ((struct second_order *)context)->outer;
    return outer->emit(outer->context, record, e);
}

static bool should_stop(void *context)
{
    const struct visit_hooks *outer = ((struct second_order *)context)->outer;
    return outer->should_stop && outer->should_stop(outer->context);
}

static enum status hidden(void *context, const struct model *m, const struct sequences *s,
                          const float *x, struct err *e)
{
    const struct visit_hooks *outer = ((struct second_order *)context)->outer;
    return outer->hidden(outer->context, m, s, x, e);
}

static enum status weights(void *context, const struct variant *v, const struct linear *l,
                           const float *q, struct err *e)
{
    enum status st = OK;
    struct second_order *s = context;
    struct spill *spill = &s->spills[v - s->visit->variants];
    TRY(safetensors_append(spill->out, q, l->rows * l->cols, e));
    spill->linears++;
    if (s->outer->weights) TRY(s->outer->weights(s->outer->context, v, l, q, e));
done:
    return st;
}

enum status second_order_open(const struct visit *v, const struct checkpoint *c,
                              const struct visit_hooks *hooks, bool alone,
                              struct second_order **out, struct err *e)
{
    enum status st = OK;
    struct second_order *s = NULL;
    TRY(mem_zero(&s, 1, sizeof *s, "quantized weights", e));
    s->visit = v;
    s->base = c;
    s->outer = hooks;
    s->alone = alone;
    s->own = (struct visit_hooks){.context = s,
                                  .emit = emit,
                                  .should_stop = should_stop,
                                  .weights = weights,
                                  .hidden = hooks->hidden ? hidden : NULL};
    TRY(mem_zero(&s->spills, v->n_variants, sizeof *s->spills, "quantized weights", e));
    for (; s->n < v->n_variants; s->n++) {
        struct spill *spill = &s->spills[s->n];
        TRY(weights_file_scratch(v, s->n, &spill->path, e));
        TRY(weights_file_create(c, spill->path, &s->n_linears, &spill->out, e));
    }
    *out = s;
    s = NULL;
done:
    second_order_close(s);
    return st;
}

const struct visit_hooks *second_order_hooks(const struct second_order *s)
{
    return &s->own;
}

void second_order_close(struct second_order *s)
{
    if (!s) return;
    for (int64_t i = 0; s->spills && i < s->visit->n_variants; i++) {
        struct spill *spill = &s->spills[i];
        checkpoint_close(spill->quantized);
        safetensors_out_close(spill->out);
        if (spill->path) unlink(spill->path);
        free(spill->path);
    }
    free(s->spills);
    free(s);
}

/* The quantized checkpoint of a variant whose weights are all there. */
static enum status open_quantized(struct second_order *s, struct spill *spill, struct err *e)
{
    enum status st = OK;
    TRY(safetensors_commit(spill->out, e));
    safetensors_out_close(spill->out);
    spill->out = NULL;
    TRY(checkpoint_overlay(s->base, spill->path, &spill->quantized, e));
    unlink(spill->path);
    free(spill->path);
    spill->path = NULL;
done:
    return st;
}

/* --- measuring --- */

/* What the variants share. */
struct measuring {
    struct second_order *s;
    const struct sequences *tokens;
    struct hvp *h;
    int64_t n;    /* numbers of a vector */
    float *w, *g; // (n) weights, gradient
    double loss;
    int64_t k;       /* variants that go together */
    int64_t planned; /* bytes of the process at the peak */
    float **delta;   // (k) of n
    bool diagonal;
};

static void measuring_close(struct measuring *m)
{
    for (int64_t i = 0; m->delta && i < m->k; i++) free(m->delta[i]);
    free(m->delta);
    free(m->w);
    free(m->g);
    hvp_close(m->h);
}

static int64_t more(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How many variants go together in curvature.memory and run.memory_per_rank. Their numbers do not
 * depend on it. */
static enum status fit(struct measuring *m, const struct model *model, int64_t wanted,
                       struct err *e)
{
    enum status st = OK;
    const struct visit *v = m->s->visit;
    const struct second_order_task *t = v->second_order;
    struct model_sizes sizes;
    model_sizes(model, &sizes);
    const struct memory_after after = {
        &sizes,
        omp_get_max_threads(),
        {m->tokens->n, m->tokens->offset[m->tokens->n], sequences_longest(m->tokens)}};
    int64_t bound = v->run.memory ? v->run.memory : m->s->outer->memory;
    int64_t base = memory_base_now(&sizes, after.threads);
    int64_t room = bound > 0 ? more(memory_room(bound) - base, 1) : 0;
    int64_t together = wanted < t->together ? wanted : t->together;
    int64_t one = memory_second_order(&after, t->depth, t->critical, 1);
    ENSURE(memory_together(&after, t->depth, t->critical, 1, t->memory, 0) == 1, ERR_USAGE,
           "vectors of %lld numbers for one variant do not fit curvature.memory, %.3g GiB",
           (long long)m->n, t->memory);
    ENSURE(room == 0 || one <= room, ERR_USAGE,
           "run.memory_per_rank of %.0f MiB is too little for the second order of one variant: it "
           "takes %.0f MiB; give a rank more memory",
           (double)bound / 0x1p20, (double)memory_bound(base + one) / 0x1p20);
    m->k = memory_together(&after, t->depth, t->critical, together, t->memory, room);
    m->planned = base + memory_second_order(&after, t->depth, t->critical, m->k);
done:
    return st;
}

static enum status measuring_open(struct measuring *m, const struct model *model, int64_t wanted,
                                  struct err *e)
{
    enum status st = OK;
    TRY(hvp_open(model, m->tokens, HVP_QUANTIZED, &m->h, e));
    m->n = hvp_n(m->h);
    TRY(fit(m, model, wanted, e));
    TRY(hvp_loss(m->h, &m->loss, e));
    if (m->s->visit->second_order->depth == SECOND_ORDER_NONE) goto done;
    TRY(mem_alloc(&m->w, m->n, sizeof *m->w, "weights", e));
    TRY(mem_alloc(&m->g, m->n, sizeof *m->g, "the gradient", e));
    TRY(mem_zero(&m->delta, m->k, sizeof *m->delta, "changes of weights", e));
    for (int64_t i = 0; i < m->k; i++)
        TRY(mem_alloc(&m->delta[i], m->n, sizeof *m->delta[i], "changes of weights", e));
    TRY(hvp_weights(m->h, m->w, e));
    TRY(hvp_gradient(m->h, m->g, NULL, e));
done:
    return st;
}

/* The variant's loss and, where it is asked for, its critical sharpness; delta (n, or NULL) = its
 * change of the weights. */
static enum status measure_quantized(const struct measuring *m, struct spill *spill, float *delta,
                                     struct second_order_result *r, struct err *e)
{
    enum status st = OK;
    struct model *model = NULL;
    struct hvp *h = NULL;
    double loss;
    TRY(open_quantized(m->s, spill, e));
    TRY(model_open(spill->quantized, &model, e));
    TRY(hvp_open(model, m->tokens, HVP_QUANTIZED, &h, e));
    TRY(hvp_loss(h, &loss, e));
    r->true_difference = loss - m->loss;
    if (m->s->visit->second_order->critical)
        TRY(critical_between(m->s->base, spill->quantized, 1, m->tokens, m->loss, &r->critical, e));
    if (!delta) goto done;
    TRY(hvp_weights(h, delta, e));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m->n; i++) delta[i] -= m->w[i];
done:
    hvp_close(h);
    model_close(model);
    checkpoint_close(spill->quantized);
    spill->quantized = NULL;
    return st;
}

/* Takes the prediction over. */
static enum status take(const struct measuring *m, struct prediction *p,
                        struct second_order_result *r, struct err *e)
{
    enum status st = OK;
    r->prediction = *p;
    *p = (struct prediction){0};
    TRY(mem_zero(&r->names, r->prediction.n_tensors, sizeof *r->names, "tensors", e));
    for (; r->n_tensors < r->prediction.n_tensors; r->n_tensors++)
        TRY(mem_string(&r->names[r->n_tensors], hvp_tensor(m->h, r->n_tensors)->name, e));
done:
    return st;
}

static enum status predict(struct measuring *m, const int64_t *which, int64_t k,
                           struct second_order_result *results, struct err *e)
{
    enum status st = OK;
    struct prediction *p = NULL;
    TRY(mem_zero(&p, k, sizeof *p, "predictions", e));
    TRY(prediction_make(m->h, m->g, k, (const float *const *)m->delta, m->diagonal, p, e));
    for (int64_t i = 0; i < k; i++) TRY(take(m, &p[i], &results[which[i]], e));
done:
    for (int64_t i = 0; p && i < k; i++) prediction_free(&p[i]);
    free(p);
    return st;
}

/* Variants which[0..k), which share a pass. */
static enum status measure_some(struct measuring *m, const int64_t *which, int64_t k,
                                struct second_order_result *results, struct err *e)
{
    enum status st = OK;
    double start = clock_seconds();
    for (int64_t i = 0; i < k; i++) {
        if (m->s->alone && should_stop(m->s)) FAIL(ERR_STOPPED, "stopped");
        TRY(measure_quantized(m, &m->s->spills[which[i]], m->delta ? m->delta[i] : NULL,
                              &results[which[i]], e));
    }
    if (m->delta) TRY(predict(m, which, k, results, e));
    double seconds = (clock_seconds() - start) / (double)k;
    for (int64_t i = 0; i < k; i++) {
        results[which[i]].seconds = seconds;
        results[which[i]].done = true;
    }
done:
    return st;
}

static enum status measure(struct second_order *s, const struct model *m, struct visit_cache *cache,
                           struct second_order_result *results, int64_t *planned, struct err *e)
{
    enum status st = OK;
    struct measuring w = {.s = s, .diagonal = s->visit->second_order->depth == SECOND_ORDER_LAYERS};
    int64_t *which = NULL, n = 0;
    TRY(mem_alloc(&which, s->n, sizeof *which, "variants", e));
    for (int64_t i = 0; i < s->n; i++)
        if (s->spills[i].linears == s->n_linears) which[n++] = i;
    if (n == 0) goto done;
    TRY(visit_sequences_get(cache, s->visit, &s->visit->second_order->data, &w.tokens, e));
    TRY(measuring_open(&w, m, n, e));
    *planned = more(*planned, w.planned);
    for (int64_t i = 0; i < n; i += w.k)
        TRY(measure_some(&w, which + i, n - i < w.k ? n - i : w.k, results, e));
done:
    measuring_close(&w);
    free(which);
    return st;
}

enum status second_order_measure(struct second_order *s, const struct model *m,
                                 struct visit_cache *cache, struct second_order_result *results,
                                 int64_t *planned, struct err *e)
{
    enum status st = OK;
    struct err failure = {0};
    enum status measured = measure(s, m, cache, results, planned, &failure);
    if (measured == ERR_STOPPED) FAIL(measured, "%s", failure.text);
    for (int64_t i = 0; measured != OK && i < s->n; i++)
        if (!results[i].done)
            TRY(mem_format(&results[i].failure, e, "second_order: %s", failure.text));
done:
    return st;
}

static enum status measure_checkpoint(const struct visit *v, const struct checkpoint *c,
                                      const struct model *m, struct visit_cache *cache,
                                      struct critical *out, struct err *e)
{
    enum status st = OK;
    const struct second_order_task *t = v->second_order;
    const struct sequences *tokens;
    struct checkpoint *previous = NULL;
    struct hvp *h = NULL;
    double loss;
    TRY(visit_sequences_get(cache, v, &t->data, &tokens, e));
    TRY(checkpoint_open(t->previous, &previous, e));
    TRY(hvp_open(m, tokens, HVP_QUANTIZED, &h, e));
    TRY(hvp_loss(h, &loss, e));
    TRY(critical_between(c, previous, -1, tokens, loss, out, e));
done:
    hvp_close(h);
    checkpoint_close(previous);
    return st;
}

enum status second_order_of_checkpoint(const struct visit *v, const struct checkpoint *c,
                                       const struct model *m, struct visit_cache *cache,
                                       struct second_order_result *out, struct err *e)
{
    enum status st = OK;
    struct err failure = {0};
    double start = clock_seconds();
    if (!v->second_order->previous) goto done;
    out->done = measure_checkpoint(v, c, m, cache, &out->critical, &failure) == OK;
    if (!out->done) TRY(mem_format(&out->failure, e, "critical: %s", failure.text));
    out->seconds = clock_seconds() - start;
done:
    return st;
}
