#include "activation/int8_linear.h"
#include "activation/activation.h"
#include "coding/tile.h"
#include "math/dtype.h"
#include "math/linalg.h"
#include "math/products.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <omp.h>

/* So many products of two codes sum up exactly in f32, in any order. */
enum { CHUNK = 1024 };
_Static_assert(CHUNK *INT8_MOST *INT8_MOST < 1 << 24, "sums of codes are not exact");

/* The code 0 in bytes that are not negative. */
enum { ZERO = 128 };

struct int8_linear {
    int64_t rows, cols, longest;
    struct int8_format format;
    int8_t *codes;    // (rows, cols); NULL: only packed ones are needed
    float *scale;     // (rows)
    float *divisor;   // (cols); NULL: 1
    float *inputs;    // (longest, cols) codes of the inputs
    float *in_scale;  // (longest)
    bool *is_outlier; // (cols)
    int64_t *outlier; // (cols) the outlier channels, rising
    float *raw;       // (longest, outliers) inputs of the outlier channels; NULL: there are none
    float *scratch;   // (threads, scratch_floats)
    int threads;
    /* Where the CPU multiplies integers, in place of inputs: the same sums. */
    struct integer_inputs in;       // codes with ZERO and a scale of 1
    struct product_weights *packed; // the codes, in tiles
};

static bool as_integers(int64_t cols)
{
    return integers_run() && integers_fit(8, cols);
}

/* Floats of a thread: weights of a chunk and, but for integers, its products and sums in f64; or a
 * row. */
static int64_t scratch_floats(int64_t cols, int64_t longest)
{
    return max64(TILE_ROWS * (CHUNK + (as_integers(cols) ? 0 : 3 * longest)), cols);
}

int64_t int8_linear_bytes(const struct int8_extent *x, bool outliers)
{
    const int64_t f = sizeof(float), linears = (x->all_rows + x->rows - 1) / x->rows;
    const bool integers = as_integers(x->cols);
    const int64_t token = integers ? x->cols + 3 * f : (x->cols + 1) * f;
    const int64_t inputs = x->longest * (token + (outliers ? x->cols * f : 0));
    const int64_t channels = x->cols * (f + (int64_t)sizeof(int64_t) + 1);
    const int64_t scratch = x->threads * scratch_floats(x->cols, x->longest) * f;
    const int64_t row = x->cols * (integers && outliers ? 2 : 1) + (integers ? 5 : 1) * f;
    const int64_t code = outliers ? 0 : 1; /* freed when it is packed */
    const int64_t packing =
        integers ? x->rows * (x->cols * (f + code) + 2 * (int64_t)sizeof(double)) : 0;
    return x->all_rows * row + linears * (inputs + channels + scratch) + packing;
}

/* Row i of the weights; t: cols floats. */
static void round_row(struct int8_linear *l, const float *w, int64_t i, float *t)
{
    const int64_t n = l->cols;
    for (int64_t j = 0; j < n; j++) {
        t[j] = w[i * n + j] * (l->divisor ? l->divisor[j] : 1);
        if (l->format.half) t[j] = dtype_round_f16(t[j]);
    }
    l->scale[i] = l->format.round(t, n, row_largest(t, n));
    for (int64_t j = 0; j < n; j++) l->codes[i * n + j] = (int8_t)t[j]; /* an integer */
}

/* The codes for products of integers. */
static enum status pack(struct int8_linear *l, struct err *e)
{
    const char *what = "an 8-bit linear";
    AUTO_FREE float *w = NULL;
    AUTO_FREE double *grid = NULL;
    PASS(mem_alloc(&w, l->rows * l->cols, sizeof *w, what, e));
    PASS(mem_alloc(&grid, 2 * l->rows, sizeof *grid, what, e));
    for (int64_t i = 0; i < 2 * l->rows; i++) grid[i] = i % 2 ? ZERO : 1;
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t i = 0; i < l->rows * l->cols; i++) w[i] = l->codes[i];
    const struct integer_grids g = {.bits = 8, .group = l->cols, .grid = grid};
    PASS(product_weights_integers(&g, l->rows, l->cols, TILE_ROWS, &l->packed, e));
    PASS(product_weights_fill_own(l->packed, w, 1, e));
    PASS(mem_alloc(&l->in.codes, l->longest * l->cols, 1, what, e));
    PASS(mem_alloc(&l->in.scale, l->longest, sizeof *l->in.scale, what, e));
    PASS(mem_alloc(&l->in.zero, l->longest, sizeof *l->in.zero, what, e));
    for (int64_t t = 0; t < l->longest; t++) l->in.scale[t] = 1, l->in.zero[t] = ZERO;
    if (l->raw) return OK; /* outlier channels are multiplied with codes */
    free(l->codes);
    l->codes = NULL;
    return OK;
}

static enum status allocate(struct int8_linear *l, bool divides, struct err *e)
{
    const char *what = "an 8-bit linear";
    const int64_t cols = l->cols, scratch = scratch_floats(cols, l->longest);
    PASS(mem_alloc(&l->codes, l->rows * cols, sizeof *l->codes, what, e));
    PASS(mem_alloc(&l->scale, l->rows, sizeof *l->scale, what, e));
    if (divides) PASS(mem_alloc(&l->divisor, cols, sizeof *l->divisor, what, e));
    PASS(mem_alloc(&l->in_scale, l->longest, sizeof *l->in_scale, what, e));
    PASS(mem_zero(&l->is_outlier, cols, sizeof *l->is_outlier, what, e));
    PASS(mem_alloc(&l->outlier, cols, sizeof *l->outlier, what, e));
    if (isfinite(l->format.threshold))
        PASS(mem_alloc(&l->raw, l->longest * cols, sizeof *l->raw, what, e));
    PASS(mem_alloc(&l->scratch, l->threads * scratch, sizeof *l->scratch, what, e));
    return as_integers(cols) ? OK
                             : mem_alloc(&l->inputs, l->longest * cols, sizeof *l->inputs, what, e);
}

enum status int8_linear_make(const float *w, int64_t rows, int64_t cols,
                             const struct int8_format *format, const float *divisor,
                             int64_t longest, void **out, struct err *e)
{
    enum status st = OK;
    struct int8_linear *l = NULL;
    TRY(mem_zero(&l, 1, sizeof *l, "an 8-bit linear", e));
    *l = (struct int8_linear){.rows = rows,
                              .cols = cols,
                              .longest = longest,
                              .format = *format,
                              .threads = omp_get_max_threads()};
    TRY(allocate(l, divisor != NULL, e));
    for (int64_t j = 0; divisor && j < cols; j++) l->divisor[j] = divisor[j];
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t i = 0; i < rows; i++)
        round_row(l, w, i, l->scratch + omp_get_thread_num() * scratch_floats(cols, longest));
    if (as_integers(cols)) TRY(pack(l, e));
    *out = l;
done:
    if (st != OK) int8_linear_free(l);
    return st;
}

void int8_linear_free(void *linear)
{
    struct int8_linear *l = linear;
    if (!l) return;
    free(l->codes);
    free(l->scale);
    free(l->divisor);
    free(l->inputs);
    free(l->in_scale);
    free(l->is_outlier);
    free(l->outlier);
    free(l->raw);
    free(l->scratch);
    free(l->in.codes);
    free(l->in.scale);
    free(l->in.zero);
    product_weights_free(l->packed);
    free(l);
}

/* --- inputs --- */

static bool exceeds(const struct int8_format *f, float x)
{
    return fabsf(f->half ? dtype_round_f16(x) : x) >= f->threshold;
}

/* Finds the outlier channels of a sequence; returns their number. */
static int64_t find_outliers(const struct int8_linear *l, const float *x, int64_t tokens)
{
    int64_t n = 0;
    if (!l->raw) return 0;
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t j = 0; j < l->cols; j++) {
        l->is_outlier[j] = false;
        for (int64_t t = 0; t < tokens && !l->is_outlier[j]; t++)
            l->is_outlier[j] = exceeds(&l->format, x[t * l->cols + j]);
    }
    for (int64_t j = 0; j < l->cols; j++)
        if (l->is_outlier[j]) l->outlier[n++] = j;
    return n;
}

/* row (cols) = what becomes codes of token t; the largest magnitude. */
static float load_token(const struct int8_linear *l, const float *x, int64_t t, float *row)
{
    x += t * l->cols;
    for (int64_t j = 0; j < l->cols; j++) {
        row[j] = l->divisor ? x[j] / l->divisor[j] : x[j];
        if (l->is_outlier[j] && exceeds(&l->format, x[j])) row[j] = 0;
        if (l->format.half) row[j] = dtype_round_f16(row[j]);
    }
    return row_largest(row, l->cols);
}

/* Token t; false: of a number that is not finite, or not in f16. Its scale is that of what is below
 * the threshold, or that of `most` if it is not negative; codes of outlier channels are 0. */
static bool round_token(const struct int8_linear *l, const float *x, int64_t t, int64_t outliers,
                        float most, float *scratch)
{
    const int64_t n = l->cols;
    float *codes = l->packed ? scratch : l->inputs + t * n;
    const float own = load_token(l, x, t, codes);
    l->in_scale[t] = l->format.round(codes, n, most < 0 ? own : most);
    for (int64_t k = 0; k < outliers; k++) {
        l->raw[t * outliers + k] = x[t * n + l->outlier[k]];
        codes[l->outlier[k]] = 0;
    }
    const bool finite = activation_finite(codes, n) && activation_finite(x + t * n, n);
    if (!l->packed) return finite;
    if (!finite) {
        l->in_scale[t] = NAN; /* bytes have none */
        for (int64_t j = 0; j < n; j++) codes[j] = 0;
    }
    for (int64_t j = 0; j < n; j++) l->in.codes[t * n + j] = (uint8_t)((int32_t)codes[j] + ZERO);
    return finite;
}

static bool round_inputs(const struct int8_linear *l, const float *x, int64_t tokens,
                         int64_t outliers)
{
    const int64_t floats = scratch_floats(l->cols, l->longest);
    float most = l->format.tensor ? 0 : -1;
    bool finite = true;
#pragma omp parallel num_threads(l->threads)
    {
        float *own = l->scratch + omp_get_thread_num() * floats;
#pragma omp for schedule(static) reduction(max : most)
        for (int64_t t = 0; t < (l->format.tensor ? tokens : 0); t++)
            most = fmaxf(most, load_token(l, x, t, own));
#pragma omp for schedule(static) reduction(&& : finite)
        for (int64_t t = 0; t < tokens; t++)
            finite = round_token(l, x, t, outliers, most, own) && finite;
    }
    return finite;
}

/* --- products --- */

/* The outputs of `tokens` tokens and the weight rows [row, row + n). */
struct part {
    int64_t tokens, row, n;
    float *w;    // (n, CHUNK) weights
    float *y;    // (tokens, TILE_ROWS) products of a chunk
    double *sum; // (tokens, TILE_ROWS)
};

static struct part part_make(const struct int8_linear *l, int64_t tokens, int64_t row)
{
    float *w = l->scratch + omp_get_thread_num() * scratch_floats(l->cols, l->longest);
    float *sums = w + TILE_ROWS * CHUNK;
    struct part p = {.tokens = tokens, .row = row, .n = min64(TILE_ROWS, l->rows - row), .w = w};
    p.sum = (double *)(void *)sums;
    p.y = sums + 2 * l->longest * TILE_ROWS;
    return p;
}

/* Adds the product with so many channels of x (row pitch ld) to the sums. */
static void part_add(const struct part *p, const float *x, int64_t ld, int64_t channels)
{
    mat_gemm(MAT_NT, p->y, TILE_ROWS, x, ld, p->w, CHUNK, p->tokens, p->n, channels, 0);
    for (int64_t i = 0; i < p->tokens * TILE_ROWS; i++)
        if (i % TILE_ROWS < p->n) p->sum[i] += (double)p->y[i];
}

static void part_codes(const struct int8_linear *l, const struct part *p)
{
    for (int64_t i = 0; i < p->tokens * TILE_ROWS; i++) p->sum[i] = 0;
    for (int64_t a = 0; a < l->cols; a += CHUNK) {
        const int64_t channels = min64(CHUNK, l->cols - a);
        for (int64_t i = 0; i < p->n; i++)
            for (int64_t j = 0; j < channels; j++)
                p->w[i * CHUNK + j] = l->codes[(p->row + i) * l->cols + a + j];
        part_add(p, l->inputs + a, l->cols, channels);
    }
}

/* y (tokens, n) with row pitch ld = the sums of codes. */
static void part_sums(const struct int8_linear *l, const struct part *p, float *y, int64_t ld)
{
    if (l->packed) {
        product_integers(y, ld, &l->in, l->packed, p->row / TILE_ROWS, p->tokens);
        return;
    }
    part_codes(l, p);
    for (int64_t t = 0; t < p->tokens; t++)
        for (int64_t i = 0; i < p->n; i++) y[t * ld + i] = (float)p->sum[t * TILE_ROWS + i];
}

/* The sums <- what they are worth. */
static void part_scale(const struct int8_linear *l, const struct part *p, float *y, int64_t ld)
{
    for (int64_t t = 0; t < p->tokens; t++)
        for (int64_t i = 0; i < p->n; i++) {
            const float scale = l->in_scale[t] * l->scale[p->row + i];
            y[t * ld + i] = y[t * ld + i] * scale * l->format.unit;
        }
}

/* Adds the products of the outlier channels, with dequantized weights. */
static void part_outliers(const struct int8_linear *l, const struct part *p, int64_t outliers,
                          float *y, int64_t ld)
{
    for (int64_t a = 0; a < outliers; a += CHUNK) {
        const int64_t channels = min64(CHUNK, outliers - a);
        for (int64_t i = 0; i < p->n; i++)
            for (int64_t j = 0; j < channels; j++)
                p->w[i * CHUNK + j] = l->codes[(p->row + i) * l->cols + l->outlier[a + j]] *
                                      l->scale[p->row + i] / INT8_MOST;
        mat_gemm(MAT_NT, y, ld, l->raw + a, outliers, p->w, CHUNK, p->tokens, p->n, channels, 1);
    }
}

bool int8_linear_apply(const void *linear, const float *x, int64_t tokens, float *y, int64_t ld)
{
    const struct int8_linear *l = linear;
    const int64_t outliers = find_outliers(l, x, tokens);
    const bool finite = round_inputs(l, x, tokens, outliers);
#pragma omp parallel for schedule(dynamic) num_threads(l->threads)
    for (int64_t row = 0; row < l->rows; row += TILE_ROWS) {
        const struct part p = part_make(l, tokens, row);
        part_sums(l, &p, y + row, ld);
        part_scale(l, &p, y + row, ld);
        part_outliers(l, &p, outliers, y + row, ld);
    }
    return finite;
}
