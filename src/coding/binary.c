#include "coding/binary.h"
#include "coding/tile.h"
#include "math/dtype.h"
#include "math/kernel.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status binary_open(struct binary_block *b, int64_t rows, int64_t widest, struct err *e)
{
    b->rows = rows;
    PASS(mem_alloc(&b->scores, 2 * rows * widest, sizeof *b->scores, "scores", e));
    b->sorted = b->scores + rows * widest;
    return mem_alloc(&b->order, widest, sizeof *b->order, "the order of columns", e);
}

void binary_close(struct binary_block *b)
{
    free(b->scores);
    free(b->order);
}

int64_t binary_bytes(int64_t rows, int64_t widest)
{
    return 2 * rows * widest * (int64_t)sizeof(double);
}

double binary_bits(int64_t rows, int64_t cols, int64_t widest, bool f16)
{
    const int64_t blocks = (cols + widest - 1) / widest;
    return 2 + 1 / (double)rows +
           (double)(blocks * BINARY_NUMBERS * (f16 ? 16 : 32)) / (double)cols;
}

int64_t binary_counts(int64_t n)
{
    return min64(BINARY_SALIENT_MOST, n) - 1;
}

static int64_t rows_of(const struct binary_block *b, int64_t tile)
{
    return min64(TILE_ROWS, b->rows - tile * TILE_ROWS);
}

void binary_score(const struct binary_block *b, int64_t tile, double *scratch, double *out)
{
    (void)scratch;
    for (int64_t i = tile * TILE_ROWS; i < tile * TILE_ROWS + rows_of(b, tile); i++)
        for (int64_t j = 0; j < b->n; j++) {
            const double root = (double)b->w[i * b->pitch + j] / b->d[j * b->dn];
            b->scores[i * b->n + j] = root * root;
            out[j] -= root * root;
        }
}

/* --- the search --- */

/* x (n - from, TILE_ROWS) = scores of the columns from there on in the order; 0 behind the last
 * row. */
static void load(const struct binary_block *b, int64_t tile, int64_t from, double *x)
{
    const double *scores = b->scores + tile * TILE_ROWS * b->n;
    memset(x, 0, (size_t)((b->n - from) * TILE_ROWS) * sizeof *x);
    for (int64_t i = 0; i < rows_of(b, tile); i++)
        for (int64_t k = from; k < b->n; k++)
            x[(k - from) * TILE_ROWS + i] = scores[i * b->n + b->order[k]];
}

/* Two terms for all n columns. n (mean² + scale²) is what a term takes from a row's squares. */
KERNEL_STATIC(double, gain_twice, (const double *x, int64_t n), (x, n))
{
    double mean[TILE_ROWS] = {0}, scale[TILE_ROWS] = {0}, second[TILE_ROWS] = {0};
    double left[TILE_ROWS] = {0}, gain = 0;
    for (int64_t j = 0; j < n; j++) EACH_ROW mean[r] += x[j * TILE_ROWS + r];
    EACH_ROW mean[r] /= (double)n;
    for (int64_t j = 0; j < n; j++) EACH_ROW
        {
            const double d = x[j * TILE_ROWS + r] - mean[r];
            scale[r] += fabs(d);
            second[r] += d < 0 ? 1 : -1;
        }
    EACH_ROW
    {
        scale[r] /= (double)n;
        second[r] *= scale[r] / (double)n; /* the mean of what is left */
    }
    for (int64_t j = 0; j < n; j++) EACH_ROW
        {
            const double d = x[j * TILE_ROWS + r] - mean[r];
            left[r] += fabs(d - (d < 0 ? -scale[r] : scale[r]) - second[r]);
        }
    EACH_ROW
    {
        left[r] /= (double)n;
        gain += mean[r] * mean[r] + scale[r] * scale[r] + second[r] * second[r] + left[r] * left[r];
    }
    return (double)n * gain;
}

void binary_count(const struct binary_block *b, int64_t tile, double *scratch, double *out)
{
    load(b, tile, 0, scratch);
    for (int64_t k = 1; k <= binary_counts(b->n); k++)
        out[k - 1] += gain_twice(scratch, k) + gain_twice(scratch + k * TILE_ROWS, b->n - k);
}

/* One term for scores from the point on, one for the others. */
KERNEL_STATIC(double, gain_split, (const double *x, int64_t n, double point), (x, n, point))
{
    double count[TILE_ROWS] = {0}, small[TILE_ROWS] = {0}, large[TILE_ROWS] = {0};
    double below[TILE_ROWS] = {0}, above[TILE_ROWS] = {0}, gain = 0;
    for (int64_t j = 0; j < n; j++) EACH_ROW
        {
            const double y = x[j * TILE_ROWS + r];
            count[r] += y >= point ? 1 : 0;
            large[r] += y >= point ? y : 0;
            small[r] += y >= point ? 0 : y;
        }
    EACH_ROW
    {
        large[r] /= count[r] > 0 ? count[r] : 1;
        small[r] /= count[r] < (double)n ? (double)n - count[r] : 1;
    }
    for (int64_t j = 0; j < n; j++) EACH_ROW
        {
            const double y = x[j * TILE_ROWS + r], d = fabs(y - (y >= point ? large[r] : small[r]));
            above[r] += y >= point ? d : 0;
            below[r] += y >= point ? 0 : d;
        }
    EACH_ROW
    {
        const double rest = (double)n - count[r];
        gain += count[r] * large[r] * large[r] + rest * small[r] * small[r] +
                above[r] * above[r] / (count[r] > 0 ? count[r] : 1) +
                below[r] * below[r] / (rest > 0 ? rest : 1);
    }
    return gain;
}

void binary_split(const struct binary_block *b, int64_t tile, double *scratch, double *out)
{
    load(b, tile, b->salient, scratch);
    for (int64_t i = 0; i < BINARY_POINTS; i++)
        out[i] += gain_split(scratch, b->n - b->salient, b->points[i]);
}

static int64_t greatest(const double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void binary_choose_salient(struct binary_block *b, const double *sums)
{
    const int64_t counts = binary_counts(b->n), all = b->rows * b->n;
    double *x = b->sorted;
    b->salient = counts > 0 ? greatest(sums, counts) + 1 : 0;
    memcpy(x, b->scores, (size_t)all * sizeof *x);
    for (int64_t k = 0; k < b->salient; k++)
        for (int64_t i = 0; i < b->rows; i++) x[i * b->n + b->order[k]] = 0;
    qsort(x, (size_t)all, sizeof *x, by_size);
    for (int64_t i = 0; i < BINARY_POINTS; i++) {
        const int64_t hundredths = (all - 1) * (10 + i), low = hundredths / 100;
        const double after = x[min64(low + 1, all - 1)];
        b->points[i] = x[low] + (after - x[low]) * (double)(hundredths % 100) / 100;
    }
}

void binary_choose_point(struct binary_block *b, const double *sums)
{
    b->point = b->points[greatest(sums, BINARY_POINTS)];
}

/* --- a row --- */

/* A term of a part of a row, summed and then divided by the part's weights. */
struct term {
    double n, mean, scale;
};

static void divide(double *sum, double n)
{
    *sum /= n > 0 ? n : 1;
}

static double like(double d, double scale)
{
    return d < 0 ? -scale : scale;
}

static double after_first(const struct term *t, double x)
{
    return x - t->mean - like(x - t->mean, t->scale);
}

/* The part of the k-th column: 0 small, 1 large, 2 salient. */
static int part_of(const struct binary_block *b, const double *score, int64_t k)
{
    return k < b->salient ? 2 : score[b->order[k]] >= b->point;
}

static double stored(const struct binary_block *b, double x)
{
    return (double)(b->f16 ? dtype_round_f16((float)x) : (float)x);
}

static void row_code(const struct binary_block *b, const double *score, const float *w, float *q)
{
    struct term term[3] = {{0}}, second = {0};
    for (int64_t k = 0; k < b->n; k++) {
        struct term *t = &term[part_of(b, score, k)];
        t->mean += (double)w[b->order[k]];
        t->n++;
    }
    for (int i = 0; i < 3; i++) divide(&term[i].mean, term[i].n);
    for (int64_t k = 0; k < b->n; k++) {
        struct term *t = &term[part_of(b, score, k)];
        t->scale += fabs((double)w[b->order[k]] - t->mean);
    }
    for (int i = 0; i < 3; i++) divide(&term[i].scale, term[i].n);
    for (int64_t k = 0; k < b->salient; k++)
        second.mean += after_first(&term[2], (double)w[b->order[k]]);
    divide(&second.mean, term[2].n);
    for (int64_t k = 0; k < b->salient; k++)
        second.scale += fabs(after_first(&term[2], (double)w[b->order[k]]) - second.mean);
    divide(&second.scale, term[2].n);
    for (int64_t k = 0; k < b->n; k++) {
        const int part = part_of(b, score, k);
        const struct term *t = &term[part];
        const double x = (double)w[b->order[k]], mean = part == 2 ? second.mean : 0;
        double y = stored(b, t->mean + mean) + like(x - t->mean, stored(b, t->scale));
        if (part == 2) y += like(after_first(t, x) - mean, stored(b, second.scale));
        q[b->order[k]] = (float)y;
    }
}

void binary_code(const struct binary_block *b, int64_t tile, double *scratch, double *out)
{
    float *error = (float *)scratch;
    memset(error, 0, (size_t)(TILE_ROWS * b->n) * sizeof *error);
    for (int64_t i = 0; i < rows_of(b, tile); i++) {
        const int64_t row = tile * TILE_ROWS + i;
        const float *w = b->w + row * b->pitch;
        float *q = b->q + row * b->pitch;
        row_code(b, b->scores + row * b->n, w, q);
        for (int64_t j = 0; j < b->n; j++) {
            const double x = ((double)q[j] - (double)w[j]) / b->d[j * b->dn];
            error[i * b->n + j] = (float)x;
            *out += x * x;
        }
    }
}
