#include "eval/head.h"
#include "eval/metric.h"
#include "linalg/linalg.h"
#include "tensor/bf16.h"
#include "tensor/kern.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Positions per slice, which depend on the vocabulary alone: the three buffers of logits of a
 * thread stay below 100 MiB for up to 128k entries. */
enum { SLICE = 128, SLICE_LARGE = 64, VOCAB_LARGE = 1 << 16 };

static int64_t slice_of(const struct model_shape *m)
{
    return m->vocab > VOCAB_LARGE ? SLICE_LARGE : SLICE;
}

int64_t head_bytes(const struct model_shape *m, int64_t threads, int64_t n_variants,
                   enum products kind)
{
    int64_t P = slice_of(m), logits = n_variants > 0 ? 3 : 1;
    int64_t terms = products_terms(kind) * P * m->hidden * (int64_t)sizeof(uint16_t);
    return product_weights_bytes(kind, m->vocab * m->hidden) +
           threads *
               (terms + (P * m->hidden + (logits * P + 1) * m->vocab) * (int64_t)sizeof(float));
}

/* --- logits --- */

/* Rows of the output matrix in one product of bf16 terms. */
enum { VOCAB_PIECE = 2048 };

/* The output matrix, for one call. */
struct head {
    const struct model *model;
    struct product_weights *prepared; /* NULL: products are in f32 */
};

static enum status head_open(struct head *h, const struct model *m, struct err *e)
{
    const struct model_shape *s = model_shape(m);
    *h = (struct head){.model = m};
    if (model_products(m) == PRODUCTS_F32) return OK;
    return product_weights_make(model_products(m), model_head(m), s->vocab, s->hidden, VOCAB_PIECE,
                                &h->prepared, e);
}

/* Hidden states of a slice after the final norm, and their terms. */
struct normed {
    float *hidden;   // (P, C)
    uint16_t *terms; // (terms, P, C)
};

static enum status normed_init(struct normed *n, const struct model *m, struct err *e)
{
    const int64_t size = slice_of(model_shape(m)) * model_shape(m)->hidden;
    PASS(mem_alloc(&n->hidden, size, sizeof(float), "hidden states of a slice", e));
    return mem_alloc(&n->terms, products_terms(model_products(m)) * size, sizeof *n->terms,
                     "terms of a slice", e);
}

static void normed_free(struct normed *n)
{
    free(n->hidden);
    free(n->terms);
}

/* logits (n, V) of the hidden states x (n, C). */
static void slice_logits(const struct head *h, const float *x, int64_t n, const struct normed *to,
                         float *logits)
{
    const struct model *m = h->model;
    int64_t C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    model_final_norm(m, x, n, to->hidden);
    if (!h->prepared) {
        gemm_nt(logits, V, to->hidden, C, model_head(m), C, n, V, C, 0);
        return;
    }
    bf16_split(to->terms, n * C, products_terms(model_products(m)), to->hidden, n * C);
    for (int64_t v = 0; v < V; v += VOCAB_PIECE)
        product_nt(logits + v, V, to->terms, n * C, h->prepared, v / VOCAB_PIECE, n);
}

/* --- spans and scores --- */

struct span head_text_span(const struct sequences *s, int64_t i)
{
    int64_t row = s->offset[i];
    return (struct span){
        .row = row, .n = s->offset[i + 1] - row - 1, .target = s->ids + row + 1, .unit = i};
}

enum status head_text_spans(const struct sequences *s, struct span **out, struct err *e)
{
    PASS(mem_alloc(out, s->n, sizeof **out, "spans", e));
    for (int64_t i = 0; i < s->n; i++) (*out)[i] = head_text_span(s, i);
    return OK;
}

enum status scores_init(struct scores *s, int64_t n, struct err *e)
{
    s->n = n;
    return mem_zero(&s->sum, n * metrics_sums(), sizeof *s->sum, "scores", e);
}

void scores_free(struct scores *s)
{
    free(s->sum);
    *s = (struct scores){0};
}

struct scores scores_part(const struct scores *s, int64_t first, int64_t last)
{
    return (struct scores){.n = last - first, .sum = s->sum + first * metrics_sums()};
}

/* Results of the full-precision stream that the variants need, and buffers for their logits. */
struct scratch {
    struct normed normed;
    float *full;         // (P, V) logits
    float *p;            // (P, V) probabilities
    float *logits;       // (P, V) of a variant
    float *row;          // (V) exponentials of one position
    struct position *at; // (P) of the full-precision stream
};

/* A position from its logits (V); fills weights (V). */
static struct position position_of(const float *logits, float *weights, int32_t target, int64_t V)
{
    struct position at = {.target = target, .vocab = V, .logits = logits, .weights = weights};
    float top = kern_max(logits, V, &at.top);
    double sum = kern_exp_sum(weights, logits, V, top);
    at.scale = (float)(1 / sum);
    at.log_sum = (double)top + log(sum);
    return at;
}

/* keep: stores the probabilities in w->p for the variants. */
static void score_full(const struct scratch *w, const struct span *slice, int64_t V, bool keep,
                       double *sums)
{
    for (int64_t i = 0; i < slice->n; i++) {
        struct position *at = &w->at[i];
        float *p = keep ? w->p + i * V : w->row;
        *at = position_of(w->full + i * V, p, slice->target[i], V);
        at->full = at;
        if (keep) {
            kern_scale(p, at->scale, V);
            at->scale = 1;
        }
        metrics_accumulate(at, sums);
    }
}

static void score_variant(const struct scratch *w, const struct span *slice, int64_t V,
                          double *sums)
{
    for (int64_t i = 0; i < slice->n; i++) {
        struct position at = position_of(w->logits + i * V, w->row, slice->target[i], V);
        at.full = &w->at[i];
        metrics_accumulate(&at, sums);
    }
}

static void scratch_free(struct scratch *w)
{
    normed_free(&w->normed);
    free(w->full);
    free(w->p);
    free(w->logits);
    free(w->row);
    free(w->at);
}

static enum status scratch_init(struct scratch *w, const struct model *m, bool variants,
                                struct err *e)
{
    int64_t P = slice_of(model_shape(m)), V = model_shape(m)->vocab;
    PASS(normed_init(&w->normed, m, e));
    PASS(mem_alloc(&w->full, P * V, sizeof(float), "logits of a slice", e));
    PASS(mem_alloc(&w->row, V, sizeof(float), "exponentials of a position", e));
    PASS(mem_alloc(&w->at, P, sizeof *w->at, "positions of a slice", e));
    if (!variants) return OK;
    PASS(mem_alloc(&w->p, P * V, sizeof(float), "probabilities of a slice", e));
    return mem_alloc(&w->logits, P * V, sizeof(float), "logits of a slice", e);
}

/* Adds the metrics of one slice to sums (n_streams, metrics_sums()). */
static void score_slice(const struct head *h, const struct span *slice, const float *const *x,
                        int64_t n_streams, const struct scratch *w, double *sums)
{
    int64_t C = model_shape(h->model)->hidden, V = model_shape(h->model)->vocab;
    slice_logits(h, x[0] + slice->row * C, slice->n, &w->normed, w->full);
    score_full(w, slice, V, n_streams > 1, sums);
    for (int64_t k = 1; k < n_streams; k++) {
        slice_logits(h, x[k] + slice->row * C, slice->n, &w->normed, w->logits);
        score_variant(w, slice, V, sums + k * metrics_sums());
    }
}

/* Slices of at most `length` positions, cut inside each span from its start. */
static enum status cut_slices(const struct span *spans, int64_t n_spans, int64_t length,
                              struct span **out, int64_t *n, struct err *e)
{
    *n = 0;
    for (int64_t i = 0; i < n_spans; i++) *n += (spans[i].n + length - 1) / length;
    PASS(mem_alloc(out, *n, sizeof **out, "slices", e));
    struct span *slice = *out;
    for (int64_t i = 0; i < n_spans; i++)
        for (int64_t t = 0; t < spans[i].n; t += length)
            *slice++ = (struct span){.row = spans[i].row + t,
                                     .n = min64(spans[i].n - t, length),
                                     .target = spans[i].target + t,
                                     .unit = spans[i].unit};
    return OK;
}

/* Adds the slices' sums to their units, in order. */
static void add_slices(const struct span *slices, int64_t n, const double *sums, int64_t pitch,
                       struct scores *out)
{
    int64_t k = metrics_sums();
    memset(out->sum, 0, (size_t)(out->n * k) * sizeof *out->sum);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) out->sum[slices[i].unit * k + j] += sums[i * pitch + j];
}

enum status head_score(const struct model *m, const struct span *spans, int64_t n_spans,
                       const float *const *x, int64_t n_streams, struct scores *scores,
                       struct err *e)
{
    enum status st = OK;
    struct span *slices = NULL;
    double *sums = NULL;
    struct scratch *scratch = NULL;
    struct head head = {0};
    int64_t n, pitch = n_streams * metrics_sums(), threads = omp_get_max_threads();
    TRY(head_open(&head, m, e));
    TRY(cut_slices(spans, n_spans, slice_of(model_shape(m)), &slices, &n, e));
    threads = max64(min64(threads, n), 1);
    TRY(mem_zero(&sums, n * pitch, sizeof *sums, "sums of the slices", e));
    TRY(mem_zero(&scratch, threads, sizeof *scratch, "scratch of the head", e));
    for (int64_t i = 0; i < threads; i++) TRY(scratch_init(&scratch[i], m, n_streams > 1, e));
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
    for (int64_t i = 0; i < n; i++)
        score_slice(&head, &slices[i], x, n_streams, &scratch[omp_get_thread_num()],
                    sums + i * pitch);
    for (int64_t k = 0; k < n_streams; k++)
        add_slices(slices, n, sums + k * metrics_sums(), pitch, &scores[k]);
done:
    for (int64_t i = 0; scratch && i < threads; i++) scratch_free(&scratch[i]);
    product_weights_free(head.prepared);
    free(scratch);
    free(sums);
    free(slices);
    return st;
}

enum status head_logits(const struct model *m, const float *x, int64_t T, float *logits,
                        struct err *e)
{
    enum status st = OK;
    int64_t V = model_shape(m)->vocab, C = model_shape(m)->hidden, P = slice_of(model_shape(m));
    int threads = omp_get_max_threads();
    struct head head = {0};
    struct normed *normed = NULL;
    TRY(head_open(&head, m, e));
    TRY(mem_zero(&normed, threads, sizeof *normed, "hidden states", e));
    for (int i = 0; i < threads; i++) TRY(normed_init(&normed[i], m, e));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < T; t += P)
        slice_logits(&head, x + t * C, min64(T - t, P), &normed[omp_get_thread_num()],
                     logits + t * V);
done:
    for (int i = 0; normed && i < threads; i++) normed_free(&normed[i]);
    free(normed);
    product_weights_free(head.prepared);
    return st;
}
