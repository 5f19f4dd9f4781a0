/* Measures how the quantized weights of a visit's variants change the loss. */
#include "curvature/vector.h"
#include "engine/inputs.h"
#include "engine/part_saved.h"
#include "measures/measurement.h"
#include "measures/second_order_internal.h"
#include "util/clock.h"
#include "util/mem.h"
#include <math.h>

/* --- losses --- */

/* The tokens and ranks that losses are computed with. */
struct lost_ranks {
    const struct visit_group *group;
    const struct sequences *tokens;
    enum products products; /* of the visit */
};

/* Losses whose difference is wanted. One term errs by up to 5e-4 of a loss, which is as much as
 * eight bits change it (docs/math/products.md). */
static enum products kind_of_losses(enum products kind)
{
    return kind == PRODUCTS_BF16 ? PRODUCTS_F32 : kind;
}

/* Computes the model's loss, which may be not finite, and delta, the difference of its weights from
 * w (delta NULL: not computed). */
static enum status loss_of_model(const struct lost_ranks *of, const struct model *model,
                                 const float *w, float *delta, double *loss, struct err *e)
{
    CLEANUP(measurement_close)
    struct measurement m = {.model = model, .sequences = of->tokens, .group = of->group};
    PASS(measurement_open(&m, HVP_QUANTIZED, e));
    hvp_multiply(m.h, kind_of_losses(of->products));
    enum status st = hvp_loss(m.h, loss, e);
    if (st == OK && delta) st = hvp_weights(m.h, delta, e);
    const int64_t n = st == OK && delta ? hvp_space(m.h)->n : 0;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) delta[i] -= w[i];
    return measurement_end(&m, st, e);
}

/* All ranks have the same loss, so that all fail together. */
static enum status check_loss(double loss, const char *whose, struct err *e)
{
    NEED(isfinite(loss), ERR_NUMERIC, "the loss of the %s is not finite", whose);
    return OK;
}

/* The same for a checkpoint; st: whether this rank could open it. */
static enum status loss_of_checkpoint(const struct lost_ranks *of, enum status st,
                                      struct checkpoint *c, const float *w, float *delta,
                                      double *loss, struct err *e)
{
    CLEANUP(model_close_at) struct model *model = NULL;
    if (st == OK) st = model_open(c, &model, e);
    PASS(group_agree(of->group, st, e));
    return loss_of_model(of, model, w, delta, loss, e);
}

/* For critical_between, which counts a loss that is not finite as risen. */
static enum status loss_of(void *context, enum status st, struct checkpoint *c, double *loss,
                           struct err *e)
{
    return loss_of_checkpoint(context, st, c, NULL, NULL, loss, e);
}

/* --- measuring --- */

/* State that the variants share. Vectors are distributed over the ranks. */
struct measuring {
    struct second_order *s;
    struct lost_ranks losses;
    struct measurement base; /* of the model itself */
    int64_t n;               /* numbers of this rank's part of a vector */
    float *w, *g;            // (n) weights, gradient
    double loss;
    double share_pass; /* of the part's work: a forward pass */
    int64_t k;         /* variants that share a pass */
    float **delta;     // (k) of n
    bool diagonal;
};

static void measuring_close(struct measuring *m)
{
    vectors_free(m->delta, m->k);
    free(m->w);
    free(m->g);
    measurement_close(&m->base);
}

/* The hooks are collective on the whole group. */
static bool stops(const struct second_order *s)
{
    const struct visit_hooks *hooks = s->context->hooks;
    return s->group == s->context->group && hooks->should_stop &&
           hooks->should_stop(hooks->context);
}

/* Which shares of the part's work its passes are, for so many variants. */
static void share_work(struct measuring *m, int64_t n, bool kept)
{
    const struct second_order_setup *t = m->s->setup;
    const struct cost_tokens any = {.tokens = 1};
    struct model_sizes sizes;
    model_sizes(m->base.model, &sizes);
    struct cost all = cost_second_order(&sizes, &any, t->depth, t->critical, kept);
    const struct cost cell = cost_second_order_cell(&sizes, &any, t->depth, t->critical, kept),
                      pass = cost_second_order(&sizes, &any, SECOND_ORDER_NONE, false, kept),
                      gradient = cost_curvature(&sizes, &any, HVP_QUANTIZED, 0, kept),
                      product = cost_curvature(&sizes, &any, HVP_QUANTIZED, 1, kept);
    cost_add(&all, &cell, (double)n);
    const double sum = cost_flop(&all);
    m->share_pass = cost_flop(&pass) / sum;
    m->base.pace = m->s->context->pace;
    m->base.share_gradient = cost_flop(&gradient) / sum;
    m->base.share_product = (cost_flop(&product) - cost_flop(&gradient)) / sum;
}

static enum status measuring_open(struct measuring *m, const struct model *model, int64_t wanted,
                                  struct err *e)
{
    const struct visit_group *g = m->s->group;
    struct memory_fit fit;
    m->base = (struct measurement){.model = model, .sequences = m->losses.tokens, .group = g};
    PASS(measurement_open(&m->base, HVP_QUANTIZED, e));
    m->n = hvp_space(m->base.h)->n;
    /* Results do not depend on how many variants share a pass. */
    PASS(measurement_fit(&m->base, &measure_second_order, m->s->setup, wanted,
                         part_bound(m->s->context), &fit, e));
    m->s->planned = fit.bytes + fit.shared;
    share_work(m, wanted, fit.kept);
    m->k = -group_max(g, -fit.together);
    hvp_multiply(m->base.h, kind_of_losses(m->losses.products));
    PASS(measurement_end(&m->base, hvp_loss(m->base.h, &m->loss, e), e));
    hvp_multiply(m->base.h, m->losses.products);
    pace_step(m->s->context->pace, m->share_pass);
    PASS(check_loss(m->loss, "model", e));
    if (m->s->setup->depth == SECOND_ORDER_NONE) return OK;
    enum status st = mem_alloc(&m->w, m->n, sizeof *m->w, "weights", e);
    if (st == OK) st = mem_alloc(&m->g, m->n, sizeof *m->g, "the gradient", e);
    if (st == OK)
        st = vectors_alloc(&m->delta, m->k, m->n, sizeof **m->delta, "changes of weights", e);
    if (st == OK) st = hvp_weights(m->base.h, m->w, e);
    PASS(group_agree(g, st, e));
    m->base.share = m->base.share_gradient;
    PASS(measurement_end(&m->base, hvp_gradient(m->base.h, m->g, NULL, e), e));
    m->base.share = m->base.share_product;
    return OK;
}

/* Computes the variant's loss, weight change and, if requested, critical sharpness. */
static enum status measure_quantized(struct measuring *m, struct weights_spill *spill, float *delta,
                                     struct second_order_result *r, struct err *e)
{
    enum status st = OK;
    const struct critical_loss along = {loss_of, &m->losses};
    double loss;
    TRY(second_order_quantized(m->s, spill, e));
    TRY(loss_of_checkpoint(&m->losses, OK, spill->quantized, m->w, delta, &loss, e));
    TRY(check_loss(loss, "quantized model", e));
    r->true_difference = loss - m->loss;
    pace_step(m->s->context->pace, m->share_pass);
    if (!m->s->setup->critical) goto done;
    TRY(critical_between(m->s->context->checkpoint, spill->quantized, 1, &along, m->loss,
                         &r->critical, e));
    pace_step(m->s->context->pace, (double)r->critical.passes * m->share_pass);
done:
    checkpoint_close(spill->quantized);
    spill->quantized = NULL;
    return st;
}

/* Moves the prediction into the result. */
static enum status take(const struct measuring *m, struct prediction *p,
                        struct second_order_result *r, struct err *e)
{
    r->prediction = *p;
    *p = (struct prediction){0};
    PASS(mem_zero(&r->names, r->prediction.n_tensors, sizeof *r->names, "tensors", e));
    for (; r->n_tensors < r->prediction.n_tensors; r->n_tensors++)
        PASS(mem_string(&r->names[r->n_tensors], hvp_tensor(m->base.h, r->n_tensors)->name, e));
    return OK;
}

/* Looks for the state of the pass over these variants; that of the pass before has been completed.
 * Only the passes of all tensors take long, and rank 0 alone saves nothing. */
static enum status open_saved(struct measuring *m, const int64_t *which, int64_t k, struct err *e)
{
    enum status st = OK;
    struct part_context *c = m->s->writable;
    struct saved **saved = &c->saved[MEASURE_second_order];
    AUTO_FREE char *name = NULL;
    part_saved_end(c, *saved, OK);
    *saved = NULL;
    measurement_save_to(&m->base, NULL);
    if (!m->diagonal || m->s->group != c->group) return OK;
    json_t *keys = json_pack("[s]", "second order");
    for (int64_t i = 0; i < k; i++)
        json_array_append_new(keys, json_string(c->visit->variants[which[i]].key));
    name = keys ? json_dump_whole(keys, JSON_COMPACT) : NULL;
    json_decref(keys);
    if (!name) st = err_set(e, ERR_NOMEM, __FILE__, __LINE__, "out of memory for a saved state");
    st = group_agree(c->group, st, e);
    if (st == OK)
        st = part_saved_open(c, MEASURE_second_order, name, m->s->setup->identity, saved, e);
    if (st == OK) measurement_save_to(&m->base, *saved);
    return st;
}

static enum status predict(struct measuring *m, const int64_t *which, int64_t k,
                           struct second_order_result *results, struct err *e)
{
    enum status st = OK;
    AUTO_FREE struct prediction *p = NULL;
    PASS(open_saved(m, which, k, e));
    st = mem_zero(&p, k, sizeof *p, "predictions", e);
    if (st == OK)
        st = prediction_make(m->base.h, m->g, k, (const float *const *)m->delta, m->diagonal,
                             m->base.saved, p, e);
    for (int64_t i = 0; st == OK && i < k; i++) st = take(m, &p[i], &results[which[i]], e);
    st = measurement_end(&m->base, st, e);
    for (int64_t i = 0; p && i < k; i++) prediction_free(&p[i]);
    return st;
}

/* Stores a failure as text. Collective. */
static enum status note(const struct visit_group *g, const char *what, const struct err *why,
                        struct second_order_result *r, struct err *e)
{
    r->code = why->code;
    return group_agree(g, mem_format(&r->failure, e, "%s: %s", what, why->text), e);
}

/* A variant that fails is skipped; a stop and errors of MPI or storage end all. */
static enum status measure_one(struct measuring *m, int64_t variant, float *delta,
                               struct second_order_result *r, struct err *e)
{
    struct err why = {0};
    enum status measured = measure_quantized(m, &m->s->spills[variant], delta, r, &why);
    if (measured == ERR_STOPPED || measured == ERR_MPI || measured == ERR_FULL ||
        measured == ERR_IO)
        RAISE(measured, "%s", why.text);
    if (measured != OK) PASS(note(m->s->group, "second_order", &why, r, e));
    return OK;
}

/* Measures the variants which[0..k) in one pass; removes those that fail from `which`. */
static enum status measure_some(struct measuring *m, int64_t *which, int64_t k,
                                struct second_order_result *results, struct err *e)
{
    const struct err infinite = {.text = "the prediction is not finite"};
    double start = clock_seconds();
    int64_t n = 0;
    for (int64_t i = 0; i < k; i++) {
        struct second_order_result *r = &results[which[i]];
        if (stops(m->s)) RAISE(ERR_STOPPED, "stopped");
        PASS(measure_one(m, which[i], m->delta ? m->delta[n] : NULL, r, e));
        if (!r->failure) which[n++] = which[i];
    }
    if (m->delta && n > 0) PASS(predict(m, which, n, results, e));
    double seconds = (clock_seconds() - start) / (double)k;
    for (int64_t i = 0; i < n; i++) {
        struct second_order_result *r = &results[which[i]];
        r->seconds = seconds;
        r->done = !m->delta || prediction_is_finite(&r->prediction, m->diagonal);
        if (!r->done) PASS(note(m->s->group, "second_order", &infinite, r, e));
    }
    return OK;
}

/* The variants that are through. */
static enum status complete(const struct second_order *s, struct err *e)
{
    enum status st = OK;
    const struct part_context *c = s->context;
    for (int64_t i = 0; st == OK && i < s->n; i++)
        if (s->results[i].done || s->results[i].failure)
            st = c->engine->complete(c, &c->visit->variants[i], e);
    return group_agree(s->group, st, e);
}

static enum status measure(struct second_order *s, struct err *e)
{
    const struct part_context *c = s->context;
    CLEANUP(measuring_close)
    struct measuring w = {.s = s,
                          .losses = {.group = s->group, .products = c->products},
                          .diagonal = s->setup->depth == SECOND_ORDER_LAYERS};
    AUTO_FREE int64_t *which = NULL;
    int64_t n = 0;
    PASS(group_agree(s->group, mem_alloc(&which, s->n, sizeof *which, "variants", e), e));
    for (int64_t i = 0; i < s->n; i++)
        if (variant_is_completed(&c->visit->variants[i]) &&
            -group_max(s->group, -s->spills[i].linears) == s->n_linears)
            which[n++] = i;
    if (n == 0) return OK;
    enum status st = visit_sequences_get(c->cache, c->visit, &s->setup->data, &w.losses.tokens, e);
    if (st == OK) st = visit_check_ids(c->model, &s->setup->data, w.losses.tokens, e);
    PASS(group_agree(s->group, st, e));
    PASS(measuring_open(&w, c->model, n, e));
    for (int64_t i = 0; i < n; i += w.k) {
        PASS(measure_some(&w, which + i, n - i < w.k ? n - i : w.k, s->results, e));
        PASS(complete(s, e));
    }
    return OK;
}

enum status second_order_measure(struct second_order *s, struct err *e)
{
    struct err failure = {0};
    enum status measured = measure(s, &failure);
    if (measured == ERR_STOPPED) RAISE(measured, "%s", failure.text);
    for (int64_t i = 0; measured != OK && i < s->n; i++)
        if (!s->results[i].done && !s->results[i].failure)
            PASS(note(s->group, "second_order", &failure, &s->results[i], e));
    return OK;
}

static enum status critical_of_checkpoint(const struct second_order *s,
                                          const struct checkpoint *previous, struct critical *out,
                                          struct err *e)
{
    const struct part_context *c = s->context;
    struct lost_ranks losses = {.group = s->group, .products = c->products};
    const struct critical_loss along = {loss_of, &losses};
    double loss;
    PASS(group_agree(
        s->group, visit_sequences_get(c->cache, c->visit, &s->setup->data, &losses.tokens, e), e));
    PASS(loss_of_model(&losses, c->model, NULL, NULL, &loss, e));
    PASS(check_loss(loss, "model", e));
    return critical_between(c->checkpoint, previous, -1, &along, loss, out, e);
}

enum status second_order_of_checkpoint(struct second_order *s, const struct checkpoint *previous,
                                       struct err *failure, struct err *e)
{
    struct second_order_result *out = &s->of_checkpoint;
    double start = clock_seconds();
    out->done =
        failure->code == OK && critical_of_checkpoint(s, previous, &out->critical, failure) == OK;
    if (!out->done) PASS(note(s->group, "critical", failure, out, e));
    out->seconds = clock_seconds() - start;
    return OK;
}
