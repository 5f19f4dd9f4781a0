/* gradient: the mean of the full-precision loss's gradient over batches and its variance among
 * them.
 *
 * A batch is a number of sequences of a text, its gradient g_b that of the mean loss of its tokens.
 * Of n batches, which are taken as independent draws,
 *
 *   mean      g = sum of g_b / n
 *   variance  tr C = sum of |g_b - g|^2 / (n - 1), the trace of the covariance of g_b
 *   signal    |g|^2 - tr C / n
 *
 * The variance is unbiased, and the signal is an unbiased estimate of |E g_b|^2, since the mean of
 * |g|^2 is |E g_b|^2 + tr C / n (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1). It may be
 * negative: then the mean cannot be told from zero. Signal over variance is the signal-to-noise
 * ratio of one batch; its inverse is their simple noise scale, in batches. All are sums over
 * tensors.
 *
 * The sums are made as batches arrive, without cancellation (Welford 1962): with m_k the mean of
 * the first k, sum of |g_b - m_k|^2 grows by (k - 1) / k |g_k - m_(k-1)|^2. */
#include "curvature/vector.h"
#include "engine/inputs.h"
#include "engine/stamp.h"
#include "measures/measurement.h"
#include "plan/plan.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

/* --- its section of the sweep file --- */

struct gradient_section {
    int64_t batches; /* 0: none is measured */
    int64_t sequences, length;
    int subset;               /* enum hvp_subset */
    struct data_options data; /* neither text nor ids: the first evaluation text */
};

static bool absent(const void *entry)
{
    return ((const struct gradient_section *)entry)->batches == 0;
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const struct gradient_section *g = entry;
    if (absent(g)) return options_fail(scope, "batches", e, "expected how many: 2 or more");
    if (g->data.padding == PADDING_COUNTED)
        return options_fail(scope, "data", e, "padding: counted is for calibration");
    return OK;
}

static const struct option section_keys[] = {
    OPTION(gradient_section, batches, INT, "batches whose gradients are compared",
           .unit = "batches", .fallback = "0", .otherwise = "none is measured", .low = 2,
           .high = 1000000, OPTION_SPECIAL(0, NULL)),
    OPTION(gradient_section, sequences, INT, "sequences of a batch", .unit = "sequences",
           .fallback = "4", .low = 1, .high = 1000000),
    OPTION(gradient_section, length, INT,
           "tokens of each sequence that are used, the first ones; own: all", .unit = "tokens",
           .fallback = "own", .low = 2, .high = 1 << 24, OPTION_SPECIAL(0, "own")),
    OPTION(gradient_section, subset, CHOICE, "parameters, as of `curvature`", .fallback = "all",
           .choices = hvp_subsets),
    OPTION(gradient_section, data, GROUP, "separate text for gradients",
           .otherwise = "the first evaluation text", .table = &data_table),
};
static const struct option_table section_table = {OPTION_ROWS(section_keys, gradient_section),
                                                  .finish = finish, .absent = absent};

static const struct option keys[] = {
    {.name = "gradient",
     .doc = "mean and variance of the loss's gradient over batches, at each checkpoint",
     .type = OPTION_GROUP,
     .otherwise = "none",
     .table = &section_table},
};

static const struct gradient_section *section_of(const struct sweep *s)
{
    return s->sections[MEASURE_gradient];
}

static struct data_options text(const struct plan *p, int64_t model)
{
    const struct gradient_section *g = section_of(p->sweep);
    if (absent(g)) return (struct data_options){0};
    const bool own = g->data.text || g->data.ids;
    struct data_options d = plan_data(p, model, own ? &g->data : &p->sweep->evaluations[0]);
    d.samples = g->batches * g->sequences;
    d.tokens = 0;
    if (g->length && (d.cut == 0 || d.cut > g->length)) d.cut = g->length;
    return d;
}

/* --- its setup --- */

struct gradient_setup {
    int64_t sequences;
    int subset;
    struct data_options data;
};

static const struct option setup_fields[] = {
    OPTION(gradient_setup, sequences, INT, "", OPTION_ANY_INT),
    OPTION(gradient_setup, subset, CHOICE, "", .choices = hvp_subsets),
    OPTION(gradient_setup, data, GROUP, "", .table = &data_table),
};
static const struct option_table setup_table = {OPTION_ROWS(setup_fields, gradient_setup)};

static enum status key(struct plan *p, const struct plan_checkpoint *c, json_t **own, struct err *e)
{
    const struct gradient_section *g = section_of(p->sweep);
    const struct data_options data = text(p, c->model);
    json_t *identity;
    *own = NULL;
    if (absent(g)) return OK;
    PASS(plan_data_identity(p, c->model, &data, &identity, e));
    *own = json_pack("{s:i, s:s, s:I, s:s, s:o, s:s*}", "gradient", 1, "tokenizer", c->tokenizer,
                     "sequences", (json_int_t)g->sequences, "subset", hvp_subsets[g->subset],
                     "data", identity, "products", plan_products(p->sweep));
    NEED(*own, ERR_NOMEM, "out of memory for a key");
    return OK;
}

static enum status make_setup(const struct plan *p, const struct plan_checkpoint *c, void *setup,
                              struct err *e)
{
    struct gradient_setup *t = setup;
    const struct data_options data = text(p, c->model);
    t->sequences = section_of(p->sweep)->sequences;
    t->subset = section_of(p->sweep)->subset;
    return options_copy(&data_table, &data, &t->data, e);
}

/* --- its records --- */

static const struct field fields[] = {
    {STATUS_FIELD("gradient_status")},
    {MESSAGE_FIELD("gradient_message")},
    {"subset", "gradient_subset", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "parameters whose gradient is measured"},

    {"batches", "gradient_batches", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "batches over which the gradient's mean and variance are taken"},
    {"tokens", "gradient_tokens", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "tokens scored in all batches together"},
    {"loss", "gradient_loss", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "mean of the batches' cross-entropies per token"},
    {"mean_norm", "gradient_mean_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean norm of the mean of the batches' gradients"},
    {"variance", "gradient_variance", IN_VALUES, FIELD_REAL, STABLE, "1",
     "trace of the covariance of a batch's gradient, unbiased"},
    {"signal", "gradient_signal", IN_VALUES, FIELD_REAL, STABLE, "1",
     "squared norm of the expected gradient, unbiased: gradient_mean_norm^2 - gradient_variance / "
     "gradient_batches"},
    {"signal_to_noise", "gradient_signal_to_noise", IN_VALUES, FIELD_REAL, STABLE, "1",
     "gradient_signal over gradient_variance; its inverse is the simple noise scale, in batches"},
    {SECONDS_FIELD("seconds", "gradient_seconds", "time of the measurement of gradients")},

    RECORD_FIELDS,
};

static const struct field tensors[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block; -1 outside the blocks"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "its parameters"},
    {"variance", "variance", IN_LIST, FIELD_REAL, STABLE, "1", "its part of gradient_variance"},
    {"signal", "signal", IN_LIST, FIELD_REAL, STABLE, "1", "its part of gradient_signal"},
    {0},
};

static const struct record_table tables[] = {
    {"tensors", "gradient_tensors", tensors},
    {0},
};

struct state {
    double loss; /* mean over the batches so far */
    int64_t batches, tokens;
    float *mean, *g; // (space.n) of the batches so far; of one of them
    int64_t n;       /* tensors */
    struct part {
        char *name;
        int64_t layer, elements;
        double deviations; /* sum of |g_b - mean|^2 over the batches so far */
        double squared;    /* |mean|^2, at the end */
    } * parts;             // (n)
    int64_t *offset;       // (n + 1) of their numbers
    double *dots;          // (n)
};

static double variance_of(const struct state *s, const struct part *p)
{
    return p->deviations / (double)(s->batches - 1);
}

static double signal_of(const struct state *s, const struct part *p)
{
    return p->squared - variance_of(s, p) / (double)s->batches;
}

static void set_numbers(json_t *record, const struct state *s)
{
    struct part all = {0};
    json_t *values = json_object_get(record, "values"), *table = json_object();
    json_object_set_new(json_object_get(record, "tables"), "tensors", table);
    for (const struct part *p = s->parts; p < s->parts + s->n; p++) {
        all.deviations += p->deviations;
        all.squared += p->squared;
        RECORD_ROW(table, tensors, json_string(p->name), json_integer(p->layer),
                   json_integer(p->elements), json_number_new(variance_of(s, p)),
                   json_number_new(signal_of(s, p)));
    }
    record_integer(values, "batches", s->batches);
    record_integer(values, "tokens", s->tokens);
    record_number(values, "loss", s->loss);
    record_number(values, "mean_norm", sqrt(all.squared));
    record_number(values, "variance", variance_of(s, &all));
    record_number(values, "signal", signal_of(s, &all));
    record_number(values, "signal_to_noise", signal_of(s, &all) / variance_of(s, &all));
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    const struct gradient_setup *t = c->visit->setup[MEASURE_gradient];
    const struct state *s = c->state[MEASURE_gradient];
    json_t *record = part_record(c, MEASURE_gradient, failure);
    json_object_set_new(record, "tables", json_object());
    json_object_set_new(json_object_get(record, "provenance"), "subset",
                        json_string(hvp_subsets[t->subset]));
    if (failure->code == OK) set_numbers(record, s);
    return part_emit(c, record, e);
}

/* --- the part --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    stamp_data(stamp, &((const struct gradient_setup *)v->setup[MEASURE_gradient])->data);
}

static void cost(const void *setup, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell)
{
    (void)kept;
    (void)cell;
    *once = cost_curvature(m, t, ((const struct gradient_setup *)setup)->subset, 0, false);
}

/* Of one batch, and a further vector. */
static enum status memory(const void *setup, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e)
{
    const struct gradient_setup *t = setup;
    const struct curvature_options o = {.subset = t->subset};
    const int64_t ranks = max64(a->ranks, 1), n = (t->sequences + ranks - 1) / ranks;
    struct memory_after batch = *a;
    (void)may_keep;
    batch.tokens.n = min64(a->tokens.n, n);
    batch.tokens.tokens = min64(a->tokens.tokens, n * a->tokens.longest);
    batch.base +=
        space_cut(hvp_numbers(&a->sizes->spec, (enum hvp_subset)t->subset), 0, (int)ranks).n_max *
        (int64_t)sizeof(float);
    return memory_fit_curvature(&batch, &o, false, false, out, e);
}

static enum status make_parts(struct state *s, const struct measurement *m, struct err *e)
{
    const struct subject *of = &m->subject;
    const int64_t numbers = max64(hvp_space(m->h)->n, 1);
    if (s->parts) return OK;
    PASS(mem_zero(&s->parts, of->n_tensors, sizeof *s->parts, "tensors", e));
    PASS(mem_zero(&s->offset, of->n_tensors + 1, sizeof *s->offset, "tensors", e));
    PASS(mem_zero(&s->dots, of->n_tensors, sizeof *s->dots, "tensors", e));
    PASS(mem_zero(&s->mean, numbers, sizeof *s->mean, "a mean gradient", e));
    PASS(mem_zero(&s->g, numbers, sizeof *s->g, "a gradient", e));
    for (; s->n < of->n_tensors; s->n++) {
        const struct hvp_tensor *t = &of->tensors[s->n];
        s->parts[s->n].layer = t->layer;
        s->parts[s->n].elements = t->elements;
        s->offset[s->n + 1] = t->offset + t->elements;
        PASS(mem_string(&s->parts[s->n].name, t->name, e));
    }
    return OK;
}

/* The gradient of the batch, which becomes one of those so far. Collective. */
static enum status add_batch(struct state *s, struct measurement *m, struct err *e)
{
    const struct space *space = hvp_space(m->h);
    double loss = 0;
    enum status st = measurement_end(m, make_parts(s, m, e), e);
    if (st == OK) st = m->subject.gradient(m, s->g, &loss, e);
    PASS(measurement_end(m, st, e));
    const double k = (double)++s->batches;
    vector_add(space->n, -1, s->mean, s->g);
    vector_part_dots(space, s->n, s->offset, s->g, s->g, s->dots);
    for (int64_t i = 0; i < s->n; i++) s->parts[i].deviations += (k - 1) / k * s->dots[i];
    vector_add(space->n, 1 / k, s->g, s->mean);
    vector_part_dots(space, s->n, s->offset, s->mean, s->mean, s->dots);
    for (int64_t i = 0; i < s->n; i++) s->parts[i].squared = s->dots[i];
    s->loss += (loss - s->loss) / k;
    s->tokens += m->tokens;
    return measurement_end(m, OK, e);
}

/* Batch number b of n. Collective. */
static enum status run_batch(struct part_context *c, const struct sequences *all, int64_t b,
                             int64_t n, struct err *e)
{
    const struct gradient_setup *t = c->visit->setup[MEASURE_gradient];
    struct memory_fit fit = {0};
    const struct sequences batch = {
        .n = t->sequences, .offset = all->offset + b * t->sequences, .ids = all->ids};
    CLEANUP(measurement_close)
    struct measurement m = {.model = c->model,
                            .sequences = &batch,
                            .group = c->group,
                            .hooks = c->hooks,
                            .pace = c->pace,
                            .share_gradient = 1 / (double)n};
    PASS(measurement_open(&m, (enum hvp_subset)t->subset, e));
    PASS(measurement_fit(&m, &measure_gradient, t, 0, part_bound(c), &fit, e));
    return add_batch(c->state[MEASURE_gradient], &m, e);
}

static enum status run(struct part_context *c, struct err *e)
{
    const struct gradient_setup *t = c->visit->setup[MEASURE_gradient];
    const struct sequences *all;
    enum status st = visit_sequences_get(c->cache, c->visit, &t->data, &all, e);
    if (st == OK) st = visit_check_ids(c->model, &t->data, all, e);
    PASS(group_agree(c->group, st, e));
    const int64_t n = all->n / t->sequences;
    NEED(n >= 2, ERR_USAGE,
         "gradient: its text has %lld sequences, expected two batches of %lld or more",
         (long long)all->n, (long long)t->sequences);
    for (int64_t b = 0; b < n; b++) {
        NEED(!c->hooks->should_stop || !c->hooks->should_stop(c->hooks->context), ERR_STOPPED,
             "stopped before a gradient");
        PASS(run_batch(c, all, b, n, e));
    }
    return OK;
}

static void close_state(struct part_context *c)
{
    struct state *s = c->state[MEASURE_gradient];
    for (int64_t i = 0; s->parts && i < s->n; i++) free(s->parts[i].name);
    free(s->parts);
    free(s->offset);
    free(s->dots);
    free(s->mean);
    free(s->g);
}

const struct measure measure_gradient = {
    MEASURE_OF_CHECKPOINTS(gradient),
    .section = {OPTION_ROWS(keys, gradient_section)},
    .group = "gradients",
    .fields = fields,
    .tables = tables,
    .number_long_name = "number of the record, as in gradients/",
    .key = key,
    .make_setup = make_setup,
    .text = text,
    .text_name = "gradient",
    .inputs = inputs,
    .setup = &setup_table,
    .cost = cost,
    .memory = memory,
    .phase = COST_CURVATURE,
    .by_ranks = true,
    .state = sizeof(struct state),
    .run = run,
    .emit = emit,
    .close = close_state,
};
