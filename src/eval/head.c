/* The output matrix and what is measured on its logits, slice by slice of positions. */
#include "eval/head.h"
#include "linalg/linalg.h"
#include "tensor/kern.h"
#include "util/mem.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Positions in a slice, by the vocabulary alone: three buffers of logits a thread stay below 100
 * MiB up to 128k entries. */
enum { SLICE = 128, SLICE_LARGE = 64, VOCAB_LARGE = 1 << 16 };

static int64_t slice_of(const struct model_shape *m)
{
    return m->vocab > VOCAB_LARGE ? SLICE_LARGE : SLICE;
}

static int64_t slice_length(const struct model *m)
{
    return slice_of(model_shape(m));
}

int64_t head_bytes(const struct model_shape *m, int64_t threads, int64_t n_streams)
{
    int64_t P = slice_of(m), logits = n_streams > 0 ? 3 : 1;
    return threads * (P * m->hidden + (logits * P + 1) * m->vocab) * (int64_t)sizeof(float);
}

enum status scores_init(struct scores *s, int64_t n, struct err *e)
{
    enum status st = OK;
    memset(s, 0, sizeof *s);
    s->n = n;
    TRY(mem_zero(&s->nll, n, sizeof *s->nll, "scores", e));
    TRY(mem_zero(&s->kl, n, sizeof *s->kl, "scores", e));
    TRY(mem_zero(&s->top1, n, sizeof *s->top1, "scores", e));
done:
    if (st != OK) scores_free(s);
    return st;
}

void scores_free(struct scores *s)
{
    free(s->nll);
    free(s->kl);
    free(s->top1);
    memset(s, 0, sizeof *s);
}

/* Sums over the positions of one slice. */
struct sums {
    double nll, kl;
    int64_t top1;
};

/* Consecutive scored positions of one sequence. */
struct slice {
    int64_t sequence, start, n;
};

/* What the full-precision stream leaves for the variants, and room for their logits. */
struct scratch {
    float *hidden; // (P, C) after the final norm
    float *full;   // (P, V) logits
    float *p;      // (P, V) probabilities
    float *logits; // (P, V) of a variant
    float *row;    // (V) exponentials of one position
    double *log_sum;
    int64_t *top; // (P) most likely token
};

static void slice_logits(const struct model *m, const float *x, int64_t n, float *hidden,
                         float *logits)
{
    int64_t C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    model_final_norm(m, x, n, hidden);
    gemm_nt(logits, V, hidden, C, model_head(m), C, n, V, C, 0);
}

/* keep: leave the probabilities for the variants. */
static struct sums score_full(const struct scratch *w, const int32_t *next, int64_t n, int64_t V,
                              bool keep)
{
    struct sums sums = {.top1 = n};
    for (int64_t i = 0; i < n; i++) {
        const float *x = w->full + i * V;
        float top = kern_max(x, V, &w->top[i]), *p = keep ? w->p + i * V : w->row;
        double sum = kern_exp_sum(p, x, V, top);
        w->log_sum[i] = (double)top + log(sum);
        sums.nll += w->log_sum[i] - (double)x[next[i]];
        if (keep) kern_scale(p, (float)(1 / sum), V);
    }
    return sums;
}

static struct sums score_variant(const struct scratch *w, const int32_t *next, int64_t n, int64_t V)
{
    struct sums sums = {0};
    for (int64_t i = 0; i < n; i++) {
        const float *z = w->logits + i * V;
        int64_t first;
        float top = kern_max(z, V, &first);
        double sum = kern_exp_sum(w->row, z, V, top), log_sum = (double)top + log(sum);
        sums.nll += log_sum - (double)z[next[i]];
        sums.kl += kern_kl(w->full + i * V, w->p + i * V, z, w->row, (float)(1 / sum), V,
                           (float)(log_sum - w->log_sum[i]));
        sums.top1 += first == w->top[i];
    }
    return sums;
}

static void scratch_free(struct scratch *w)
{
    free(w->hidden);
    free(w->full);
    free(w->p);
    free(w->logits);
    free(w->row);
    free(w->log_sum);
    free(w->top);
}

static enum status scratch_init(struct scratch *w, const struct model *m, bool variants,
                                struct err *e)
{
    enum status st = OK;
    int64_t P = slice_length(m), C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    memset(w, 0, sizeof *w);
    TRY(mem_alloc(&w->hidden, P * C, sizeof(float), "hidden states of a slice", e));
    TRY(mem_alloc(&w->full, P * V, sizeof(float), "logits of a slice", e));
    TRY(mem_alloc(&w->row, V, sizeof(float), "exponentials of a position", e));
    TRY(mem_alloc(&w->log_sum, P, sizeof(double), "sums of a slice", e));
    TRY(mem_alloc(&w->top, P, sizeof(int64_t), "top tokens of a slice", e));
    if (!variants) goto done;
    TRY(mem_alloc(&w->p, P * V, sizeof(float), "probabilities of a slice", e));
    TRY(mem_alloc(&w->logits, P * V, sizeof(float), "logits of a slice", e));
done:
    return st;
}

/* Everything about one slice: out (1 + n_streams) sums, the full-precision stream first. */
static void score_slice(const struct model *m, const struct sequences *s, const struct slice *at,
                        const float *full, const float *const *stream, int64_t n_streams,
                        const struct scratch *w, struct sums *out)
{
    int64_t C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    int64_t row = s->offset[at->sequence] + at->start;
    const int32_t *next = s->ids + row + 1;
    slice_logits(m, full + row * C, at->n, w->hidden, w->full);
    out[0] = score_full(w, next, at->n, V, n_streams > 0);
    for (int64_t k = 0; k < n_streams; k++) {
        slice_logits(m, stream[k] + row * C, at->n, w->hidden, w->logits);
        out[1 + k] = score_variant(w, next, at->n, V);
    }
}

/* The slices of all sequences, cut inside each from its start. */
static enum status cut_slices(const struct sequences *s, int64_t length, struct slice **out,
                              int64_t *n, struct err *e)
{
    enum status st = OK;
    struct slice *slices = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < s->n; i++)
        count += (s->offset[i + 1] - s->offset[i] + length - 2) / length;
    TRY(mem_alloc(&slices, count, sizeof *slices, "slices", e));
    count = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t scored = s->offset[i + 1] - s->offset[i] - 1;
        for (int64_t t = 0; t < scored; t += length)
            slices[count++] = (struct slice){i, t, scored - t < length ? scored - t : length};
    }
    *out = slices;
    *n = count;
done:
    return st;
}

/* Adds the slices' sums to their sequences, in order. */
static void gather(const struct slice *slices, int64_t n, const struct sums *sums, int64_t pitch,
                   struct scores *out)
{
    memset(out->nll, 0, (size_t)out->n * sizeof *out->nll);
    memset(out->kl, 0, (size_t)out->n * sizeof *out->kl);
    memset(out->top1, 0, (size_t)out->n * sizeof *out->top1);
    for (int64_t i = 0; i < n; i++) {
        int64_t q = slices[i].sequence;
        out->nll[q] += sums[i * pitch].nll;
        out->kl[q] += sums[i * pitch].kl;
        out->top1[q] += sums[i * pitch].top1;
    }
}

enum status head_score(const struct model *m, const struct sequences *s, const float *full,
                       const float *const *stream, int64_t n_streams, struct scores *full_scores,
                       struct scores *scores, struct err *e)
{
    enum status st = OK;
    struct slice *slices = NULL;
    struct sums *sums = NULL;
    struct scratch *scratch = NULL;
    int64_t n, pitch = 1 + n_streams, threads = omp_get_max_threads();
    TRY(cut_slices(s, slice_length(m), &slices, &n, e));
    if (threads > n) threads = n > 0 ? n : 1;
    TRY(mem_alloc(&sums, n * pitch, sizeof *sums, "sums of the slices", e));
    TRY(mem_zero(&scratch, threads, sizeof *scratch, "scratch of the head", e));
    for (int64_t i = 0; i < threads; i++) TRY(scratch_init(&scratch[i], m, n_streams > 0, e));
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
    for (int64_t i = 0; i < n; i++)
        score_slice(m, s, &slices[i], full, stream, n_streams, &scratch[omp_get_thread_num()],
                    sums + i * pitch);
    gather(slices, n, sums, pitch, full_scores);
    for (int64_t k = 0; k < n_streams; k++) gather(slices, n, sums + 1 + k, pitch, &scores[k]);
done:
    for (int64_t i = 0; scratch && i < threads; i++) scratch_free(&scratch[i]);
    free(scratch);
    free(sums);
    free(slices);
    return st;
}

enum status head_logits(const struct model *m, const float *x, int64_t T, float *logits,
                        struct err *e)
{
    enum status st = OK;
    int64_t V = model_shape(m)->vocab, C = model_shape(m)->hidden;
    int64_t threads = omp_get_max_threads(), P = slice_length(m);
    float *hidden = NULL;
    TRY(mem_alloc(&hidden, threads * P * C, sizeof *hidden, "hidden states", e));
#pragma omp parallel for schedule(static) num_threads((int)threads)
    for (int64_t t = 0; t < T; t += P)
        slice_logits(m, x + t * C, T - t < P ? T - t : P, hidden + omp_get_thread_num() * P * C,
                     logits + t * V);
done:
    free(hidden);
    return st;
}
