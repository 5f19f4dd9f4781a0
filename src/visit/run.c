/* The recipe of one visit: open, streams, blocks, head, records. */
#include "linalg/linalg.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/version.h"
#include "visit/curvature.h"
#include "visit/internal.h"
#include <math.h>
#include <omp.h>
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
    free(r->order);
    free(r->scratch);
    model_close(r->model);
    checkpoint_close(r->checkpoint);
}

enum status visit_fingerprint(MPI_Comm group, char **out, struct err *e)
{
    int size;
    MPI_Comm_size(group, &size);
    return mem_format(out, e, "qtraj %s; ranks %d; %s", version_text(), size, linalg_blas_name());
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
        TRY(surface_open(r->visit, r->group, cache, r->hooks, &r->checkpoint, &r->outcome.place,
                         e));
    else
        TRY(checkpoint_open(r->visit->path, &r->checkpoint, e));
    r->outcome.weights_hash = checkpoint_hash(r->checkpoint);
    TRY(model_open(r->checkpoint, &r->model, e));
    r->outcome.model = r->model;
    TRY(visit_inputs_get(cache, r->visit, &r->inputs, e));
    r->outcome.inputs = &r->inputs;
    TRY(model_check_ids(r->model, r->inputs.evaluation, e));
    if (r->inputs.calibration) TRY(model_check_ids(r->model, r->inputs.calibration, e));
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
    if (!states_in_place(r->full.evaluation))
        TRY(mem_alloc(&buffer, tokens * model_shape(r->model)->hidden, sizeof *buffer,
                      "hidden states", e));
    TRY(states_take(r->full.evaluation, 0, tokens, buffer, &x, e));
    TRY(r->hooks->hidden(r->hooks->context, r->model, s, x, e));
done:
    free(buffer);
    return st;
}

static struct memory_sequences sequences_of(const struct sequences *s)
{
    if (!s) return (struct memory_sequences){0};
    return (struct memory_sequences){s->n, s->offset[s->n], sequences_longest(s)};
}

/* What the arithmetic does not see (small allocations, holes between them): a 32nd. */
enum { MARGIN = 32 };

/* Decides what is kept, where states lie and how many waves there are. */
static enum status plan_memory(struct run *r, struct err *e)
{
    enum status st = OK;
    const struct run_options *o = &r->visit->run;
    int64_t bound = o->memory ? o->memory : r->hooks->memory;
    struct memory_limits limits = {.memory = bound - bound / MARGIN};
    struct memory_need need = {.threads = omp_get_max_threads(),
                               .evaluation = sequences_of(r->inputs.evaluation),
                               .calibration = sequences_of(r->inputs.calibration)};
    need.type = o->activations == ACTIVATIONS_BF16 ? DTYPE_BF16 : DTYPE_F32;
    model_sizes(r->model, &need.sizes);
    need.base = memory_base_now(&need.sizes, need.threads);
    for (int64_t i = 0; i < r->n; i++)
        memory_need_add(&need, r->streams[i].method, &r->streams[i].variant->method.options);
    TRY(scratch_find(o->scratch, r->hooks->ranks, &r->scratch, &limits.scratch, e));
    limits.folder = r->scratch;
    TRY(memory_plan_make(&need, &limits, &r->plan, e));
    log_trace("memory",
              "%lld waves of %lld variants, states %s%s, %lld of %lld tokens kept; peak %.0f MiB "
              "(blocks %.0f, head %.0f), scratch %.0f MiB",
              (long long)r->plan.waves, (long long)r->plan.wave,
              r->plan.place.scratch ? "in " : "in memory",
              r->plan.place.scratch ? r->plan.place.scratch : "", (long long)r->plan.kept_tokens,
              (long long)need.calibration.tokens, (double)r->plan.peak / (1 << 20),
              (double)r->plan.blocks / (1 << 20), (double)r->plan.head / (1 << 20),
              (double)r->plan.scratch / (1 << 20));
    r->outcome.memory_planned = r->plan.peak;
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
done:
    return st;
}

static enum status work(struct run *r, struct visit_cache *cache, struct err *e)
{
    enum status st = OK;
    TRY(open_checkpoint(r, cache, e));
    if (r->visit->cells_only && r->n == 0) goto done; /* curvature alone */
    TRY(order_streams(r, e));
    TRY(plan_memory(r, e));
    TRY(run_waves(r, e));
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
    struct run r = {.visit = v, .hooks = hooks, .group = group};
    struct err failure = {0};
    char *fingerprint = NULL;
    int rank;
    double start = clock_seconds();
    MPI_Comm_rank(group, &rank);
    if (v->run.threads > 0) omp_set_num_threads((int)v->run.threads);
    clock_utc(r.outcome.utc_start);
    TRY(visit_fingerprint(group, &fingerprint, e));
    r.outcome.visit = v;
    r.outcome.fingerprint = fingerprint;
    r.outcome.weights_hash = "";
    TRY(streams_init(&r, e));
    enum status worked = err_agree(group, work(&r, cache, &failure), &failure);
    if (worked == ERR_STOPPED || worked == ERR_FULL || worked == ERR_MPI)
        FAIL(worked, "%s", failure.text);
    r.outcome.seconds = clock_seconds() - start;
    st = rank == 0 ? emit_all(&r, &failure, e) : OK;
    TRY(err_agree(group, st, e));
    stream_free(&r.full);
    if (v->curvature) TRY(visit_curvature(&r.outcome, group, cache, hooks, &failure, e));
done:
    run_free(&r);
    free(fingerprint);
    return st;
}
