/* The recipe of one visit: open, streams, blocks, head, records. */
#include "measure/curvature.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "visit/visit_internal.h"
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stream_free(struct stream *s)
{
    for (int64_t i = 0; i < s->n_layers; i++) free(s->layers[i].name);
    free(s->layers);
    states_close(s->evaluation);
    states_close(s->calibration);
    *s = (struct stream){0};
}

static void run_free(struct run *r)
{
    int64_t datasets = r->visit->n_evaluations;
    for (int64_t i = 0; r->full_summaries && i < datasets; i++)
        loss_summary_free(&r->full_summaries[i]);
    for (int64_t i = 0; r->summaries && i < r->n * datasets; i++)
        loss_summary_free(&r->summaries[i]);
    free(r->full_summaries);
    free(r->summaries);
    free(r->paired);
    stream_free(&r->full);
    for (int64_t i = 0; r->streams && i < r->n; i++) stream_free(&r->streams[i]);
    free(r->streams);
    for (int64_t i = 0; r->second_order_results && i < r->n; i++)
        second_order_result_free(&r->second_order_results[i]);
    free(r->second_order_results);
    second_order_result_free(&r->of_checkpoint);
    second_order_close(r->second_order);
    free(r->order);
    free(r->scratch);
    sequences_free(&r->own_evaluation);
    sequences_free(&r->own_calibration);
    model_close(r->model);
    checkpoint_close(r->checkpoint);
}

static enum status streams_init(struct run *r, struct err *e)
{
    enum status st = OK;
    r->n = r->visit->n_variants;
    TRY(mem_zero(&r->streams, r->n, sizeof *r->streams, "streams", e));
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        s->variant = &r->visit->variants[i];
        s->method = quant_find(s->variant->method.method);
        ENSURE(s->method, ERR_USAGE, "%s: unknown method", s->variant->method.method);
        const struct quant_options *o = &s->variant->method.options;
        bool needs = s->method->needs & NEEDS_HESSIAN;
        s->shared = needs && o->hessian == HESSIAN_SHARED;
        s->own = needs && !s->shared;
        s->prefix = o->true_sequential;
        s->unrounded = s->own && o->scale_dtype == SCALE_F16_PACKED;
    }
    int64_t cells = r->n * r->visit->n_evaluations;
    TRY(mem_zero(&r->full_summaries, r->visit->n_evaluations, sizeof *r->full_summaries,
                 "summaries", e));
    TRY(mem_zero(&r->summaries, cells, sizeof *r->summaries, "summaries", e));
    TRY(mem_zero(&r->paired, cells, sizeof *r->paired, "summaries", e));
    r->outcome.full = r->full_summaries;
done:
    return st;
}

static enum status open_checkpoint(struct run *r, struct visit_cache *cache, struct err *e)
{
    enum status st = OK;
    if (r->visit->surface)
        TRY(surface_open(r->visit, r->group.comm, cache, r->hooks, &r->checkpoint,
                         &r->outcome.place, e));
    else
        TRY(checkpoint_open(r->visit->path, &r->checkpoint, e));
    r->outcome.common.weights_hash = checkpoint_hash(r->checkpoint);
    TRY(model_open(r->checkpoint, &r->model, e));
    r->outcome.model = r->model;
    TRY(visit_inputs_get(cache, r->visit, &r->inputs, e));
    r->outcome.inputs = &r->inputs;
    TRY(model_check_ids(r->model, r->inputs.evaluation, e));
    if (r->inputs.calibration) TRY(model_check_ids(r->model, r->inputs.calibration, e));
done:
    return st;
}

/* This rank's sequences. */
static enum status share_inputs(struct run *r, struct err *e)
{
    enum status st = OK;
    int64_t first;
    r->own = r->inputs;
    TRY(group_sequences(&r->group, r->inputs.evaluation, &r->own_evaluation, &r->own.evaluation,
                        &r->first, e));
    TRY(group_sequences(&r->group, r->inputs.calibration, &r->own_calibration, &r->own.calibration,
                        &first, e));
done:
    return st;
}

/* Variants in the order in which a block serves them: those with the shared Hessian first, one
 * behind the other what shares its factors, since the Hessians of the others take its place. */
static enum status order_streams(struct run *r, struct err *e)
{
    enum status st = OK;
    bool *placed = NULL;
    int64_t n = 0;
    TRY(mem_zero(&r->order, r->n, sizeof *r->order, "streams", e));
    TRY(mem_zero(&placed, r->n, sizeof *placed, "streams", e));
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        for (int64_t j = i; j < r->n && s->shared; j++) {
            struct stream *t = &r->streams[j];
            if (placed[j] || !t->shared || t->method != s->method ||
                !quant_shares_prepare(s->method, &s->variant->method.options,
                                      &t->variant->method.options))
                continue;
            r->order[n++] = t;
            placed[j] = true;
        }
    }
    for (int once = 0; once < 2; once++)
        for (int64_t i = 0; i < r->n; i++)
            if (r->streams[i].own && r->streams[i].prefix != once) r->order[n++] = &r->streams[i];
    for (int64_t i = 0; i < r->n; i++)
        if (!r->streams[i].own && !r->streams[i].shared) r->order[n++] = &r->streams[i];
done:
    free(placed);
    return st;
}

/* The full-precision hidden states at the end, for those who ask. */
static enum status give_hidden(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct sequences *s = r->inputs.evaluation;
    int64_t tokens = s->offset[s->n];
    float *buffer = NULL, *x;
    if (!r->hooks->hidden) return OK;
    ENSURE(r->group.size == 1, ERR_USAGE, "hidden states are given by a single rank only");
    if (!states_in_place(r->full.evaluation))
        TRY(mem_alloc(&buffer, tokens * model_shape(r->model)->hidden, sizeof *buffer,
                      "hidden states", e));
    TRY(states_take(r->full.evaluation, 0, tokens, buffer, &x, e));
    TRY(r->hooks->hidden(r->hooks->context, r->model, s, x, e));
done:
    free(buffer);
    return st;
}

/* All ranks of a group plan for the one that needs most and has least, so that they plan alike. */
static void need_agree(const struct visit_group *g, struct memory_need *need,
                       struct memory_limits *limits)
{
    struct memory_sequences *of[] = {&need->evaluation, &need->calibration};
    for (int i = 0; i < 2; i++) {
        of[i]->n = group_max(g, of[i]->n);
        of[i]->tokens = group_max(g, of[i]->tokens);
        of[i]->longest = group_max(g, of[i]->longest);
    }
    need->base = group_max(g, need->base);
    need->threads = group_max(g, need->threads);
    need->mates = -group_max(g, -need->mates);
    bool bounded = limits->memory > 0;
    int64_t most = -group_max(g, bounded ? -limits->memory : -INT64_MAX);
    limits->memory = most == INT64_MAX ? 0 : most;
    limits->scratch = -group_max(g, -limits->scratch);
}

/* Decides what is kept, where states lie and how many waves there are. */
static enum status plan_memory(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct run_options *o = &r->visit->run;
    int64_t bound = o->memory ? o->memory : r->hooks->memory;
    struct memory_limits limits = {.memory = memory_usable(bound)};
    struct memory_need need = {.threads = omp_get_max_threads(),
                               .ranks = r->group.size,
                               .mates = r->group.node_size,
                               .scalapack_from = o->reproducible ? 0 : o->scalapack_from,
                               .evaluation = memory_sequences_of(r->own.evaluation),
                               .calibration = memory_sequences_of(r->own.calibration)};
    need.type = o->activations == ACTIVATIONS_BF16 ? DTYPE_BF16 : DTYPE_F32;
    model_sizes(r->model, &need.sizes);
    need.base = memory_base_now(&need.sizes, need.threads);
    for (int64_t i = 0; i < r->n; i++)
        memory_need_add(&need, r->streams[i].method, &r->streams[i].variant->method.options);
    TRY(group_agree(&r->group,
                    scratch_find(o->scratch, r->hooks->ranks, &r->scratch, &limits.scratch, e), e));
    need_agree(&r->group, &need, &limits);
    limits.folder = limits.scratch > 0 ? r->scratch : NULL;
    TRY(group_agree(&r->group, memory_plan_make(&need, &limits, &r->plan, e), e));
    log_trace("memory",
              "%lld waves of %lld variants, states %s%s, %lld of %lld tokens kept; peak %.0f MiB "
              "(blocks %.0f, head %.0f), scratch %.0f MiB",
              (long long)r->plan.waves, (long long)r->plan.wave,
              r->plan.place.scratch ? "in " : "in memory",
              r->plan.place.scratch ? r->plan.place.scratch : "", (long long)r->plan.kept_tokens,
              (long long)need.calibration.tokens, (double)r->plan.peak / (1 << 20),
              (double)r->plan.blocks / (1 << 20), (double)r->plan.head / (1 << 20),
              (double)r->plan.scratch / (1 << 20));
    r->outcome.common.memory_planned = r->plan.peak + r->plan.shared;
done:
    return st;
}

static enum status run_waves(struct run *r, struct err *e)
{
    enum status st = OK;
    int64_t wave = r->plan.wave > 0 ? r->plan.wave : 1;
    for (int64_t i = 0; i == 0 || i < r->n; i += wave)
        TRY(wave_run(r, r->order + i, r->n - i < wave ? r->n - i : wave, i == 0, e));
    r->outcome.seconds_forward = r->full.seconds.forward;
    r->outcome.seconds_hessian = r->full.seconds.hessian;
    TRY(give_hidden(r, e));
    states_close(r->full.evaluation); /* what comes then has its own */
    r->full.evaluation = NULL;
done:
    return st;
}

/* Who measures the second order: the group, or, where its size must not show in any bit, its rank 0
 * alone. NULL: not this rank. */
static const struct visit_group *second_order_group(const struct run *r)
{
    if (!r->visit->run.reproducible || r->group.size == 1) return &r->group;
    return r->group.rank == 0 ? &r->self : NULL;
}

/* The variants' weights are kept from now on. */
static enum status start_second_order(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct visit_group *g = second_order_group(r);
    if (!r->visit->second_order || r->n == 0 || !g) return OK;
    st =
        mem_zero(&r->second_order_results, r->n, sizeof *r->second_order_results, "predictions", e);
    TRY(group_agree(g, st, e));
    TRY(second_order_open(r->visit, r->checkpoint, r->hooks, g, g == &r->group, &r->second_order,
                          e));
    r->hooks = second_order_hooks(r->second_order);
    for (int64_t i = 0; i < r->n; i++) r->streams[i].second_order = &r->second_order_results[i];
done:
    return st;
}

static enum status finish_second_order(struct run *r, struct visit_cache *cache, struct err *e)
{
    enum status st = OK;
    const struct second_order_task *t = r->visit->second_order;
    const struct visit_group *g = second_order_group(r);
    if (!t || !g) return OK;
    if (r->second_order)
        TRY(second_order_measure(r->second_order, r->model, cache, r->second_order_results,
                                 &r->outcome.common.memory_planned, e));
    if (t->critical && !r->visit->cells_only) {
        TRY(second_order_of_checkpoint(r->visit, g, r->checkpoint, r->model, cache,
                                       &r->of_checkpoint, e));
        r->outcome.second_order = &r->of_checkpoint;
    }
done:
    return st;
}

static enum status work(struct run *r, struct visit_cache *cache, struct err *e)
{
    enum status st = OK;
    TRY(group_agree(&r->group, open_checkpoint(r, cache, e), e));
    if (r->visit->cells_only && r->n == 0) goto done; /* curvature alone */
    TRY(group_agree(&r->group, share_inputs(r, e), e));
    TRY(group_agree(&r->group, order_streams(r, e), e));
    TRY(plan_memory(r, e));
    TRY(group_agree(&r->group, start_second_order(r, e), e));
    TRY(run_waves(r, e));
    TRY(group_agree(&r->group, finish_second_order(r, cache, e), e));
done:
    return st;
}

static enum status emit(const struct run *r, json_t *record, struct err *e)
{
    enum status st = r->hooks->emit(r->hooks->context, record, e);
    json_decref(record);
    return st;
}

static enum status emit_all(const struct run *r, const struct err *failure, struct err *e)
{
    enum status st = OK;
    json_t *record;
    int64_t datasets = r->visit->n_evaluations;
    if (r->visit->surface) {
        TRY(record_point(&r->outcome, failure, &record, e));
        TRY(emit(r, record, e));
    } else if (!r->visit->cells_only) {
        TRY(record_checkpoint(&r->outcome, failure, &record, e));
        TRY(emit(r, record, e));
    }
    for (int64_t i = 0; i < r->n; i++) {
        const struct stream *s = &r->streams[i];
        TRY(record_cell(&r->outcome, s, &r->summaries[i * datasets], &r->paired[i * datasets],
                        failure->code != OK ? failure : &s->err, &record, e));
        TRY(emit(r, record, e));
    }
done:
    return st;
}

enum status visit_run(const struct visit *v, MPI_Comm group, struct visit_cache *cache,
                      const struct visit_hooks *hooks, struct err *e)
{
    enum status st = OK;
    struct run r = {.visit = v, .hooks = hooks};
    struct err failure = {0};
    char *fingerprint = NULL;
    double start = clock_seconds();
    TRY(group_open(group, &r.group, e));
    TRY(group_open(MPI_COMM_SELF, &r.self, e));
    if (v->run.threads > 0) omp_set_num_threads((int)v->run.threads);
    clock_utc(r.outcome.common.utc_start);
    TRY(visit_fingerprint(group, &v->run, false, &fingerprint, e));
    r.outcome.common.visit = v;
    r.outcome.common.fingerprint = fingerprint;
    r.outcome.common.weights_hash = "";
    TRY(streams_init(&r, e));
    enum status worked = err_agree(group, work(&r, cache, &failure), &failure);
    if (worked == ERR_STOPPED || worked == ERR_FULL || worked == ERR_MPI)
        FAIL(worked, "%s", failure.text);
    r.outcome.seconds = clock_seconds() - start;
    st = r.group.rank == 0 ? emit_all(&r, &failure, e) : OK;
    TRY(err_agree(group, st, e));
    if (v->curvature)
        TRY(visit_curvature(&r.outcome.common, r.model, group, cache, hooks, &failure, e));
done:
    run_free(&r);
    group_close(&r.group);
    group_close(&r.self);
    free(fingerprint);
    return st;
}
