/* qtraj curvature: gradient, sharpness, trace and spectrum of one checkpoint. */
#include "cli/args.h"
#include "cli/cli.h"
#include "engine/inputs.h"
#include "eval/doubts.h"
#include "math/linalg.h"
#include "measures/curvature.h"
#include "measures/measurement.h"
#include "run/progress.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/lru.h"
#include "util/quantity.h"
#include <math.h>
#include <omp.h>

/* All that is open while a checkpoint is measured. */
struct measured {
    struct data_options data;
    struct curvature_request request;
    struct visit_cache cache;
    struct checkpoint *checkpoint;
    struct model *model;
    enum products products; /* not AUTO */
    struct visit_group alone;
    struct measurement m;
    struct curvature result;
    struct curvature_progress progress;
    double seconds;
};

static void close_all(struct measured *m)
{
    curvature_free(&m->result);
    measurement_close(&m->m);
    group_close(&m->alone);
    model_close(m->model);
    checkpoint_close(m->checkpoint);
    lru_trim(&m->cache.inputs, 0);
    options_free(&data_table, &m->data);
}

/* --- measuring --- */

/* Says how long it will take and starts to count. What is done within seconds is not worth the
 * tenths of a second that it takes to measure this machine. */
static enum status announce(struct measured *m, const char *dir, struct err *e)
{
    enum { WORTH_TELLING = 5 };
    const double worth_measuring = 1e11; /* FLOPs */
    const struct cost_tokens tokens = cost_tokens_count(m->m.sequences);
    const struct curvature_options *o = &m->request.options;
    const int64_t products = curvature_products_max(o) + m->request.probe;
    const struct curvature_setup setup = {.options = *o};
    struct model_sizes sizes;
    struct cost_rates rates;
    struct memory_fit fit = {0};
    struct err why = {0};
    double seconds = 0;
    char time[QUANTITY];
    /* Activations are kept in nine tenths of what this process may have, as in a sweep. */
    if (measurement_fit(&m->m, &measure_curvature, &setup, 0, cli_memory(), &fit, &why) != OK)
        log_trace("memory", "%s", why.text);
    model_sizes(m->model, &sizes);
    const struct cost cost = cost_curvature(&sizes, &tokens, o->subset, products, fit.kept);
    if (cost_flop(&cost) > worth_measuring) {
        PASS(cost_rates_measure(NULL, &rates, e));
        cost_rates_choose(&rates, m->products);
        seconds = cost_seconds(&cost, &rates, NULL);
    }
    quantity_time(seconds, time);
    if (seconds >= WORTH_TELLING)
        log_info("%s: gradient and at most %lld products with the Hessian on %lld sequence%s, "
                 "%lld tokens: at most about %s",
                 dir, (long long)products, (long long)tokens.sequences,
                 quantity_plural(tokens.sequences), (long long)m->m.tokens, time);
    curvature_progress_start(&m->progress, 1 + (double)products, seconds);
    hvp_watch(m->m.h, curvature_progress_add, &m->progress);
    return OK;
}

static enum status measure(struct measured *m, char *dir, char *tokenizer, struct err *e)
{
    double start = clock_seconds();
    int64_t written, positions;
    const struct visit visit = {.weights = {.path = dir}, .tokenizer = tokenizer};
    PASS(linalg_reserve(omp_get_max_threads(), e));
    PASS(weights_open(&visit.weights, NULL, &m->checkpoint, e));
    PASS(model_open(m->checkpoint, &m->model, e));
    model_set_products(m->model, m->products);
    PASS(group_open(MPI_COMM_SELF, &m->alone, e));
    m->m = (struct measurement){.model = m->model, .group = &m->alone};
    PASS(visit_sequences_get(&m->cache, &visit, &m->data, &m->m.sequences, e));
    PASS(visit_check_ids(m->model, &m->data, m->m.sequences, e));
    PASS(visit_positions(dir, &written, &positions, e));
    warn_of_length(dir, "curvature", m->m.sequences, 0, m->m.sequences->n, positions);
    PASS(measurement_open(&m->m, (enum hvp_subset)m->request.options.subset, e));
    PASS(announce(m, dir, e));
    enum status st = measurement_run(&m->m, &m->request, &m->result, e);
    log_clear_line();
    if (st == OK) st = checkpoint_verify(m->checkpoint, e);
    if (st != OK) err_prefix(e, "%s", dir);
    m->seconds = clock_seconds() - start;
    return st;
}

/* --- JSON --- */

static void set(json_t *out, const char *key, double value)
{
    json_object_set_new(out, key, isfinite(value) ? json_real(value) : json_null());
}

/* {TENSOR: value}, NULL for no values */
static json_t *by_tensor(const struct measured *m, const double *values)
{
    json_t *out = values ? json_object() : NULL;
    for (int64_t i = 0; values && i < m->m.subject.n_tensors; i++)
        set(out, m->m.subject.tensors[i].name, values[i]);
    return out;
}

static void set_trace(json_t *out, const struct measured *m)
{
    const struct curvature *c = &m->result;
    json_t *layers = json_array(), *kinds = json_array();
    for (int64_t i = 0; i < c->split.n; i++) {
        const struct trace_part *p = &c->split.parts[i];
        json_t *one = json_object();
        if (p->kind[0])
            json_object_set_new(one, "kind", json_string(p->kind));
        else
            record_integer(one, "layer", p->layer);
        record_integer(one, "elements", p->elements);
        set(one, "trace", p->trace);
        set(one, "trace_stderr", p->error);
        json_array_append_new(p->kind[0] ? kinds : layers, one);
    }
    json_object_set_new(out, "trace_by_layer", layers);
    json_object_set_new(out, "trace_by_kind", kinds);
    json_object_set_new(out, "traces", by_tensor(m, c->trace.part));
}

/* The cube's numbers, null where one is not finite, and more. */
static enum status print_json(const struct measured *m, struct err *e)
{
    const struct curvature *c = &m->result;
    const struct curvature_options *o = &m->request.options;
    json_t *out = json_object(), *value;
    const char *key;
    curvature_values(out, o, c);
    json_object_foreach(out, key, value) {
        if (!isfinite(json_number_get(value))) json_object_set_new(out, key, json_null());
    }
    record_integer(out, "tokens", m->m.tokens);
    json_object_set_new(out, "subset", json_string(hvp_subsets[o->subset]));
    json_object_set_new(out, "gradient_norms", by_tensor(m, c->gradient_norms));
    if (o->sharpness != SHARPNESS_NONE) set(out, "dominant", c->dominant.value);
    if (o->sharpness == SHARPNESS_LANCZOS) {
        record_integer(out, "restarts", c->restarts);
        record_integer(out, "vectors", c->vectors);
    }
    if (o->trace > 0) set_trace(out, m);
    if (o->density > 0) {
        const struct density *d = &c->density;
        json_t *runs = json_array();
        for (int64_t r = 0; r < d->runs; r++)
            json_array_append_new(
                runs, json_pack("{s:o, s:o}", "nodes",
                                json_numbers_new(d->node + r * d->steps, d->count[r]), "weights",
                                json_numbers_new(d->weight + r * d->steps, d->count[r])));
        json_object_set_new(out, "density", runs);
    }
    if (m->request.probe) {
        set(out, "vhv", c->vhv);
        json_object_set_new(out, "vhv_per_tensor", by_tensor(m, c->vhv_per_tensor));
        json_object_set_new(out, "hv_norms", by_tensor(m, c->hv_norms));
    }
    set(out, "seconds", m->seconds);
    return cli_print_json(out, JSON_COMPACT, e);
}

/* --- for people --- */

/* "sharpness 12.35, residual 0.48 (3.9 %): not converged": no digit that the residual forbids. */
static void print_eigenpair(const char *name, const struct eigenpair *p)
{
    char text[MEASURED];
    measured_value(p->value, p->residual, text);
    printf("%s %s, residual %.2g (%.2g %%): %sconverged", name, text, p->residual,
           100 * p->residual / fabs(p->value), p->converged ? "" : "not ");
}

static void print_sharpness(const struct measured *m)
{
    const struct curvature *c = &m->result;
    const struct curvature_options *o = &m->request.options;
    if (o->sharpness == SHARPNESS_NONE) return;
    print_eigenpair("sharpness", &c->sharpness);
    printf(", after %lld product%s\n", (long long)c->iterations, quantity_plural(c->iterations));
    if (!c->sharpness.converged)
        printf("  for a residual of at most %g %% of it: %s\n", 100 * o->tolerance,
               o->sharpness == SHARPNESS_POWER && o->stop == POWER_PYHESSIAN
                   ? "--stop residual and more --products, or --sharpness lanczos"
                   : "more --products, or a looser --tolerance");
    if (o->sharpness != SHARPNESS_LANCZOS) return;
    print_eigenpair("smallest eigenvalue", &c->smallest);
    printf("%s\n",
           !c->smallest.converged && !o->smallest ? " (--smallest goes on until it has)" : "");
}

static void print_trace(const struct measured *m)
{
    const struct curvature *c = &m->result;
    if (m->request.options.trace == 0) return;
    char text[MEASURED];
    measured_text(c->trace.mean, c->trace.error, text);
    printf("trace %s, %lld probe%s%s\n", text, (long long)c->trace.probes,
           quantity_plural(c->trace.probes),
           c->trace.converged ? "" : ": the error is not down to --trace-error");
    for (int64_t i = 0; i < c->split.n; i++) {
        const struct trace_part *p = &c->split.parts[i];
        if (p->kind[0])
            printf("  %s", p->kind);
        else if (p->layer < 0)
            printf("  outside the blocks");
        else
            printf("  layer %lld", (long long)p->layer);
        measured_text(p->trace, p->error, text);
        printf(": %s\n", text);
    }
}

static void print_text(const struct measured *m)
{
    const struct curvature *c = &m->result;
    printf("loss %.6f nats, %lld tokens scored\n", c->loss, (long long)m->m.tokens);
    printf("gradient norm %.6g, %lld parameters (%s)\n", c->gradient_norm, (long long)c->parameters,
           hvp_subsets[m->request.options.subset]);
    print_sharpness(m);
    print_trace(m);
    for (int64_t r = 0; r < c->density.runs; r++)
        printf("density, run %lld: %lld nodes from %.4g to %.4g\n", (long long)r,
               (long long)c->density.count[r], c->density.node[r * c->density.steps],
               c->density.node[r * c->density.steps + c->density.count[r] - 1]);
    if (m->request.probe)
        printf("v'Hv %.9g of the signs of stream %llu\n", c->vhv,
               (unsigned long long)m->request.salt);
    printf("%lld products with the Hessian, %.1f s\n", (long long)c->products, m->seconds);
}

/* --- the command --- */

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(close_all) struct measured m = {0};
    const char *dir, *tokenizer = NULL;
    static const int64_t none = INT64_MIN;
    int64_t probe = none, seed = 0;
    bool json = false;
    struct arg_choice products = {.words = products_words};
    const struct arg table[] = {
        {"--tokenizer", ARG_TEXT, &tokenizer, "FILE", "tokenizer.json (DIR's own)"},
        {"--probe", ARG_INTEGER, &probe, "SALT", "v'Hv of the signs of that stream"},
        {"--seed", ARG_INTEGER, &seed, "N", "seed of start vectors and probes (0)"},
        {"--products-in", ARG_CHOICE, &products, "KIND",
         "how derivatives multiply, as run.products of a sweep (f32)"},
        {"--json", ARG_SWITCH, &json, NULL, "print JSON"},
    };
    static const struct arg_with with[] = {
        {"--tokenizer", "--text"}, {"--seed", "--sharpness --trace --density"}, {NULL, NULL}};
    options_default(&data_table, &m.data);
    m.data.samples = 4; /* as in a sweep file: enough for a first look, and done in minutes */
    options_default(&curvature_table, &m.request.options);
    const struct arg_keys keys[] = {
        {"what is measured:", &curvature_table, "", &m.request.options, NULL},
        {"the text, by default its first 4 sequences:", &data_scored_table, "", &m.data, NULL},
    };
    const struct args args = {ARGS(table), ARGS_KEYS(keys), .with = with};
    PASS(args_parse(&args, c, &dir, 1, e));
    if (c->help) return OK;
    PASS(data_options_finish(&m.data, "", e));
    PASS(curvature_options_finish(&m.request.options, e));
    NEED(probe >= 0 || probe == none, ERR_USAGE, "--probe: expected a number from 0 on, found %lld",
         (long long)probe);
    NEED(seed >= 0, ERR_USAGE, "--seed: expected a number from 0 on, found %lld", (long long)seed);
    m.request.probe = probe != none;
    m.request.salt = (uint64_t)probe;
    m.request.seed = (uint64_t)seed;
    m.products = products_resolve(products_of_word(products.word));
    products_warn(m.products);
    PASS(measure(&m, (char *)(uintptr_t)dir, (char *)(uintptr_t)tokenizer, e));
    if (json)
        PASS(print_json(&m, e));
    else
        print_text(&m);
    return OK;
}

const struct command cmd_curvature = {
    .name = "curvature",
    .arguments = "DIR (--text FILE|--ids FILE:KEY) [--sharpness power|lanczos] "
                 "[--trace N] ...",
    .doc = "measure gradient, sharpness, trace and spectrum of one checkpoint",
    .run = run,
};
