#include "eval/head.h"
#include "eval/metric.h"
#include "math/bf16.h"
#include "math/kern.h"
#include "math/kern_bf16.h"
#include "math/linalg.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

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
    return threads *
           (terms + (P * m->hidden + (logits * P + 1) * m->vocab) * (int64_t)sizeof(float));
}

/* --- logits --- */

/* Rows of the output matrix in one product: of bf16 terms, in f32. */
enum { VOCAB_PIECE = 2048, VOCAB_PIECE_F32 = 512 };

/* The output matrix, for one call. */
struct head {
    const struct model *model;
    struct product_weights *prepared; /* NULL: none */
    int64_t piece;
};

/* Positions from which on it pays to prepare the output matrix for products in f32. */
enum { PREPARED_FROM = 1024 };

/* positions: that go through it. */
static enum status head_open(struct head *h, const struct model *m, int64_t positions,
                             struct err *e)
{
    const struct model_shape *s = model_shape(m);
    const bool f32 = model_products(m) == PRODUCTS_F32;
    *h = (struct head){.model = m, .piece = f32 ? VOCAB_PIECE_F32 : VOCAB_PIECE};
    if (!model_prepares(m) || (f32 && positions < PREPARED_FROM)) return OK;
    return product_weights_make(model_products(m), model_head(m), s->vocab, s->hidden, h->piece,
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

/* logits (n, V) of the normed hidden states in `to`. */
static void normed_logits(const struct head *h, int64_t n, const struct normed *to, float *logits)
{
    const struct model *m = h->model;
    int64_t C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    const enum products kind = model_products(m);
    const bool f32 = kind == PRODUCTS_F32, whole = !h->prepared || (f32 && !mat_large(n, V, C));
    if (whole) product_plain(logits, V, to->hidden, model_head(m), n, V, C);
    if (!f32) bf16_split(to->terms, n * C, products_terms(kind), to->hidden, n * C);
    for (int64_t v = 0; !whole && v < V; v += h->piece)
        if (f32)
            product_nt_f32(logits + v, V, to->hidden, h->prepared, v / h->piece, n, NULL);
        else
            product_nt(kind, logits + v, V, to->terms, n * C, h->prepared, v / h->piece, n);
    if (model_rounding(m)) kern_bf16_round(logits, logits, n * V);
}

/* --- spans and scores --- */

struct span head_text_span(const struct sequences *s, int64_t i)
{
    int64_t row = s->offset[i];
    return (struct span){.row = row,
                         .n = s->offset[i + 1] - row - 1,
                         .target = s->ids + row + 1,
                         .unit = i,
                         .sequence = i};
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

/* A position without its target, from its logits (V); fills weights (V). */
static struct position position_of(const float *logits, float *weights, int64_t V)
{
    struct position at = {.vocab = V, .logits = logits, .weights = weights};
    float top = kern_max(logits, V, &at.top);
    double sum = kern_exp_sum(weights, logits, V, top);
    at.scale = (float)(1 / sum);
    at.log_sum = (double)top + log(sum);
    return at;
}

/* Consecutive positions of one span. */
struct piece {
    struct span span;
    int64_t at; /* row of its first position in the logits of the slice */
    bool again; /* one position, the same as that of the piece before: only the target differs */
};

/* Pieces of one sequence whose positions go through the output matrix together. */
struct slice {
    const struct piece *pieces; // (n)
    int64_t n, rows;
    double *sums; // (n, pitch)
};

/* The position of the full-precision stream at row r of the logits. keep: stores its probabilities
 * in w->p for the variants. */
static void set_full(const struct scratch *w, int64_t r, int64_t V, bool keep)
{
    struct position *at = &w->at[r];
    float *p = keep ? w->p + r * V : w->row;
    *at = position_of(w->full + r * V, p, V);
    at->full = at;
    if (!keep) return;
    kern_scale(p, at->scale, V);
    at->scale = 1;
}

/* sums: of the stream, for the first piece of the slice; those of the next are `pitch` further. */
static void score_full(const struct scratch *w, const struct slice *s, int64_t V, bool keep,
                       double *sums, int64_t pitch)
{
    for (const struct piece *x = s->pieces; x < s->pieces + s->n; x++, sums += pitch)
        for (int64_t i = 0; i < x->span.n; i++) {
            if (!x->again) set_full(w, x->at + i, V, keep);
            w->at[x->at + i].target = x->span.target[i];
            metrics_accumulate(&w->at[x->at + i], sums);
        }
}

static void score_variant(const struct scratch *w, const struct slice *s, int64_t V, double *sums,
                          int64_t pitch)
{
    struct position at = {0};
    for (const struct piece *x = s->pieces; x < s->pieces + s->n; x++, sums += pitch)
        for (int64_t i = 0; i < x->span.n; i++) {
            const int64_t r = x->at + i;
            if (!x->again) at = position_of(w->logits + r * V, w->row, V);
            at.full = &w->at[r];
            at.target = x->span.target[i];
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

/* logits (rows, V) of a slice of hidden states x (tokens, C). */
static void slice_logits(const struct head *h, const struct slice *s, const float *x,
                         const struct normed *to, float *logits)
{
    const int64_t C = model_shape(h->model)->hidden;
    for (int64_t k = 0; k < s->n; k++) {
        const struct piece *p = &s->pieces[k];
        if (!p->again)
            model_final_norm(h->model, x + p->span.row * C, p->span.n, to->hidden + p->at * C);
    }
    normed_logits(h, s->rows, to, logits);
}

/* Sets the metrics of the slice's pieces: a row of n_streams times metrics_sums() for each. */
static void score_slice(const struct head *full, const struct head *h, const struct slice *s,
                        const float *const *x, int64_t n_streams, const struct scratch *w)
{
    const int64_t V = model_shape(h->model)->vocab, pitch = n_streams * metrics_sums();
    slice_logits(full, s, x[0], &w->normed, w->full);
    score_full(w, s, V, n_streams > 1, s->sums, pitch);
    for (int64_t k = 1; k < n_streams; k++) {
        slice_logits(h, s, x[k], &w->normed, w->logits);
        score_variant(w, s, V, s->sums + k * metrics_sums(), pitch);
    }
}

/* All slices of a call. */
struct cut {
    struct piece *pieces; // (n_pieces)
    struct slice *slices; // (n)
    double *sums;         // (n_pieces, pitch)
    int64_t n_pieces, n;
};

static void cut_free(struct cut *c)
{
    free(c->pieces);
    free(c->slices);
    free(c->sums);
}

/* Adds a piece to the last slice, which has room for it. */
static void add_piece(struct cut *c, const struct span *span)
{
    struct slice *s = &c->slices[c->n - 1];
    const struct piece *last = s->n > 0 ? &c->pieces[c->n_pieces - 1] : NULL;
    const bool again = last && span->n == 1 && last->span.n == 1 && last->span.row == span->row;
    c->pieces[c->n_pieces++] =
        (struct piece){.span = *span, .at = again ? s->rows - 1 : s->rows, .again = again};
    s->rows += again ? 0 : span->n;
    s->n++;
}

/* Cuts the spans in order, so that slices have `length` rows but for the last one of a sequence. */
static void cut_spans(struct cut *c, const struct span *spans, int64_t n_spans, int64_t length)
{
    for (int64_t i = 0; i < n_spans; i++) {
        bool fresh = i == 0 || spans[i].sequence != spans[i - 1].sequence;
        for (int64_t t = 0, n; t < spans[i].n; t += n, fresh = false) {
            if (c->n == 0 || fresh || c->slices[c->n - 1].rows == length)
                c->slices[c->n++] = (struct slice){.pieces = c->pieces + c->n_pieces};
            n = min64(spans[i].n - t, length - c->slices[c->n - 1].rows);
            add_piece(c, &(struct span){.row = spans[i].row + t,
                                        .n = n,
                                        .target = spans[i].target + t,
                                        .unit = spans[i].unit});
        }
    }
}

static enum status cut_init(struct cut *c, const struct span *spans, int64_t n_spans,
                            int64_t length, int64_t pitch, struct err *e)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n_spans; i++) most += 2 + spans[i].n / length;
    PASS(mem_alloc(&c->pieces, most, sizeof *c->pieces, "pieces", e));
    PASS(mem_alloc(&c->slices, most, sizeof *c->slices, "slices", e));
    cut_spans(c, spans, n_spans, length);
    PASS(mem_zero(&c->sums, c->n_pieces * pitch, sizeof *c->sums, "sums of the slices", e));
    for (int64_t i = 0; i < c->n; i++)
        c->slices[i].sums = c->sums + (c->slices[i].pieces - c->pieces) * pitch;
    return OK;
}

/* Adds the pieces' sums of one stream to their units, in order. */
static void add_pieces(const struct cut *c, int64_t stream, int64_t pitch, struct scores *out)
{
    const int64_t k = metrics_sums();
    memset(out->sum, 0, (size_t)(out->n * k) * sizeof *out->sum);
    for (int64_t i = 0; i < c->n_pieces; i++) {
        double *to = out->sum + c->pieces[i].span.unit * k;
        for (int64_t j = 0; j < k; j++) to[j] += c->sums[i * pitch + stream * k + j];
    }
}

/* full: the head of the full-precision stream; h: of the others. */
static enum status score_all(const struct head *full, const struct head *h,
                             const struct span *spans, int64_t n_spans, const float *const *x,
                             int64_t n_streams, struct scores *scores, struct err *e)
{
    enum status st = OK;
    struct cut cut = {0};
    struct scratch *scratch = NULL;
    int64_t pitch = n_streams * metrics_sums(), threads = omp_get_max_threads();
    TRY(cut_init(&cut, spans, n_spans, slice_of(model_shape(h->model)), pitch, e));
    threads = max64(min64(threads, cut.n), 1);
    TRY(mem_zero(&scratch, threads, sizeof *scratch, "scratch of the head", e));
    for (int64_t i = 0; i < threads; i++)
        TRY(scratch_init(&scratch[i], h->model, n_streams > 1, e));
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads)
    for (int64_t i = 0; i < cut.n; i++)
        score_slice(full, h, &cut.slices[i], x, n_streams, &scratch[omp_get_thread_num()]);
    for (int64_t k = 0; k < n_streams; k++) add_pieces(&cut, k, pitch, &scores[k]);
done:
    for (int64_t i = 0; scratch && i < threads; i++) scratch_free(&scratch[i]);
    free(scratch);
    cut_free(&cut);
    return st;
}

static int64_t positions_of(const struct span *spans, int64_t n)
{
    int64_t positions = 0;
    for (int64_t i = 0; i < n; i++) positions += spans[i].n;
    return positions;
}

enum status head_score(const struct model *m, const struct span *spans, int64_t n_spans,
                       const float *const *x, int64_t n_streams, struct scores *scores,
                       struct err *e)
{
    struct head head;
    enum status st = head_open(&head, m, n_streams * positions_of(spans, n_spans), e);
    if (st == OK) st = score_all(&head, &head, spans, n_spans, x, n_streams, scores, e);
    product_weights_free(head.prepared);
    return st;
}

enum status head_compare(const struct model *const m[2], const struct span *spans, int64_t n_spans,
                         const float *const *x, struct scores *scores, struct err *e)
{
    struct head heads[2] = {{0}, {0}};
    enum status st = head_open(&heads[0], m[0], positions_of(spans, n_spans), e);
    if (st == OK) st = head_open(&heads[1], m[1], positions_of(spans, n_spans), e);
    if (st == OK) st = score_all(&heads[0], &heads[1], spans, n_spans, x, 2, scores, e);
    for (int i = 0; i < 2; i++) product_weights_free(heads[i].prepared);
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
    TRY(head_open(&head, m, T, e));
    TRY(mem_zero(&normed, threads, sizeof *normed, "hidden states", e));
    for (int i = 0; i < threads; i++) TRY(normed_init(&normed[i], m, e));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < T; t += P) {
        const struct normed *of = &normed[omp_get_thread_num()];
        model_final_norm(m, x + t * C, min64(T - t, P), of->hidden);
        normed_logits(&head, min64(T - t, P), of, logits + t * V);
    }
done:
    for (int i = 0; normed && i < threads; i++) normed_free(&normed[i]);
    free(normed);
    product_weights_free(head.prepared);
    return st;
}
