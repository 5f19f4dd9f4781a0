/* Cost of Hessian-vector products in units of forward passes of the same tokens, interleaved so
 * that a busy machine slows both; and the memory of one product. Random tokens.
 *
 * usage: bench_hvp DIR SEQUENCES LENGTH [ROUNDS [PROBES [ROWS]]]
 * ROUNDS 0: only one product and its peak memory. ROWS: positions of a slice of the head, instead
 * of its own. QTRAJ_BENCH_PRODUCTS in the environment: the
 * kind of the derivatives' products; forward passes stay in f32. Prints one JSON object; times are
 * the minimum over the rounds, in seconds. */
#include "curvature/hvp.h"
#include "bench.h"
#include "curvature/hvp_internal.h"
#include "curvature/vector.h"
#include "eval/head.h"
#include "text_spans.h"
#include "util/rng.h"

struct bench {
    struct checkpoint *checkpoint;
    struct model *model;
    struct sequences s;
    struct hvp *h;
    int64_t probes;
    enum products kind;
    float **v, **hv;
};

static enum status forward(struct bench *b, struct err *e)
{
    enum status st = OK;
    struct acts a = {0};
    struct scores scores = {0};
    struct span *spans = NULL;
    struct block block = {0};
    float *x = NULL;
    const struct model_shape *m = model_shape(b->model);
    int64_t T = b->s.offset[b->s.n];
    TRY(mem_alloc(&x, T * m->hidden, sizeof *x, "hidden states", e));
    TRY(model_acts_init(b->model, T < 2048 ? T : 2048, &a, e));
    TRY(scores_init(&scores, b->s.n, e));
    model_set_products(b->model, PRODUCTS_F32);
    TRY(model_embed(b->model, &b->s, x, e));
    for (int64_t layer = 0; layer < m->layers; layer++) {
        TRY(model_block_load(b->model, layer, &block, e));
        model_block_forward(b->model, &block, &b->s, x, &a);
        model_block_free(&block);
    }
    TRY(text_spans(&b->s, &spans, e));
    TRY(head_score(b->model, spans, b->s.n, &(const float *){x}, 1, &scores, e));
done:
    model_set_products(b->model, b->kind);
    free(spans);
    scores_free(&scores);
    model_acts_free(&a);
    free(x);
    return st;
}

static enum status one(struct bench *b, struct err *e)
{
    return hvp_apply(b->h, 1, (const float *const *)b->v, b->hv, e);
}

static enum status several(struct bench *b, struct err *e)
{
    return hvp_apply(b->h, b->probes, (const float *const *)b->v, b->hv, e);
}

static enum status gradient(struct bench *b, struct err *e)
{
    double loss;
    return hvp_gradient(b->h, b->hv[0], &loss, e);
}

/* With retained activations; the first product has none yet. */
enum { FORWARD, GRADIENT, ONE, SEVERAL, KEPT_FIRST, KEPT, WHAT_N };
static const struct {
    const char *name;
    enum status (*run)(struct bench *b, struct err *e);
} what[WHAT_N] = {
    [FORWARD] = {"forward", forward},
    [GRADIENT] = {"gradient", gradient},
    [ONE] = {"product", one},
    [SEVERAL] = {"products_together", several},
    [KEPT_FIRST] = {"product_kept_first", one},
    [KEPT] = {"product_kept", one},
};

static enum status measure(struct bench *b, int rounds, double best[WHAT_N], struct err *e)
{
    enum status st = OK;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < WHAT_N; i++) {
            if (i == FORWARD) hvp_keep(b->h, false);
            if (i == KEPT_FIRST) hvp_keep(b->h, true);
            double start = bench_seconds(), took;
            TRY(what[i].run(b, e));
            took = bench_seconds() - start;
            if (r == 0 || took < best[i]) best[i] = took;
        }
done:
    return st;
}

static enum status start(struct bench *b, const char *dir, int64_t n, int64_t length, struct err *e)
{
    enum status st = OK;
    TRY(checkpoint_open(dir, &b->checkpoint, e));
    TRY(model_open(b->checkpoint, &b->model, e));
    b->kind = products_resolve(products_of_word(getenv("QTRAJ_BENCH_PRODUCTS")));
    model_set_products(b->model, b->kind);
    TRY(sequences_init(&b->s, n, n * length, 0, e));
    for (int64_t i = 0; i <= n; i++) b->s.offset[i] = i * length;
    for (int64_t t = 0; t < n * length; t++)
        b->s.ids[t] = (int32_t)(rng_bits(7, (uint64_t)t) % (uint64_t)model_shape(b->model)->vocab);
    TRY(hvp_open(b->model, &b->s, HVP_ALL, &b->h, e));
    TRY(vectors_alloc(&b->v, b->probes, hvp_n(b->h), sizeof(float), "probes", e));
    TRY(vectors_alloc(&b->hv, b->probes, hvp_n(b->h), sizeof(float), "products", e));
    const struct space space = space_alone(hvp_n(b->h));
    for (int64_t i = 0; i < b->probes; i++) vector_signs((uint64_t)i, &space, b->v[i]);
done:
    return st;
}

/* Peak memory of the process in MiB. */
static double peak(void)
{
    char line[256];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %lld", &kib);
    if (f) fclose(f);
    return (double)kib / 1024;
}

static void print(const struct bench *b, int rounds, const double best[WHAT_N])
{
    int64_t n = hvp_n(b->h);
    printf("{\"products\": \"%s\", \"parameters\": %lld, \"tokens\": %lld, \"vector_mib\": %.0f, "
           "\"peak_mib\": %.0f",
           products_words[b->kind], (long long)n, (long long)b->s.offset[b->s.n],
           (double)n * 4 / 0x1p20, peak());
    for (int i = 0; i < WHAT_N && rounds > 0; i++) printf(", \"%s\": %.3f", what[i].name, best[i]);
    for (int i = GRADIENT; i < WHAT_N && rounds > 0; i++)
        printf(", \"forwards_%s\": %.2f", what[i].name,
               best[i] / best[FORWARD] / (double)(i == SEVERAL ? b->probes : 1));
    printf("}\n");
}

int main(int argc, char **argv)
{
    enum status st = OK;
    struct err err = {0}, *e = &err;
    struct bench b = {0};
    double best[WHAT_N] = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: bench_hvp DIR SEQUENCES LENGTH [ROUNDS [PROBES [ROWS]]]\n");
        return 2;
    }
    int rounds = argc > 4 ? atoi(argv[4]) : 3;
    b.probes = rounds == 0 ? 1 : argc > 5 ? atoi(argv[5]) : 8;
    linalg_setup();
    TRY(start(&b, argv[1], atoi(argv[2]), atoi(argv[3]), e));
    if (argc > 6) b.h->rows = atoi(argv[6]);
    if (rounds == 0) TRY(one(&b, e));
    TRY(measure(&b, rounds, best, e));
    print(&b, rounds, best);
done:
    if (st != OK) fprintf(stderr, "bench_hvp: %s\n", err.text);
    vectors_free(b.v, b.probes);
    vectors_free(b.hv, b.probes);
    hvp_close(b.h);
    sequences_free(&b.s);
    model_close(b.model);
    checkpoint_close(b.checkpoint);
    return st == OK ? 0 : 1;
}
