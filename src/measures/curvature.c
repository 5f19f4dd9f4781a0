#include "measures/curvature.h"
#include "engine/inputs.h"
#include "engine/part_saved.h"
#include "engine/stamp.h"
#include "records/record_parts.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

static const struct option step_fields[] = {
    OPTION(curvature_step, weights, GROUP, "", .table = &weights_table),
    OPTION(curvature_step, key, TEXT, "", .required = true),
};
static const struct option_table step_table = {OPTION_ROWS(step_fields, curvature_step)};

static const struct option setup_fields[] = {
    OPTION(curvature_setup, options, GROUP, "", .table = &curvature_table),
    OPTION(curvature_setup, data, GROUP, "", .table = &data_table),
    OPTION(curvature_setup, seed, INT, "", OPTION_ANY_INT),
    OPTION(curvature_setup, vectors, TEXT, ""),
    OPTION(curvature_setup, before, LIST, "",
           OPTION_ENTRIES(curvature_setup, n_before, &step_table)),
    OPTION(curvature_setup, followed, BOOL, ""),
    OPTION(curvature_setup, parts, TEXT, ""),
};
static const struct option_table setup_table = {OPTION_ROWS(setup_fields, curvature_setup)};

/* --- its records --- */

static const struct field fields[] = {
    {STATUS_FIELD("curvature_status")},
    {MESSAGE_FIELD("curvature_message")},
    {"subset", "curvature_subset", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "parameters whose Hessian is measured"},
    {"sharpness", "sharpness_method", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "how sharpness was found: power or lanczos"},

    {"loss", "curvature_loss", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "cross-entropy per token of the text that curvature is measured on"},
    {"tokens", "curvature_tokens", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "tokens scored by curvature_loss"},
    {"parameters", "curvature_parameters", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "parameters of the subset whose Hessian is measured"},
    {"gradient_norm", "gradient_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean norm of the gradient of curvature_loss"},
    {"sharpness", "sharpness", IN_VALUES, FIELD_REAL, STABLE, "1",
     "largest eigenvalue of the Hessian; by power iteration the one of largest magnitude"},
    {"sharpness_residual", "sharpness_residual", IN_VALUES, FIELD_REAL, STABLE, "1",
     "|Hv - lambda v| of sharpness: some eigenvalue is at most this far"},
    {"sharpness_converged", "sharpness_converged", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "1: sharpness_residual is within the tolerance, relative to sharpness; 0: it is not"},
    {"sharpness_iterations", "sharpness_iterations", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "iterations for the eigenvalues, one product each"},
    {"warm_start", "sharpness_warm_start", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "1: the iteration started from the eigenvector of the checkpoint before"},
    {"smallest_eigenvalue", "smallest_eigenvalue", IN_VALUES, FIELD_REAL, STABLE, "1",
     "smallest (most negative) eigenvalue of the Hessian, by Lanczos"},
    {"smallest_residual", "smallest_eigenvalue_residual", IN_VALUES, FIELD_REAL, STABLE, "1",
     "|Hv - lambda v| of smallest_eigenvalue"},
    {"trace", "trace", IN_VALUES, FIELD_REAL, STABLE, "1", "estimate of the Hessian's trace"},
    {"trace_stderr", "trace_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "standard error of trace, over probes"},
    {"trace_probes", "trace_probes", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "random probes used for trace and its standard error"},
    {"products", "curvature_products", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "Hessian-vector products, all together"},
    {"peak_memory", "curvature_peak_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak resident memory of a process of the group so far, curvature included"},
    {"planned_memory", "curvature_planned_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak memory that the visit with its curvature was planned to take"},
    {SECONDS_FIELD("seconds", "curvature_seconds", "time of the measurement of curvature")},

    RECORD_FIELDS,
};

static const struct field tensors[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block; -1 outside the blocks"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "its parameters"},
    {"gradient_norm", "gradient_norm", IN_LIST, FIELD_REAL, STABLE, "1",
     "Euclidean norm of its part of the gradient"},
    {"trace", "trace", IN_LIST, FIELD_REAL, STABLE, "1",
     "estimate of its part of the Hessian's trace"},
    {"trace_stderr", "trace_stderr", IN_LIST, FIELD_REAL, STABLE, "1",
     "standard error of that, over probes"},
    {0},
};

static const struct field traces[] = {
    {"kind", "kind", IN_LIST, FIELD_TEXT, STABLE, NULL,
     "kind of tensor: its name without the number of the layer; empty: all of the layer"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1",
     "block; -1: tensors outside the blocks, or of all layers"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "parameters of the part"},
    {"trace", "trace", IN_LIST, FIELD_REAL, STABLE, "1", "estimate of the part's trace"},
    {"trace_stderr", "trace_stderr", IN_LIST, FIELD_REAL, STABLE, "1",
     "standard error of that, over probes"},
    {0},
};

static const struct field density[] = {
    {"run", "run", IN_LIST, FIELD_INTEGER, STABLE, "1", "number of the random start"},
    {"node", "node", IN_LIST, FIELD_REAL, STABLE, "1", "Ritz value"},
    {"weight", "weight", IN_LIST, FIELD_REAL, STABLE, "1",
     "its share of the spectrum; weights of a run sum to 1"},
    {0},
};

static const struct record_table tables[] = {
    {"tensors", "curvature_tensors", tensors},
    {"traces", "curvature_traces", traces},
    {"density", "spectral_density", density},
    {0},
};

static const struct measure_iterated sharpness = {
    .noun = "sharpnesses",
    .value = "sharpness",
    .residual = "sharpness_residual",
    .converged = "sharpness_converged",
    .remedy = "more products or a looser tolerance",
};

/* --- a record --- */

struct state {
    struct measurement m;
    struct warm warm;
    float *start;
    struct curvature c;
    struct memory_fit fit;
};

void curvature_values(json_t *values, const struct curvature_options *o, const struct curvature *c)
{
    record_number(values, "loss", c->loss);
    record_integer(values, "parameters", c->parameters);
    record_number(values, "gradient_norm", c->gradient_norm);
    record_integer(values, "products", c->products);
    if (o->sharpness != SHARPNESS_NONE) {
        record_number(values, "sharpness", c->sharpness.value);
        record_number(values, "sharpness_residual", c->sharpness.residual);
        record_integer(values, "sharpness_converged", c->sharpness.converged);
        record_integer(values, "sharpness_iterations", c->iterations);
    }
    if (o->sharpness == SHARPNESS_LANCZOS) {
        record_number(values, "smallest_eigenvalue", c->smallest.value);
        record_number(values, "smallest_residual", c->smallest.residual);
    }
    if (o->trace > 0) {
        record_number(values, "trace", c->trace.mean);
        record_number(values, "trace_stderr", c->trace.error);
        record_integer(values, "trace_probes", c->trace.probes);
    }
}

static void set_tables(json_t *to, const struct measurement *m, const struct curvature *c)
{
    const struct hvp_tensor *t = m->subject.tensors;
    const struct density *d = &c->density;
    const bool traced = c->trace.part != NULL;
    json_t *table = json_object();
    json_object_set_new(to, "tensors", table);
    for (int64_t i = 0; i < m->subject.n_tensors; i++)
        RECORD_ROW(table, tensors, json_string(t[i].name), json_integer(t[i].layer),
                   json_integer(t[i].elements), json_number_new(c->gradient_norms[i]),
                   json_number_new(traced ? c->trace.part[i] : NAN),
                   json_number_new(traced ? c->trace.part_error[i] : NAN));
    if (c->split.n) json_object_set_new(to, "traces", table = json_object());
    for (const struct trace_part *p = c->split.parts; p < c->split.parts + c->split.n; p++)
        RECORD_ROW(table, traces, json_string(p->kind), json_integer(p->layer),
                   json_integer(p->elements), json_number_new(p->trace), json_number_new(p->error));
    if (d->runs) json_object_set_new(to, "density", table = json_object());
    for (int64_t r = 0; r < d->runs; r++)
        for (int64_t i = 0; i < d->count[r]; i++)
            RECORD_ROW(table, density, json_integer(r), json_number_new(d->node[r * d->steps + i]),
                       json_number_new(d->weight[r * d->steps + i]));
}

static const char *const sharpness_names[] = {
    [SHARPNESS_NONE] = "", [SHARPNESS_POWER] = "power", [SHARPNESS_LANCZOS] = "lanczos"};

static json_t *record_curvature(const struct part_context *context, const struct err *failure)
{
    const struct curvature_setup *setup = context->visit->setup[MEASURE_curvature];
    const struct state *p = context->state[MEASURE_curvature];
    const struct curvature_options *options = &setup->options;
    json_t *record = part_record(context, MEASURE_curvature, failure);
    json_object_set_new(record, "tables", json_object());
    json_t *values = json_object_get(record, "values");
    json_t *provenance = json_object_get(record, "provenance");
    json_object_set_new(provenance, "subset", json_string(hvp_subsets[options->subset]));
    json_object_set_new(provenance, "sharpness", json_string(sharpness_names[options->sharpness]));
    if (p->warm.chain)
        json_object_set_new(provenance, "weights_chain",
                            json_string(p->warm.chain[p->warm.setup->n_before]));
    if (failure->code != OK) return record;
    record_number(values, "peak_memory", provenance_peak_memory());
    record_number(values, "planned_memory",
                  (double)max64(p->fit.bytes + p->fit.shared, context->provenance.memory_planned));
    record_integer(values, "tokens", p->m.tokens);
    curvature_values(values, options, &p->c);
    if (options->sharpness != SHARPNESS_NONE)
        record_integer(values, "warm_start", p->start != NULL);
    set_tables(json_object_get(record, "tables"), &p->m, &p->c);
    parts_note(record, setup->parts);
    return record;
}

/* --- the part --- */

static void inputs(const struct visit *v, char stamp[HASH_HEX])
{
    const struct curvature_setup *t = v->setup[MEASURE_curvature];
    stamp_data(stamp, &t->data);
    for (int64_t i = 0; i < t->n_before; i++) stamp_weights(stamp, &t->before[i].weights);
}

static void cost(const void *setup, const struct model_sizes *m, const struct cost_tokens *t,
                 bool kept, struct cost *once, struct cost *cell)
{
    const struct curvature_setup *c = setup;
    (void)cell;
    if (curvature_asked_for(&c->options))
        *once = cost_curvature(m, t, c->options.subset, curvature_products_max(&c->options), kept);
}

static enum status memory(const void *setup, const struct memory_after *a, bool may_keep,
                          struct memory_fit *out, struct err *e)
{
    const struct curvature_setup *t = setup;
    return memory_fit_curvature(a, &t->options, t->vectors != NULL, may_keep, out, e);
}

/* Which share of the work the gradient is, and each of as many products as there may be. */
static void share_work(const struct part_context *c, struct measurement *m,
                       const struct curvature_options *o, bool kept)
{
    const struct cost_tokens any = {.tokens = 1};
    const int64_t most = curvature_products_max(o);
    struct model_sizes sizes;
    model_sizes(c->model, &sizes);
    const struct cost all = cost_curvature(&sizes, &any, o->subset, most, kept),
                      gradient = cost_curvature(&sizes, &any, o->subset, 0, kept);
    m->pace = c->pace;
    m->share_gradient = cost_flop(&gradient) / cost_flop(&all);
    m->share_product = most > 0 ? (1 - m->share_gradient) / (double)most : 0;
}

/* Looks for the state of an interrupted measurement. The record's key holds the text, the seed and
 * the chain of a warm start, without the places of their files. */
static enum status open_saved(struct part_context *c, bool keep_vector, struct err *e)
{
    const struct curvature_setup *t = c->visit->setup[MEASURE_curvature];
    struct state *p = c->state[MEASURE_curvature];
    AUTO_FREE char *name = NULL, *settings = NULL;
    json_auto_t *options = options_to_json(&curvature_table, &t->options);
    AUTO_FREE char *text = options ? json_dump_whole(options, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    enum status st =
        text ? mem_format(&name, e, "curvature %s", c->visit->record_key[MEASURE_curvature])
             : err_set(e, ERR_NOMEM, __FILE__, __LINE__, "out of memory for a saved state");
    if (st == OK)
        st = mem_format(&settings, e, "%s %s %d %s", c->ranks_fingerprint, text, keep_vector,
                        t->parts ? t->parts : "");
    PASS(group_agree(c->group, st, e));
    PASS(part_saved_open(c, MEASURE_curvature, name, settings, &c->saved[MEASURE_curvature], e));
    measurement_save_to(&p->m, c->saved[MEASURE_curvature]);
    return OK;
}

static enum status run(struct part_context *c, struct err *e)
{
    const struct curvature_setup *t = c->visit->setup[MEASURE_curvature];
    struct state *p = c->state[MEASURE_curvature];
    struct measurement *m = &p->m;
    struct curvature_request request = {.options = t->options,
                                        .seed = (uint64_t)t->seed,
                                        .keep_vector = t->vectors != NULL && t->followed};
    *m = (struct measurement){.model = c->model, .group = c->group, .hooks = c->hooks};
    enum status st = visit_sequences_get(c->cache, c->visit, &t->data, &m->sequences, e);
    if (st == OK) st = visit_check_ids(c->model, &t->data, m->sequences, e);
    if (st == OK && t->vectors) st = warm_open(&p->warm, t, c->visit, c->ranks_fingerprint, e);
    PASS(group_agree(m->group, st, e));
    PASS(measurement_open(m, (enum hvp_subset)t->options.subset, e));
    PASS(measurement_fit(m, &measure_curvature, t, 0, part_bound(c), &p->fit, e));
    share_work(c, m, &t->options, p->fit.kept);
    if (t->vectors) { /* what it computes of checkpoints before, their own visits find ready */
        pace_prepare(c->pace, true);
        st = warm_start(&p->warm, m, &p->start, e);
        pace_prepare(c->pace, false);
        PASS(st);
    }
    request.start = p->start;
    PASS(open_saved(c, request.keep_vector, e));
    PASS(measurement_run(m, &request, &p->c, e));
    if (m->rank == 0) log_trace("visit", "curvature: %lld products", (long long)p->c.products);
    if (t->vectors) PASS(warm_keep(&p->warm, t->n_before, m, p->c.vector, e));
    return OK;
}

static enum status emit(struct part_context *c, const struct err *failure, struct err *e)
{
    return part_emit(c, record_curvature(c, failure), e);
}

static void close_state(struct part_context *c)
{
    struct state *p = c->state[MEASURE_curvature];
    curvature_free(&p->c);
    free(p->start);
    warm_close(&p->warm);
    measurement_close(&p->m);
}

static const struct option keys[] = {
    {.name = "curvature",
     .doc =
         "sharpness, trace and spectrum of the full-precision loss's Hessian, at each checkpoint",
     .type = OPTION_GROUP,
     .otherwise = "none",
     .table = &curvature_section_table},
};

const struct measure measure_curvature = {
    MEASURE_OF_CHECKPOINTS(curvature),
    .section = {OPTION_ROWS(keys, curvature_section)},
    .check = curvature_check,
    .group = "curvature",
    .fields = fields,
    .tables = tables,
    .number_long_name = "row of the checkpoint in curvature/",
    .iterated = &sharpness,
    .key = curvature_key,
    .parts = &curvature_parts,
    .make_setup = curvature_make_setup,
    .stale = curvature_stale,
    .text = curvature_text,
    .text_name = "curvature",
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
