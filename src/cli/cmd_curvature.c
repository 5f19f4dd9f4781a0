#include "checkpoint/checkpoint.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "curvature/measure.h"
#include "eval/dataset.h"
#include "group/inputs.h"
#include "memory/memory_after.h"
#include "util/clock.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

static const char usage[] =
    "curvature DIR (--text FILE|--ids FILE:KEY) [--sharpness power|lanczos] "
    "[--trace N] ...";

/* All that is open while a checkpoint is measured. */
struct measurement {
    struct data_options data;
    struct curvature_request request;
    struct tokenizer *tokenizer;
    struct sequences sequences;
    struct checkpoint *checkpoint;
    struct model *model;
    struct hvp *h;
    struct subject subject;
    struct curvature result;
    int64_t tokens; /* scored */
    double seconds;
};

static void close_all(struct measurement *m)
{
    curvature_free(&m->result);
    subject_free(&m->subject);
    hvp_close(m->h);
    model_close(m->model);
    checkpoint_close(m->checkpoint);
    sequences_free(&m->sequences);
    tokenizer_close(m->tokenizer);
    data_options_free(&m->data);
}

/* --- measuring --- */

static enum status load_tokens(struct measurement *m, const char *dir, const char *tokenizer,
                               struct err *e)
{
    enum status st = OK;
    char *found = NULL, hash[33];
    if (m->data.text && !tokenizer) {
        TRY(visit_tokenizer(dir, &found, e));
        ENSURE(found, ERR_IO,
               "%s: no tokenizer.json there or in the folder above; name one with --tokenizer",
               dir);
    }
    if (m->data.text) TRY(tokenizer_open(tokenizer ? tokenizer : found, &m->tokenizer, e));
    TRY(dataset_load(&m->data, m->tokenizer, &m->sequences, hash, e));
done:
    free(found);
    return st;
}

/* In nine tenths of what this process may have, as in a sweep. */
static bool may_keep(const struct measurement *m)
{
    struct model_sizes sizes;
    model_sizes(m->model, &sizes);
    const struct memory_after after = {&sizes, omp_get_max_threads(), 1,
                                       memory_sequences_of(&m->sequences)};
    int64_t room = memory_usable_now(cli_share()->memory / 10 * 9, &sizes, after.threads);
    return memory_keeps(&after, &m->request.options, false, room);
}

static enum status measure(struct measurement *m, const char *dir, const char *tokenizer,
                           struct err *e)
{
    enum status st = OK;
    double start = clock_seconds();
    TRY(checkpoint_open(dir, &m->checkpoint, e));
    TRY(model_open(m->checkpoint, &m->model, e));
    TRY(load_tokens(m, dir, tokenizer, e));
    TRY(hvp_open(m->model, &m->sequences, (enum hvp_subset)m->request.options.subset, &m->h, e));
    hvp_keep(m->h, may_keep(m));
    m->tokens = hvp_scored(m->h);
    TRY(subject_of_hvp(m->h, &m->subject, e));
    st = curvature_measure(&m->subject, &m->request, &m->result, e);
    if (st != OK) err_prefix(e, "%s", dir);
    m->seconds = clock_seconds() - start;
done:
    return st;
}

/* --- JSON --- */

static void set(json_t *out, const char *key, double value)
{
    json_object_set_new(out, key, isfinite(value) ? json_real(value) : json_null());
}

static void set_integer(json_t *out, const char *key, int64_t value)
{
    json_object_set_new(out, key, json_integer((json_int_t)value));
}

/* {TENSOR: value}, NULL for no values */
static json_t *by_tensor(const struct measurement *m, const double *values)
{
    json_t *out = values ? json_object() : NULL;
    for (int64_t i = 0; values && i < m->subject.n_tensors; i++)
        set(out, m->subject.tensors[i].name, values[i]);
    return out;
}

static void set_sharpness(json_t *out, const struct measurement *m)
{
    const struct curvature *c = &m->result;
    const bool lanczos = m->request.options.sharpness == SHARPNESS_LANCZOS;
    if (m->request.options.sharpness == SHARPNESS_NONE) return;
    set(out, "sharpness", c->sharpness.value);
    set(out, "residual", c->sharpness.residual);
    json_object_set_new(out, "converged", json_boolean(c->sharpness.converged));
    set_integer(out, "iterations", c->iterations);
    set(out, "dominant", c->dominant.value);
    if (!lanczos) return;
    set(out, "smallest", c->smallest.value);
    set(out, "smallest_residual", c->smallest.residual);
    set_integer(out, "restarts", c->restarts);
    set_integer(out, "vectors", c->vectors);
}

static void set_trace(json_t *out, const struct measurement *m)
{
    const struct curvature *c = &m->result;
    json_t *layers = json_array(), *kinds = json_array();
    for (int64_t i = 0; i < c->split.n; i++) {
        const struct trace_part *p = &c->split.parts[i];
        json_t *one = json_object();
        if (p->kind[0])
            json_object_set_new(one, "kind", json_string(p->kind));
        else
            set_integer(one, "layer", p->layer);
        set_integer(one, "elements", p->elements);
        set(one, "trace", p->trace);
        set(one, "trace_stderr", p->error);
        json_array_append_new(p->kind[0] ? kinds : layers, one);
    }
    set(out, "trace", c->trace.mean);
    set(out, "trace_stderr", c->trace.error);
    set_integer(out, "trace_probes", c->trace.probes);
    json_object_set_new(out, "trace_by_layer", layers);
    json_object_set_new(out, "trace_by_kind", kinds);
    json_object_set_new(out, "traces", by_tensor(m, c->trace.part));
}

static void set_density(json_t *out, const struct density *d)
{
    json_t *runs = json_array();
    for (int64_t r = 0; r < d->runs; r++)
        json_array_append_new(
            runs,
            json_pack("{s:o, s:o}", "nodes", json_numbers_new(d->node + r * d->steps, d->count[r]),
                      "weights", json_numbers_new(d->weight + r * d->steps, d->count[r])));
    json_object_set_new(out, "density", runs);
}

static enum status print_json(const struct measurement *m, struct err *e)
{
    enum status st = OK;
    const struct curvature *c = &m->result;
    json_t *out = json_object();
    set(out, "loss", c->loss);
    set_integer(out, "tokens", m->tokens);
    json_object_set_new(out, "subset",
                        json_string(hvp_subset_name((enum hvp_subset)m->request.options.subset)));
    set_integer(out, "parameters", c->parameters);
    set(out, "gradient_norm", c->gradient_norm);
    json_object_set_new(out, "gradient_norms", by_tensor(m, c->gradient_norms));
    set_sharpness(out, m);
    if (m->request.options.trace > 0) set_trace(out, m);
    if (m->request.options.density > 0) set_density(out, &c->density);
    if (m->request.probe) {
        set(out, "vhv", c->vhv);
        json_object_set_new(out, "vhv_per_tensor", by_tensor(m, c->vhv_per_tensor));
        json_object_set_new(out, "hv_norms", by_tensor(m, c->hv_norms));
    }
    set_integer(out, "products", c->products);
    set(out, "seconds", m->seconds);
    ENSURE(out && json_dumpf(out, stdout, JSON_COMPACT) == 0, ERR_NOMEM, "out of memory");
    putchar('\n');
done:
    json_decref(out);
    return st;
}

/* --- for people --- */

static void print_sharpness(const struct measurement *m)
{
    const struct curvature *c = &m->result;
    if (m->request.options.sharpness == SHARPNESS_NONE) return;
    printf("sharpness %.6g, residual %.2g, %s after %lld iterations\n", c->sharpness.value,
           c->sharpness.residual, c->sharpness.converged ? "converged" : "not converged",
           (long long)c->iterations);
    if (m->request.options.sharpness == SHARPNESS_LANCZOS)
        printf("smallest eigenvalue %.6g, residual %.2g\n", c->smallest.value,
               c->smallest.residual);
}

static void print_trace(const struct measurement *m)
{
    const struct curvature *c = &m->result;
    if (m->request.options.trace == 0) return;
    bool known = isfinite(c->trace.error); /* not of one probe */
    printf("trace %.6g", c->trace.mean);
    if (known) printf(" +- %.2g", c->trace.error);
    printf(", %lld probe%s%s\n", (long long)c->trace.probes, c->trace.probes == 1 ? "" : "s",
           c->trace.converged ? "" : ", trace-error not reached");
    for (int64_t i = 0; i < c->split.n; i++) {
        const struct trace_part *p = &c->split.parts[i];
        if (p->kind[0])
            printf("  %s", p->kind);
        else if (p->layer < 0)
            printf("  outside the blocks");
        else
            printf("  layer %lld", (long long)p->layer);
        printf(": %.4g", p->trace);
        if (known) printf(" +- %.1g", p->error);
        printf("\n");
    }
}

static void print_text(const struct measurement *m)
{
    const struct curvature *c = &m->result;
    printf("loss %.6f nats, %lld tokens scored\n", c->loss, (long long)m->tokens);
    printf("gradient norm %.6g, %lld parameters (%s)\n", c->gradient_norm, (long long)c->parameters,
           hvp_subset_name((enum hvp_subset)m->request.options.subset));
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

static enum status flag(void *context, int argc, char **argv, int *used, struct err *e)
{
    enum status st = OK;
    struct measurement *m = context;
    TRY(data_options_flag(&m->data, "", argc, argv, used, e));
    if (*used == 0) TRY(curvature_options_flag(&m->request.options, argc, argv, used, e));
done:
    return st;
}

static void print_flags(FILE *out)
{
    data_options_print_flags("", out);
    curvature_options_print_flags(out);
}

static enum status run(MPI_Comm world, int argc, char **argv, int *code, struct err *e)
{
    enum status st = OK;
    struct measurement m = {0};
    const char *dir, *tokenizer = NULL;
    static const int64_t none = INT64_MIN;
    int64_t probe = none, seed = 0;
    bool json = false, help;
    const struct arg table[] = {
        {"--tokenizer", ARG_TEXT, &tokenizer, "FILE", "tokenizer.json (DIR's own)"},
        {"--probe", ARG_INTEGER, &probe, "SALT", "v'Hv of the signs of that stream"},
        {"--seed", ARG_INTEGER, &seed, "N", "seed of start vectors and probes (0)"},
        {"--json", ARG_SWITCH, &json, NULL, "for machines"},
    };
    (void)world;
    (void)code;
    data_options_default(&m.data);
    curvature_options_default(&m.request.options);
    const struct args args = {.table = table,
                              .n = sizeof table / sizeof *table,
                              .other = flag,
                              .context = &m,
                              .more = print_flags};
    TRY(args_parse(&args, usage, argc, argv, &dir, 1, 1, NULL, &help, e));
    if (help) goto done;
    TRY(data_options_finish(&m.data, "", e));
    TRY(data_options_check_scored(&m.data, "", e));
    TRY(curvature_options_finish(&m.request.options, e));
    ENSURE(probe >= 0 || probe == none, ERR_USAGE,
           "--probe: expected a number from 0 on, found %lld", (long long)probe);
    ENSURE(seed >= 0, ERR_USAGE, "--seed: expected a number from 0 on, found %lld",
           (long long)seed);
    m.request.probe = probe != none;
    m.request.salt = (uint64_t)probe;
    m.request.seed = (uint64_t)seed;
    TRY(measure(&m, dir, tokenizer, e));
    if (json)
        TRY(print_json(&m, e));
    else
        print_text(&m);
done:
    close_all(&m);
    return st;
}

const struct command cmd_curvature = {
    .name = "curvature",
    .arguments = usage,
    .doc = "gradient, sharpness, trace and spectrum of one checkpoint",
    .run = run,
};
