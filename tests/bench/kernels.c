/* Rates of the kernels and their errors against f64: row kernels for each instruction set, then
 * the parallel parts of GPTQ relative to sgemm.
 *   build/release/bench_kernels [rows cols tokens]      default 1536 576 8192 */
#include "bench.h"
#include "math/bf16.h"
#include "math/dtype.h"
#include "math/kern_ref.h"
#include "math/products.h"
#include "math/row.h"
#include "quant/quant.h"

enum { N = 49152, ROWS = 64, RUNS = 5 };
static float *x, *z, *w, *y, *p;
static double *want;

struct kernel {
    const char *name;
    double flops;                    /* per element; transcendental functions count as one */
    void (*run)(float *to, int row); /* on row `row` of the inputs */
    void (*reference)(double *to);   /* of row 0; NULL: checked elsewhere */
};

static void run_exp(float *to, int row)
{
    kern_exp_sum(to, x + row * N, N, 0);
}
static void ref_exp(double *to)
{
    for (int i = 0; i < N; i++) to[i] = exp((double)x[i]);
}

static void run_silu_mul(float *to, int row)
{
    kern_silu_mul(to, x + row * N, z + row * N, N);
}
static void ref_silu_mul(double *to)
{
    for (int i = 0; i < N; i++) to[i] = ref_silu((double)x[i]) * (double)z[i];
}

static void run_gelu(float *to, int row)
{
    kern_gelu(to, x + row * N, N);
}
static void ref_gelu_row(double *to)
{
    for (int i = 0; i < N; i++) to[i] = ref_gelu((double)x[i]);
}

enum { WIDTH = 2048 };
static void run_norm(float *to, int row)
{
    const struct kern_norm f = {.n = WIDTH, .eps = 1e-5f, .w = w};
    kern_norm(&f, to, WIDTH, x + row * N, WIDTH, N / WIDTH);
}
static void ref_norm(double *to)
{
    for (int i = 0; i < N; i += WIDTH) ref_rms_norm(to + i, x + i, w, WIDTH, (double)1e-5f);
}

enum { HALF = 64, POSITIONS = 2 };
static double angle[POSITIONS * HALF];
static float cosine[POSITIONS * HALF], sine[POSITIONS * HALF];
static void run_rope(float *to, int row)
{
    memcpy(to, x + row * N, N * sizeof *to);
    row_rope(to, N / POSITIONS, N / POSITIONS / (2 * HALF), 2 * HALF, cosine, sine, POSITIONS, HALF,
             false);
}
static void ref_rope_row(double *to)
{
    for (int i = 0; i < N; i += 2 * HALF)
        ref_rope(to + i, x + i, angle + i / (N / POSITIONS) * HALF, HALF);
}

static void run_softmax(float *to, int row)
{
    float m = -INFINITY, l = 0;
    memcpy(to, x + row * N, N * sizeof *to);
    kern_softmax_step(to, N, 0, N, 1.0f, &m, &l);
    kern_scale(to, 1.0f / l, N);
}
static void ref_softmax_row(double *to)
{
    ref_softmax(to, x, N);
}

/* log sum e^x, the part of the cross-entropy that depends on a row's logits. */
static void run_loss(float *to, int row)
{
    int64_t first;
    float top = kern_max(x + row * N, N, &first);
    double sum = kern_exp_sum(p, x + row * N, N, top);
    to[0] = (float)((double)top + log(sum));
}
static void ref_loss(double *to)
{
    to[0] = ref_softmax(want + 1, x, N);
}

static void run_kl(float *to, int row)
{
    const float *a = x + row * N, *b = z + row * N;
    int64_t first;
    float ta = kern_max(a, N, &first), tb = kern_max(b, N, &first);
    double sa = kern_exp_sum(p, a, N, ta), sb = kern_exp_sum(to, b, N, tb);
    kern_scale(p, (float)(1 / sa), N);
    to[0] = (float)kern_kl(a, p, b, to, (float)(1 / sb), N,
                           (float)((double)tb + log(sb) - (double)ta - log(sa)));
}
static void ref_kl_row(double *to)
{
    to[0] = ref_kl(x, z, N);
}

static const struct kernel kernels[] = {
    {"exp", 1, run_exp, ref_exp},
    {"silu(gate) up", 4, run_silu_mul, ref_silu_mul},
    {"gelu", 4, run_gelu, ref_gelu_row},
    {"RMS norm", 4, run_norm, ref_norm},
    {"RoPE", 3, run_rope, ref_rope_row},
    {"softmax", 5, run_softmax, ref_softmax_row},
    {"cross-entropy", 4, run_loss, ref_loss},
    {"KL", 14, run_kl, ref_kl_row},
};

/* Maximum error over the values, relative to the largest value. */
static double worst_error(const struct kernel *k)
{
    bool scalar = k->run == run_loss || k->run == run_kl;
    double top = 0, worst = 0;
    k->run(y, 0);
    k->reference(want);
    for (int i = 0; i < (scalar ? 1 : N); i++) {
        double d = fabs((double)y[i] - want[i]);
        if (fabs(want[i]) > top) top = fabs(want[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst / top;
}

static void bench_rows(void)
{
    printf("\nrow kernels, one thread        ");
    for (int isa = ISA_AVX512; isa >= ISA_PLAIN; isa--)
        if (isa_runs((enum isa)isa)) printf(" %8s GF/s", isa_name((enum isa)isa));
    printf("  relative error against f64\n");
    enum isa before = isa_active();
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        printf("  %-29s", kernels[k].name);
        for (int isa = ISA_AVX512; isa >= ISA_PLAIN; isa--) {
            double seconds;
            if (!isa_runs((enum isa)isa)) continue;
            isa_use((enum isa)isa);
            BEST(seconds, RUNS, for (int r = 0; r < ROWS; r++) kernels[k].run(y, r));
            printf(" %13.1f", 1e-9 * kernels[k].flops * N * ROWS / seconds);
        }
        isa_use(before);
        printf("  %.1e\n", worst_error(&kernels[k]));
    }
}

static void bench_widen(void)
{
    enum { MANY = 1 << 25 };
    uint16_t *half = room(MANY, sizeof *half);
    float *to = room(MANY, sizeof *to);
    double seconds;
    BEST(seconds, RUNS, dtype_widen(to, half, DTYPE_BF16, MANY));
    printf("  %-29s %8.1f GB/s of bf16\n", "widening bf16", 2e-9 * MANY / seconds);
    free(half), free(to);
}

static void print_rate(const char *what, double flops, double seconds, double sgemm)
{
    printf("  %-29s %8.4f s %8.1f GF/s %6.2f of sgemm", what, seconds, 1e-9 * flops / seconds,
           flops / seconds / sgemm);
}

/* |(R Rᵀ - H) v| / |H v| for one v; r as chol_upper leaves it, h its upper triangle before. */
static double factor_residual(const double *h, const double *r, int64_t n)
{
    double *t = room(n, sizeof *t), miss = 0, size = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i <= j; i++) t[j] += r[i * n + j] * cos((double)i);
    for (int64_t i = 0; i < n; i++) {
        double a = 0, b = 0;
        for (int64_t j = 0; j < n; j++) {
            if (j >= i) a += r[i * n + j] * t[j];
            b += (j >= i ? h[i * n + j] : h[j * n + i]) * cos((double)j);
        }
        miss += (a - b) * (a - b);
        size += b * b;
    }
    free(t);
    return sqrt(miss / size);
}

/* Maximum error of some entries of the Gram matrix, relative to its diagonal. */
static double gram_residual(const double *h, const float *in, int64_t n, int64_t T)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i += n / 5 + 1)
        for (int64_t j = i; j < n; j += n / 5 + 1) {
            double sum = 0;
            for (int64_t t = 0; t < T; t++) sum += (double)in[t * n + i] * (double)in[t * n + j];
            double d = fabs(sum - h[i * n + j]) / sqrt(h[i * n + i] * h[j * n + j]);
            if (d > worst) worst = d;
        }
    return worst;
}

/* tr((W - Q) G (W - Q)ᵀ) / tr(W G Wᵀ) over the first rows, in f64. */
static double layer_error(const float *weights, const float *q, const double *g, int64_t rows,
                          int64_t n)
{
    double miss = 0, size = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            double a = 0, b = 0;
            for (int64_t j = 0; j < n; j++) {
                double gij = i <= j ? g[i * n + j] : g[j * n + i], wj = (double)weights[r * n + j];
                a += gij * (wj - (double)q[r * n + j]);
                b += gij * wj;
            }
            miss += a * (double)(weights[r * n + i] - q[r * n + i]);
            size += b * (double)weights[r * n + i];
        }
    return miss / size;
}

/* A forward product of each kind, in the tiles of model/stage.c, whose weights are exact in bf16.
 * Splitting the activations and preparing the weights are timed on their own. */
struct product_bench {
    const struct product_weights *w;
    enum products kind;
    int64_t T, rows, n;
    const uint16_t *terms;
    float *out;
};
enum { PRODUCT_TILE = 512 };

static void run_products(const struct product_bench *b)
{
    const int64_t pieces = (b->rows + PRODUCT_TILE - 1) / PRODUCT_TILE;
    const int64_t tiles = (b->T + PRODUCT_TILE - 1) / PRODUCT_TILE;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < tiles * pieces; i++) {
        const int64_t t = i / pieces * PRODUCT_TILE, r = i % pieces * PRODUCT_TILE;
        product_nt(b->kind, b->out + t * b->rows + r, b->rows, b->terms + t * b->n, b->T * b->n,
                   b->w, i % pieces, b->T - t < PRODUCT_TILE ? b->T - t : PRODUCT_TILE);
    }
}

static void split_rows(uint16_t *terms, int n_terms, const float *in, int64_t T, int64_t n)
{
#pragma omp parallel for
    for (int64_t t = 0; t < T; t++) bf16_split(terms + t * n, T * n, n_terms, in + t * n, n);
}

static void bench_products(int64_t rows, int64_t n, int64_t T)
{
    struct err e = {0};
    const double flops = 2.0 * (double)(rows * n * T), sgemm = sgemm_seconds(T, rows, n, RUNS);
    float *in = noise(T * n, 1), *weights = noise(rows * n, 0.05f), *out = room(T * rows, 4);
    uint16_t *terms = room(BF16_TERMS * T * n, sizeof *terms);
    bf16_split(terms, T * n, 1, weights, rows * n);
    dtype_widen(weights, terms, DTYPE_BF16, rows * n);
    printf("\nproducts, %lld tokens through (%lld, %lld), %s; sgemm: %.1f GF/s\n", (long long)T,
           (long long)rows, (long long)n, products_unit(PRODUCTS_BF16), 1e-9 * flops / sgemm);
    for (enum products kind = PRODUCTS_BF16X3; kind < PRODUCTS_AUTO; kind++) {
        struct product_weights *prepared = NULL;
        double split, prepare, seconds;
        BEST(split, RUNS, split_rows(terms, products_terms(kind), in, T, n));
        BEST(prepare, RUNS, product_weights_free(prepared);
             must(product_weights_make(kind, weights, rows, n, PRODUCT_TILE, &prepared, &e), &e));
        const struct product_bench b = {prepared, kind, T, rows, n, terms, out};
        BEST(seconds, RUNS, run_products(&b));
        print_rate(products_words[kind], flops, seconds, flops / sgemm);
        printf("; split %.2f, weights %.2f of its time\n", split / seconds, prepare / seconds);
        product_weights_free(prepared);
    }
    free(in), free(weights), free(out), free(terms);
}

static void bench_gptq(int64_t rows, int64_t n, int64_t T)
{
    struct err e = {0};
    const struct quant_method *m = quant_find("gptq");
    struct quant_options o;
    void *prepared = NULL;
    struct quant_report report;
    const int64_t offset[2] = {0, T};
    float *in = noise(T * n, 1), *weights = noise(rows * n, 0.05f), *q = room(rows * n, sizeof *q);
    double *g = room(n * n, sizeof *g), *r = room(n * n, sizeof *r), seconds;
    double sgemm = 2.0 * (double)(rows * n * T) / sgemm_seconds(T, rows, n, RUNS);
    printf("\nGPTQ of a (%lld, %lld) matrix, %lld tokens; sgemm of its forward: %.1f GF/s\n",
           (long long)rows, (long long)n, (long long)T, 1e-9 * sgemm);
    for (enum products kind = PRODUCTS_AUTO;
         kind-- > PRODUCTS_F32;) { /* f32 is what follows takes */
        BEST(seconds, RUNS, memset(g, 0, sizeof *g * (size_t)(n * n));
             must(gram_add(g, in, n, offset, 1, NULL, kind, &e), &e));
        print_rate("Gram sums", (double)(n * n * T), seconds, sgemm);
        printf(", %s, error %.1e\n", products_words[kind], gram_residual(g, in, n, T));
    }

    for (int64_t i = 0; i < n; i++) g[i * n + i] *= 1.01;
    BEST(seconds, RUNS, memcpy(r, g, sizeof *g * (size_t)(n * n)); must(chol_upper(r, n, &e), &e));
    print_rate("factor H = R Rᵀ (f64)", (double)(n * n * n) / 3, seconds, sgemm);
    printf(", residual %.1e\n", factor_residual(g, r, n));

    options_default(&quant_table, &o);
    const struct quant_input input = {
        .cols = n, .samples = 1, .tokens = T, .statistic[STATISTIC_GRAM] = g};
    struct quant_job job = {
        .bits = 4, .options = &o, .rows = rows, .cols = n, .w = weights, .q = q, .input = &input};
    BEST(seconds, RUNS, if (prepared) m->release(prepared);
         must(m->prepare(&input, &o, &prepared, &e), &e));
    print_rate("prepare, factor included", (double)(n * n * n) / 3, seconds, sgemm);
    printf("\n");
    job.prepared = prepared;
    BEST(seconds, RUNS, must(m->run(&job, &report, &e), &e));
    print_rate("sweep, W R included", 2.0 * (double)(rows * n * n), seconds, sgemm);
    printf(", relative error of the layer %.6f", report.relative_error);
    job.rows = rows < 8 ? rows : 8; /* the same in f64, for a few rows */
    must(m->run(&job, &report, &e), &e);
    double direct = layer_error(weights, q, g, job.rows, n);
    printf(", off by %.1e\n", fabs(report.relative_error / direct - 1));
    m->release(prepared);
    free(in), free(weights), free(q), free(g), free(r);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    linalg_setup();
    must(isa_setup(&e), &e);
    print_machine();
    x = noise((int64_t)ROWS * N, 8), w = noise(WIDTH, 1), y = room(N, sizeof *y);
    p = room(N, sizeof *p), want = room(N + 1, sizeof *want),
    z = noise((int64_t)ROWS * N + 1, 0.1f);
    for (int64_t i = 0; i < (int64_t)ROWS * N; i++) z[i] += x[i];
    for (int i = 0; i < POSITIONS * HALF; i++) {
        angle[i] = i * pow(10000, -(double)(i % HALF) / HALF);
        cosine[i] = (float)cos(angle[i]), sine[i] = (float)sin(angle[i]);
    }
    bench_rows();
    bench_widen();
    if (argc == 4) {
        bench_products(atoll(argv[1]), atoll(argv[2]), atoll(argv[3]));
        bench_gptq(atoll(argv[1]), atoll(argv[2]), atoll(argv[3]));
    } else {
        bench_products(1536, 576, 8192);
        bench_products(8192, 2048, 2048);
        bench_gptq(1536, 576, 8192);
        bench_gptq(2048, 2048, 8192);
    }
    free(x), free(z), free(w), free(y), free(p), free(want);
    return 0;
}
