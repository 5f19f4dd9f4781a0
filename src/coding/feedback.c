#include "coding/feedback.h"
#include "math/kernel.h"
#include "math/linalg.h"
#include "util/mem.h"

enum { BLOCK_MOST = 16 };

int64_t feedback_floats(int64_t cols, int64_t block)
{
    return cols * (cols - block) / 2;
}

int64_t feedback_corner_floats(int64_t cols, int64_t block)
{
    return cols * block;
}

enum status feedback_room(struct feedback *f, int64_t cols, int64_t block, struct err *e)
{
    const char *what = "the Hessian's factor";
    *f = (struct feedback){.cols = cols, .block = block};
    PASS(mem_zero(&f->factor, feedback_floats(cols, block), sizeof *f->factor, what, e));
    return mem_zero(&f->corner, feedback_corner_floats(cols, block), sizeof *f->corner, what, e);
}

void feedback_free(struct feedback *f)
{
    free(f->factor);
    free(f->corner);
}

void feedback_plain(struct feedback *f)
{
    memset(f->factor, 0, (size_t)feedback_floats(f->cols, f->block) * sizeof *f->factor);
    memset(f->corner, 0, (size_t)(f->cols * f->block) * sizeof *f->corner);
    for (int64_t j = 0; j < f->cols; j++) f->corner[j * f->block + j % f->block] = 1;
}

/* Swaps blocks of columns and rows: the last first. Only the upper triangle of the input counts. */
static void blocks_reverse(double *h, int64_t n, int64_t b)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) h[j * n + i] = h[i * n + j];
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (n / b - 1 - i / b) * b + i % b;
        if (k <= i) continue;
        for (int64_t j = 0; j < n; j++) {
            const double other = h[k * n + j];
            h[k * n + j] = h[i * n + j];
            h[i * n + j] = other;
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t k = (n / b - 1 - j / b) * b + j % b;
            if (k <= j) continue;
            const double other = h[i * n + k];
            h[i * n + k] = h[i * n + j];
            h[i * n + j] = other;
        }
}

/* In reversed order H = R Rᵀ, R upper triangular, and L is R over R's diagonal blocks. */
enum status feedback_make(struct feedback *f, double *h, struct err *e)
{
    const int64_t n = f->cols, b = f->block;
    double inverse[BLOCK_MOST * BLOCK_MOST];
    float *to = f->factor;
    blocks_reverse(h, n, b);
    PASS(chol_upper(h, n, e));
    for (int64_t a = 0; a < n; a += b) {
        float *corner = f->corner + a * b;
        PASS(triangular_inverse(inverse, h, n, a, b, e));
        for (int64_t i = 0; i < b; i++)
            for (int64_t j = 0; j < b; j++) corner[i * b + j] = (float)h[(a + i) * n + a + j];
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++) {
                double sum = 0;
                for (int64_t k = 0; k <= j; k++) sum += h[i * n + a + k] * inverse[k * b + j];
                *to++ = (float)sum;
            }
    }
    return OK;
}

/* --- bands --- */

/* x (BAND_ROWS, block) += rowsᵀ (n, BAND_ROWS) times l (n, block). */
KERNEL_STATIC(void, products_add,
              (float *x, const float *rows, const float *l, int64_t n, int64_t block),
              (x, rows, l, n, block))
{
    for (int64_t k = 0; k < n; k++)
        for (int i = 0; i < BAND_ROWS; i++) {
            const float by = rows[k * BAND_ROWS + i];
            for (int64_t j = 0; j < block; j++) x[i * block + j] += by * l[k * block + j];
        }
}

/* The sum of squares of x (BAND_ROWS, block) times the upper triangle c. */
static double squares_of(const float *x, const float *c, int64_t block)
{
    double sum = 0;
    for (int i = 0; i < BAND_ROWS; i++)
        for (int64_t j = 0; j < block; j++) {
            double product = 0;
            for (int64_t k = 0; k <= j; k++)
                product += (double)x[i * block + k] * (double)c[k * block + j];
            sum += product * product;
        }
    return sum;
}

void feedback_band(const struct feedback *f, const float *w, uint8_t *codes, int64_t size,
                   feedback_code *code, void *context, float *scratch, struct feedback_sums *sums)
{
    const int64_t n = f->cols, b = f->block;
    const float *l = f->factor;
    float *errors = scratch, *weights = scratch + BAND_ROWS * n; // (n, BAND_ROWS) reversed blocks
    float x[BAND_ROWS * BLOCK_MOST], y[BAND_ROWS * BLOCK_MOST], aim[BAND_ROWS * BLOCK_MOST];
    float coded[BAND_ROWS * BLOCK_MOST];
    *sums = (struct feedback_sums){0};
    for (int64_t a = 0; a < n; l += a * b, a += b) {
        const int64_t at = n / b - 1 - a / b;
        for (int64_t i = 0; i < BAND_ROWS * b; i++) {
            x[i] = y[i] = w[i / b * n + at * b + i % b];
            aim[i] = 0;
            weights[(a + i % b) * BAND_ROWS + i / b] = x[i];
        }
        products_add(aim, errors, l, a, b);
        products_add(y, weights, l, a, b);
        for (int64_t i = 0; i < BAND_ROWS * b; i++) aim[i] += x[i];
        code(context, f->open ? x : aim, codes + at * size, coded);
        for (int64_t i = 0; i < BAND_ROWS * b; i++) {
            const float error = x[i] - coded[i];
            errors[(a + i % b) * BAND_ROWS + i / b] = error;
            sums->loss_plain += (double)error * (double)error;
            sums->weight_plain += (double)x[i] * (double)x[i];
            aim[i] -= coded[i];
        }
        sums->loss += squares_of(aim, f->corner + a * b, b);
        sums->weight += squares_of(y, f->corner + a * b, b);
    }
}
