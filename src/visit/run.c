/* The recipe of one visit: open, streams, blocks, head, records. */
#include "linalg/linalg.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/version.h"
#include "visit/internal.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* What a visit holds while it runs. */
struct run {
    const struct visit *visit;
    const struct visit_hooks *hooks;
    struct visit_outcome outcome;
    struct checkpoint *checkpoint;
    struct model *model;
    struct visit_inputs inputs;
    float *embedded;        // (calibration tokens, C) what every calibrating stream starts from
    struct stream full;     /* the full-precision stream */
    int64_t n;              /* variants */
    struct stream *streams; // (n)
    struct loss_summary *full_summaries; // (datasets)
    struct loss_summary *summaries;      // (n, datasets)
    struct paired_summary *paired;       // (n, datasets)
};

void stream_free(struct stream *s)
{
    for (int64_t i = 0; i < s->n_layers; i++) free(s->layers[i].name);
    free(s->layers);
    free(s->evaluation);
    free(s->calibration);
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
    free(r->embedded);
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
    TRY(checkpoint_open(r->visit->path, &r->checkpoint, e));
    r->outcome.weights_hash = checkpoint_hash(r->checkpoint);
    TRY(model_open(r->checkpoint, &r->model, e));
    r->outcome.model = r->model;
    TRY(visit_inputs_get(cache, r->visit, &r->inputs, e));
    r->outcome.inputs = &r->inputs;
done:
    return st;
}

/* All streams start from the same embeddings. */
static enum status embed(struct run *r, struct err *e)
{
    enum status st = OK;
    int64_t C = model_shape(r->model)->hidden;
    const struct sequences *eval = r->inputs.evaluation, *cal = r->inputs.calibration;
    int64_t n = eval->offset[eval->n] * C;
    TRY(mem_alloc(&r->full.evaluation, n, sizeof(float), "evaluation states", e));
    TRY(model_embed(r->model, eval, r->full.evaluation, e));
    float *calibration = NULL;
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        TRY(mem_alloc(&s->evaluation, n, sizeof(float), "evaluation states", e));
        memcpy(s->evaluation, r->full.evaluation, (size_t)n * sizeof(float));
        if (!(s->method->needs & NEEDS_HESSIAN)) continue;
        ENSURE(cal, ERR_USAGE, "calibration: %s needs it and none is given", s->method->name);
        int64_t m = cal->offset[cal->n] * C;
        TRY(mem_alloc(&s->calibration, m, sizeof(float), "calibration states", e));
        if (calibration)
            memcpy(s->calibration, calibration, (size_t)m * sizeof(float));
        else
            TRY(model_embed(r->model, cal, s->calibration, e));
        calibration = s->calibration;
    }
done:
    return st;
}

static double squared_norm(const struct block *b)
{
    double sum = 0;
    for (int i = 0; i < b->n_linears; i++) {
        const struct linear *l = &b->linear[i];
        for (int64_t row = 0; row < l->rows; row++) {
            double part = 0;
            for (int64_t j = 0; j < l->cols; j++) {
                double w = l->w[row * l->cols + j];
                part += w * w;
            }
            sum += part;
        }
    }
    return sum;
}

static enum status pass_block(struct run *r, struct workspace *w, const struct block *b,
                              struct err *e)
{
    enum status st = OK;
    const struct sequences *eval = r->inputs.evaluation;
    double start = clock_seconds();
    r->outcome.weight_norm += squared_norm(b);
    model_block_forward(r->model, b, eval, r->full.evaluation, &w->evaluation);
    r->outcome.seconds_forward += clock_seconds() - start;
    for (int64_t i = 0; i < r->n; i++) {
        struct stream *s = &r->streams[i];
        struct block quantized;
        if (s->st != OK) continue;
        s->st = quantize_block(w, s, b, &quantized, &s->err);
        if (s->st == ERR_FULL || s->st == ERR_IO)
            TRY(err_set(e, s->st, __FILE__, __LINE__, "%s", s->err.text));
        if (s->st != OK) continue;
        start = clock_seconds();
        model_block_forward(r->model, &quantized, eval, s->evaluation, &w->evaluation);
        s->seconds.forward += clock_seconds() - start;
        log_trace("visit",
                  "block %lld %s %lld bits: forward %.3f hessian %.3f factor %.3f sweep %.3f",
                  (long long)b->layer, s->variant->method.name, (long long)s->variant->bits,
                  s->seconds.forward, s->seconds.hessian, s->seconds.factor, s->seconds.sweep);
    }
done:
    return st;
}

static enum status pass_blocks(struct run *r, struct err *e)
{
    enum status st = OK;
    struct block_reader *reader = NULL;
    struct workspace w = {0};
    TRY(workspace_init(&w, r->model, &r->inputs, r->streams, r->n, r->hooks, e));
    TRY(block_reader_open(r->model, &reader, e));
    for (int64_t layer = 0; layer < model_shape(r->model)->layers; layer++) {
        const struct block *b;
        if (r->hooks->should_stop && r->hooks->should_stop(r->hooks->context))
            FAIL(ERR_STOPPED, "stopped before block %lld", (long long)layer);
        TRY(block_reader_next(reader, &b, e));
        TRY(pass_block(r, &w, b, e));
    }
    r->outcome.seconds_read = block_reader_seconds(reader);
    r->outcome.weight_norm = sqrt(r->outcome.weight_norm);
    if (r->hooks->hidden)
        TRY(r->hooks->hidden(r->hooks->context, r->model, r->inputs.evaluation, r->full.evaluation,
                             e));
done:
    block_reader_close(reader);
    workspace_free(&w);
    return st;
}

/* Sequences [first, last) of s and of its scores, as views. */
static struct sequences part_of(const struct sequences *s, int64_t first, int64_t last)
{
    return (struct sequences){
        .n = last - first, .offset = s->offset + first, .ids = s->ids, .bytes = s->bytes};
}

static struct scores scores_part(const struct scores *s, int64_t first, int64_t last)
{
    return (struct scores){
        .n = last - first, .nll = s->nll + first, .kl = s->kl + first, .top1 = s->top1 + first};
}

static enum status summarise(struct run *r, const struct scores *full, const struct scores *scores,
                             const int64_t *alive, int64_t n_alive, struct err *e)
{
    enum status st = OK;
    int64_t datasets = r->visit->n_evaluations;
    for (int64_t d = 0; d < datasets; d++) {
        int64_t first = r->inputs.first[d], last = r->inputs.first[d + 1];
        struct sequences s = part_of(r->inputs.evaluation, first, last);
        struct scores part = scores_part(full, first, last);
        TRY(loss_summarise(&s, &part, &r->full_summaries[d], e));
        for (int64_t i = 0; i < n_alive; i++) {
            int64_t cell = alive[i] * datasets + d;
            part = scores_part(&scores[i], first, last);
            TRY(loss_summarise(&s, &part, &r->summaries[cell], e));
            paired_summarise(&r->full_summaries[d], &r->summaries[cell], &part, &r->paired[cell]);
        }
    }
done:
    return st;
}

/* Scores every stream that still stands. */
static enum status score(struct run *r, struct err *e)
{
    enum status st = OK;
    int64_t n_sequences = r->inputs.evaluation->n, n = 0;
    struct scores full = {0}, *scores = NULL;
    const float **x = NULL;
    int64_t *alive = NULL;
    double start = clock_seconds();
    TRY(mem_zero(&scores, r->n, sizeof *scores, "scores", e));
    TRY(mem_zero(&x, r->n, sizeof *x, "streams", e));
    TRY(mem_zero(&alive, r->n, sizeof *alive, "streams", e));
    TRY(scores_init(&full, n_sequences, e));
    for (int64_t i = 0; i < r->n; i++) {
        if (r->streams[i].st != OK) continue;
        TRY(scores_init(&scores[n], n_sequences, e));
        x[n] = r->streams[i].evaluation;
        alive[n++] = i;
    }
    TRY(head_score(r->model, r->inputs.evaluation, r->full.evaluation, x, n, &full, scores, e));
    TRY(summarise(r, &full, scores, alive, n, e));
    r->outcome.seconds_head = clock_seconds() - start;
done:
    scores_free(&full);
    for (int64_t i = 0; scores && i < r->n; i++) scores_free(&scores[i]);
    free(scores);
    free(x);
    free(alive);
    return st;
}

static enum status work(struct run *r, struct visit_cache *cache, struct err *e)
{
    enum status st = OK;
    TRY(open_checkpoint(r, cache, e));
    TRY(embed(r, e));
    TRY(pass_blocks(r, e));
    TRY(score(r, e));
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
    TRY(record_checkpoint(&r->outcome, failure, &record, e));
    TRY(emit(r, record, e));
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
    int rank;
    double start = clock_seconds();
    MPI_Comm_rank(group, &rank);
    if (v->threads > 0) omp_set_num_threads((int)v->threads);
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
    if (rank == 0) TRY(emit_all(&r, &failure, e));
done:
    run_free(&r);
    free(fingerprint);
    return st;
}
