#include "curvature/rotation_learn.h"
#include "curvature/hvp.h"
#include "math/eigen.h"
#include "math/mat_products.h"
#include "model/model_internal.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

struct rotation_learner {
    const struct model *m;
    struct model *turned;
    const struct rotation_recipe *how;
    int64_t layers, C, D;
    struct block *given, *own;    /* (layers) as stored; rounded, in m's basis, with its norms in
                                     the linears */
    float *plain;                 /* (2, C) scale and bias of norms that are in the linears */
    float *difference, *gradient; // hvp_n: of the rounded weights from the others; of the loss
    float *rounded;               // of a linear
    double *work;                 // (2) linears
    float *stream, *heads;        // (C, C), (layers, D, D)
    struct mat_work products;
};

/* The block as derivatives see it: its norms have no scales where the linears have them. */
static enum status prepare_block(struct rotation_learner *l, int64_t layer, struct err *e)
{
    struct block *own = &l->own[layer];
    PASS(model_block_load(l->m, layer, &l->given[layer], e));
    PASS(model_block_rotate(l->turned, &l->given[layer], own, e));
    own->rotation = NULL;
    for (int i = 0; i < own->n_linears; i++) {
        struct linear *k = &own->linear[i];
        AUTO_FREE double *bias = NULL;
        if (!k->bias) continue;
        PASS(mem_alloc(&bias, k->rows, sizeof *bias, "a bias", e));
        for (int64_t j = 0; j < k->rows; j++) bias[j] = (double)k->bias[j];
        rotation_back(l->turned, own, i, NULL, bias);
        for (int64_t j = 0; j < k->rows; j++) ((float *)(uintptr_t)k->bias)[j] = (float)bias[j];
    }
    for (int k = EXTRA_ATTN_NORM; own->extra->rms && k <= EXTRA_MLP_NORM_BIAS; k++)
        if (l->given[layer].extra->p[k])
            own->extra->p[k] = l->plain + (k == EXTRA_ATTN_NORM || k == EXTRA_MLP_NORM ? 0 : l->C);
    return OK;
}

enum status rotation_learner_open(const struct model *m, struct model *turned,
                                  const struct rotation_recipe *how, struct rotation_learner **out,
                                  struct err *e)
{
    CLEANUP(rotation_learner_close_at) struct rotation_learner *l = NULL;
    const struct model_shape *s = model_shape(m);
    const char *what = "a learned rotation";
    PASS(mem_zero(&l, 1, sizeof *l, what, e));
    *l = (struct rotation_learner){
        .m = m, .turned = turned, .how = how, .C = s->hidden, .D = s->head_dim};
    struct rotation *r = turned->rotation;
    if (r->places & ROTATE_R1) PASS(mix_to_dense(&r->stream, e));
    for (int64_t i = 0; i < r->layers; i++) PASS(mix_to_dense(&r->head[i], e));
    PASS(mem_zero(&l->given, s->layers, sizeof *l->given, what, e));
    PASS(mem_zero(&l->own, s->layers, sizeof *l->own, what, e));
    PASS(mem_zero(&l->plain, 2 * l->C, sizeof *l->plain, what, e));
    for (int64_t i = 0; i < l->C; i++) l->plain[i] = 1;
    for (l->layers = 0; l->layers < s->layers;) PASS(prepare_block(l, l->layers++, e));
    const int64_t n = hvp_numbers(&m->spec, HVP_QUANTIZED);
    int64_t most = 0; /* numbers of a linear */
    for (int i = 0; i < l->given->n_linears; i++)
        most = max64(most, l->given->linear[i].rows * l->given->linear[i].cols);
    PASS(mem_alloc(&l->difference, n, sizeof *l->difference, what, e));
    PASS(mem_alloc(&l->gradient, n, sizeof *l->gradient, what, e));
    PASS(mem_alloc(&l->rounded, most, sizeof *l->rounded, what, e));
    PASS(mem_alloc(&l->work, 2 * most, sizeof *l->work, what, e));
    if (r->places & ROTATE_R1) PASS(mem_alloc(&l->stream, l->C * l->C, sizeof *l->stream, what, e));
    if (r->layers) PASS(mem_alloc(&l->heads, l->layers * l->D * l->D, sizeof *l->heads, what, e));
    PASS(mat_work_open(&l->products, PRODUCTS_F32, (struct mat_largest){most, most},
                       omp_get_max_threads(), e));
    *out = TAKE(l);
    return OK;
}

void rotation_learner_close(struct rotation_learner *l)
{
    if (!l) return;
    for (int64_t i = 0; i < l->layers; i++) {
        model_block_free(&l->own[i]);
        model_block_free(&l->given[i]);
    }
    mat_work_close(&l->products);
    free(l->given);
    free(l->own);
    free(l->plain);
    free(l->difference);
    free(l->gradient);
    free(l->rounded);
    free(l->work);
    free(l->stream);
    free(l->heads);
    free(l);
}

/* The place of a linear in the vectors of h. */
static int64_t offset_of(const struct hvp *h, const char *name)
{
    int64_t i = 0;
    while (strcmp(hvp_tensor(h, i)->name, name) != 0) i++;
    return hvp_tensor(h, i)->offset;
}

/* Rounds linear i of a rotated block b; its weights and their difference in m's basis. */
static enum status round_linear(struct rotation_learner *l, const struct block *b, int i,
                                float *difference, struct err *e)
{
    const struct linear *from = &b->linear[i];
    const int64_t n = from->rows * from->cols;
    const struct quant_options *o = l->how->options;
    float *own = (float *)(uintptr_t)l->own[b->layer].linear[i].w;
    double *changed = l->work, *q = l->work + n;
    struct quant_report report;
    const struct quant_job job = {.bits = quant_bits_at(o, l->how->bits, from->stage == STAGE_DOWN),
                                  .options = o,
                                  .layer = b->layer,
                                  .linear = i,
                                  .rows = from->rows,
                                  .cols = from->cols,
                                  .w = from->w,
                                  .q = l->rounded};
    PASS(quant_rtn.run(&job, &report, e));
    for (int64_t k = 0; k < n; k++) {
        q[k] = (double)l->rounded[k];
        changed[k] = q[k] - (double)from->w[k];
    }
    rotation_back(l->turned, b, i, q, NULL);
    rotation_back(l->turned, b, i, changed, NULL);
    for (int64_t k = 0; k < n; k++) {
        own[k] = (float)q[k];
        difference[k] = (float)changed[k];
    }
    return OK;
}

/* What a linear adds: of D, the change of its weights, and G, their gradient, GᵀD for what turns
 * its inputs and G Dᵀ for what turns its outputs. */
static void add_linear(struct rotation_learner *l, int64_t layer, int i, const float *G,
                       const float *change)
{
    const struct linear *k = &l->own[layer].linear[i];
    const struct model_shape *s = model_shape(l->m);
    const int64_t D = l->D, n = k->cols;
    struct mat_work *w = &l->products;
    float *head = l->heads ? l->heads + layer * D * D : NULL;
    if (l->stream && (k->stage == STAGE_QKV || k->stage == STAGE_UP))
        mat_add_product(w, MAT_TN, l->stream, n, G, n, change, n, n, n, k->rows);
    if (l->stream && (k->stage == STAGE_O || k->stage == STAGE_DOWN))
        mat_add_product(w, MAT_NT, l->stream, k->rows, G, n, change, n, k->rows, k->rows, n);
    for (int64_t h = 0; head && k->stage == STAGE_O && h < s->heads; h++)
        mat_add_product(w, MAT_TN, head, D, G + h * D, n, change + h * D, n, D, D, k->rows);
    for (int64_t h = 0; head && k->stage == STAGE_QKV && h < s->kv_heads; h++) {
        const int64_t at = rotation_values(l->m, i, h) * n;
        if (at >= 0) mat_add_product(w, MAT_NT, head, D, G + at, n, change + at, n, D, D, n);
    }
}

/* a (n, n) <- (a - aᵀ) / 2. */
static void antisymmetric(float *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const float half = (a[i * n + j] - a[j * n + i]) / 2;
            a[i * n + j] = half;
            a[j * n + i] = -half;
        }
}

static enum status add_all(struct rotation_learner *l, const struct hvp *h, struct err *e)
{
    const int64_t C = l->C, D = l->D;
    if (l->stream) memset(l->stream, 0, (size_t)(C * C) * sizeof *l->stream);
    if (l->heads) memset(l->heads, 0, (size_t)(l->layers * D * D) * sizeof *l->heads);
    for (int64_t layer = 0; layer < l->layers; layer++)
        for (int i = 0; i < l->own[layer].n_linears; i++) {
            const int64_t at = offset_of(h, l->own[layer].linear[i].name);
            add_linear(l, layer, i, l->gradient + at, l->difference + at);
        }
    PASS(mat_work_check(&l->products, e));
    if (l->stream) antisymmetric(l->stream, C);
    for (int64_t layer = 0; l->heads && layer < l->layers; layer++)
        antisymmetric(l->heads + layer * D * D, D);
    return OK;
}

enum status rotation_learner_gradient(struct rotation_learner *l, const struct sequences *s,
                                      double *loss, const float **stream, const float **heads,
                                      struct err *e)
{
    CLEANUP(hvp_close_at) struct hvp *h = NULL;
    PASS(hvp_open(l->m, s, HVP_QUANTIZED, &h, e));
    for (int64_t layer = 0; layer < l->layers; layer++) {
        CLEANUP(model_block_free) struct block b = {0};
        PASS(model_block_rotate(l->turned, &l->given[layer], &b, e));
        for (int i = 0; i < b.n_linears; i++)
            PASS(round_linear(l, &b, i, l->difference + offset_of(h, b.linear[i].name), e));
    }
    hvp_blocks(h, l->own);
    PASS(hvp_gradient(h, l->gradient, loss, e));
    PASS(add_all(l, h, e));
    *stream = l->stream;
    *heads = l->heads;
    return OK;
}

/* M <- (1 + S)⁻¹ (1 - S) M = 2 (1 + S)⁻¹ M - M, S = t/2 a. */
static enum status turn(struct mix *m, const float *a, double rate, struct err *e)
{
    const int64_t n = m->n;
    AUTO_FREE double *left = NULL, *x = NULL;
    double norm = 0;
    PASS(mem_alloc(&left, n * n, sizeof *left, "a step of a rotation", e));
    PASS(mem_alloc(&x, n * n, sizeof *x, "a step of a rotation", e));
    for (int64_t i = 0; i < n; i++) { /* rows as columns */
        double sum = 0;
        for (int64_t j = 0; j < n; j++) sum += fabs((double)a[i * n + j]);
        norm = fmax(norm, sum);
    }
    const double half = (norm > 0 ? fmin(rate, 1 / norm) : rate) / 2;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) left[i * n + j] = half * (double)a[i * n + j] + (i == j);
    memcpy(x, m->dense, (size_t)(n * n) * sizeof *x);
    PASS(linear_solve(n, left, x, e));
    for (int64_t k = 0; k < n * n; k++) m->dense[k] = 2 * x[k] - m->dense[k];
    return OK;
}

enum status rotation_learner_turn(struct rotation_learner *l, double rate, struct err *e)
{
    struct rotation *r = l->turned->rotation;
    if (l->stream) PASS(turn(&r->stream, l->stream, rate, e));
    for (int64_t i = 0; i < r->layers; i++)
        PASS(turn(&r->head[i], l->heads + i * l->D * l->D, rate, e));
    return OK;
}

enum status rotation_learn(const struct model *m, struct model *turned, const struct sequences *s,
                           const struct rotation_recipe *how, struct err *e)
{
    CLEANUP(rotation_learner_close_at) struct rotation_learner *l = NULL;
    const int64_t batch = min64(how->sequences, s->n), batches = s->n / batch;
    const double pi = acos(-1);
    double loss = 0, first = 0;
    AUTO_FREE int64_t *offset = NULL;
    PASS(mem_alloc(&offset, batch + 1, sizeof *offset, "sequences of a step", e));
    PASS(rotation_learner_open(m, turned, how, &l, e));
    for (int64_t k = 0; k < how->steps; k++) {
        const float *stream, *heads;
        const int64_t *from = s->offset + k % batches * batch;
        for (int64_t i = 0; i <= batch; i++) offset[i] = from[i] - from[0];
        const struct sequences some = {.n = batch, .offset = offset, .ids = s->ids + from[0]};
        PASS(rotation_learner_gradient(l, &some, &loss, &stream, &heads, e));
        if (k == 0) first = loss;
        const double rate = how->rate * (1 + cos(pi * (double)k / (double)how->steps)) / 2;
        PASS(rotation_learner_turn(l, rate, e));
        if (how->stepped) how->stepped(how->context);
    }
    turned->rotation->steps = how->steps;
    log_trace("rotation", "%lld bits: loss %.6f of the first step, %.6f of the last",
              (long long)how->bits, first, loss);
    return OK;
}

int64_t rotation_learn_bytes(const struct model_sizes *m, int64_t sequences, int64_t longest,
                             int64_t threads)
{
    const int64_t L = m->shape.layers, C = m->shape.hidden, D = m->shape.head_dim;
    const int64_t n = m->linears * L, matrix = C * C, head = D * D;
    struct hvp_bytes bytes;
    const struct hvp_extent x = {.tokens = sequences * longest,
                                 .sequences = sequences,
                                 .longest = longest,
                                 .threads = threads,
                                 .subset = HVP_QUANTIZED,
                                 .products = PRODUCTS_F32};
    hvp_bytes_of(&m->spec, &x, &bytes);
    /* Both kinds of blocks, two vectors; a linear twice in f64 and once in f32; matrices, their
     * gradients and a step. */
    return bytes.gradient + (m->block * 2 * L + 2 * n) * (int64_t)sizeof(float) +
           5 * m->linears * (int64_t)sizeof(float) +
           (matrix + L * head) * (int64_t)(sizeof(double) + sizeof(float)) +
           2 * matrix * (int64_t)sizeof(double) + panels_bytes();
}
