/* Rates of the forward pass of whole blocks and of the head, relative to plain products at the same
 * shapes, of sgemm or, with QTRAJ_BENCH_PRODUCTS=bf16 or another kind, of oneDNN:
 *   build/release/bench_forward DIR [sequences length]      default 2 2048
 * DIR: a checkpoint of at least two blocks, e.g. of make_checkpoint.py. Weights are read and
 * widened one block ahead, as in a visit, while the blocks compute. FLOPs of a block: 2 P T for its
 * P linear weights and T tokens, 2 T² C a sequence for causal attention (half of both products). */
#include "bench.h"
#include "engine/block_reader.h"
#include "engine/visit_internal.h"
#include "eval/metric.h"
#include "math/bf16.h"
#include "model/model_internal.h"
#include "prepared.h"
#include "text_spans.h"

enum { PASSES = 4 };

struct bench {
    struct visit_group group; /* of this rank alone */
    struct checkpoint *checkpoint;
    struct model *model;
    struct sequences s;
    struct acts acts;
    float *x; // (tokens, C)
    int64_t weights, tokens, length;
    double attention; /* FLOPs of a block */
};

static void open_all(struct bench *b, const char *dir, int64_t n, int64_t length)
{
    struct err e = {0};
    must(group_open(MPI_COMM_SELF, &b->group, &e), &e);
    must(checkpoint_open(dir, &b->checkpoint, &e), &e);
    must(model_open(b->checkpoint, &b->model, &e), &e);
    model_set_products(b->model,
                       products_resolve(products_of_word(getenv("QTRAJ_BENCH_PRODUCTS"))));
    must(sequences_init(&b->s, n, n * length, 0, &e), &e);
    const struct model_shape *m = model_shape(b->model);
    for (int64_t i = 0; i <= n; i++) b->s.offset[i] = i * length;
    for (int64_t i = 0; i < n * length; i++) b->s.ids[i] = (int32_t)(i * 7919 % m->vocab);
    b->tokens = n * length;
    b->length = length;
    b->attention = 2.0 * (double)(length * length * m->heads * m->head_dim * n);
    b->x = room(b->tokens * m->hidden, sizeof *b->x);
    must(model_acts_init(b->model, b->tokens, &b->acts, &e), &e);
    struct block block;
    must(model_block_load(b->model, 0, &block, &e), &e);
    for (int i = 0; i < block.n_linears; i++)
        b->weights += block.linear[i].rows * block.linear[i].cols;
    model_block_free(&block);
}

static void close_all(struct bench *b)
{
    free(b->x);
    model_acts_free(&b->acts);
    sequences_free(&b->s);
    model_close(b->model);
    checkpoint_close(b->checkpoint);
    group_close(&b->group);
}

/* Seconds of the product of `tokens` inputs with weights (rows, cols) that are prepared, inputs
 * that are split, and each thread's tokens in one product. */
static double product_seconds(const struct bench *b, const struct linear *l)
{
    struct err e = {0};
    const enum products kind = model_products(b->model);
    const int64_t size = b->tokens * l->cols, threads = omp_get_max_threads();
    const int64_t run = (b->tokens + threads - 1) / threads;
    struct product_weights *w;
    float *x = noise(size, 1), *y = room(b->tokens * l->rows, sizeof *y);
    uint16_t *terms = room(products_terms(kind) * size, sizeof *terms);
    double seconds;
    bf16_split(terms, size, products_terms(kind), x, size);
    must(product_weights_make(kind, l->w, l->rows, l->cols, l->rows, &w, &e), &e);
    BEST(seconds, PASSES, {
        _Pragma("omp parallel for") for (int64_t t = 0; t < b->tokens; t += run)
            product_nt(kind, y + t * l->rows, l->rows, terms + t * l->cols, size, w, 0,
                       b->tokens - t < run ? b->tokens - t : run);
    });
    product_weights_free(w);
    free(terms);
    free(y);
    free(x);
    return seconds;
}

/* All linears of a block one after the other by plain products. */
static double plain_block(const struct bench *b)
{
    struct err e = {0};
    struct block block;
    double seconds = 0;
    must(model_block_load(b->model, 0, &block, &e), &e);
    for (int i = 0; i < block.n_linears; i++)
        seconds += model_products(b->model) == PRODUCTS_F32
                       ? sgemm_seconds(b->tokens, block.linear[i].rows, block.linear[i].cols, 2)
                       : product_seconds(b, &block.linear[i]);
    model_block_free(&block);
    return seconds;
}

/* Seconds per block when all blocks are read ahead; the first read, which overlaps with nothing, is
 * not counted. */
static double walk(struct bench *b, double *waited)
{
    struct err e = {0};
    struct block_reader *reader;
    const struct block *block;
    int64_t layers = model_shape(b->model)->layers;
    double start = 0, first = 0;
    must(model_embed(b->model, &b->s, b->x, &e), &e);
    must(block_reader_open(&b->group, b->model, true, 0, &reader, &e), &e);
    for (int64_t i = 0; i < layers; i++) {
        must(block_reader_get(reader, i, i + 1, &block, &e), &e);
        must(block_reader_prepare(reader, &e), &e);
        if (i == 0) first = block_reader_seconds(reader), start = clock_seconds();
        model_block_forward(b->model, block, &b->s, b->x, &b->acts);
    }
    double seconds = (clock_seconds() - start) / (double)layers;
    *waited = (block_reader_seconds(reader) - first) / (double)layers;
    block_reader_close(reader);
    return seconds;
}

static const char *const parts[STAGE_N][2] = {{"norm", "q, k, v; q/k norm, RoPE"},
                                              {"attention", "o; norm, residual"},
                                              {"norm", "gate, up"},
                                              {"activation", "down; norm, residual"}};

/* Seconds of each stage without reading; all sequences at once. */
static void stages(struct bench *b, double rate)
{
    struct err e = {0};
    struct block block;
    struct prepared prepared;
    double least[STAGE_N][2], sum = 0;
    must(model_block_load(b->model, 0, &block, &e), &e);
    must(prepare_block(b->model, &block, &prepared, &e), &e);
    for (int i = 0; i < 2 * STAGE_N; i++) least[i / 2][i % 2] = INFINITY;
    for (int pass = 0; pass < PASSES; pass++)
        for (int stage = 0; stage < STAGE_N; stage++) {
            double a = clock_seconds(), c, d;
            model_stage_input(b->model, &block, stage, &b->s, 0, b->s.n, b->x, &b->acts);
            c = clock_seconds();
            model_stage_output(b->model, &block, stage, &b->s, 0, b->s.n, b->x, &b->acts);
            d = clock_seconds();
            if (c - a < least[stage][0]) least[stage][0] = c - a;
            if (d - c < least[stage][1]) least[stage][1] = d - c;
        }
    for (int stage = 0; stage < STAGE_N; stage++) {
        double flops[2] = {stage == STAGE_O ? b->attention : 0, 0};
        for (int i = 0; i < block.n_linears; i++)
            if (block.linear[i].stage == stage)
                flops[1] += 2.0 * (double)(block.linear[i].rows * block.linear[i].cols * b->tokens);
        for (int k = 0; k < 2; k++) {
            sum += least[stage][k];
            printf("    %-27s %8.4f s", parts[stage][k], least[stage][k]);
            if (flops[k] > 0)
                printf(" %8.1f GF/s %6.2f of plain products", 1e-9 * flops[k] / least[stage][k],
                       flops[k] / least[stage][k] / rate);
            printf("\n");
        }
    }
    printf("    %-27s %8.4f s\n", "all", sum);
    prepared_free(&prepared);
    prepared_free(&prepared);
    model_block_free(&block);
}

static void head(struct bench *b)
{
    struct err e = {0};
    const struct model_shape *m = model_shape(b->model);
    struct scores scores[3];
    struct span *spans;
    const float *x[3] = {b->x, b->x, b->x};
    double seconds, flops = 2.0 * (double)(m->hidden * m->vocab * b->tokens);
    double rate = flops / sgemm_seconds(b->tokens, m->vocab, m->hidden, PASSES);
    must(text_spans(&b->s, &spans, &e), &e);
    for (int i = 0; i < 3; i++) must(scores_init(&scores[i], b->s.n, &e), &e);
    BEST(seconds, PASSES, must(head_score(b->model, spans, b->s.n, x, 3, scores, &e), &e));
    json_t *record = metrics_record(&b->s, 0, b->s.n, scores[1].sum, scores[0].sum, METRIC_CELL);
    printf(
        "  head, 3 streams: logits, cross-entropy, KL, top-1\n    %-27s %8.4f s %8.1f GF/s %6.2f "
        "of sgemm (%.1f GF/s); KL of equal streams %.1e\n",
        "", seconds, 3e-9 * flops / seconds, 3 * flops / seconds / rate, 1e-9 * rate,
        json_number_get(json_object_get(record, "kl_divergence")));
    json_decref(record);
    free(spans);
    for (int i = 0; i < 3; i++) scores_free(&scores[i]);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct bench b = {0};
    double best = INFINITY, wait = 0, waited;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: bench_forward DIR [sequences length]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    linalg_setup();
    must(isa_setup(&e), &e);
    print_machine();
    open_all(&b, argv[1], argc == 4 ? atoll(argv[2]) : 2, argc == 4 ? atoll(argv[3]) : 2048);
    double linear = 2.0 * (double)(b.weights * b.tokens), flops = linear + b.attention, rate = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        double seconds = plain_block(&b);
        if (linear / seconds > rate) rate = linear / seconds;
        seconds = walk(&b, &waited);
        if (seconds < best) best = seconds, wait = waited;
    }
    printf("%s: %.1fM weights a block, %lld x %lld tokens; plain products (%s) %.1f GF/s\n",
           arch_name(b.model->spec.arch), 1e-6 * (double)b.weights, (long long)b.s.n,
           (long long)b.length, products_words[model_products(b.model)], 1e-9 * rate);
    printf("  block, read and widened on the way\n    %-27s %8.4f s %8.1f GF/s %6.2f of plain "
           "products, of "
           "it waited for the reader %.4f s\n",
           "", best, 1e-9 * flops / best, flops / best / rate, wait);
    printf("  block, stage by stage, weights at hand\n");
    stages(&b, rate);
    head(&b);
    close_all(&b);
    MPI_Finalize();
    return 0;
}
