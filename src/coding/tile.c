#include "coding/tile.h"
#include "util/num.h"
#include <math.h>
#include <string.h>

/* Columns per strip: a cache line of w is read once, whatever the row pitch. */
enum { STRIP = 16 };

static void strip_load(float *t, int64_t ldt, const float *w, int64_t rows, int64_t cols,
                       const int64_t *column, int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++)
            t[j * ldt + r] = column[j] < 0 ? 0.0f : w[r * cols + column[j]];
    for (int64_t j = 0; j < n; j++)
        memset(t + j * ldt + rows, 0, (size_t)(TILE_ROWS - rows) * sizeof *t);
}

void tile_load(float *t, int64_t ldt, const float *w, int64_t rows, int64_t cols, int64_t row,
               int64_t first, int64_t n, const struct tile_columns *c)
{
    int64_t column[STRIP];
    for (int64_t j = 0; j < n; j += STRIP) {
        int64_t strip = min64(n - j, STRIP);
        for (int64_t k = 0; k < strip; k++) {
            int64_t at = c && c->order ? c->order[first + j + k] : first + j + k;
            column[k] = c && c->dead && c->dead[at] ? -1 : at;
        }
        strip_load(t + j * ldt, ldt, w + row * cols, min64(rows - row, TILE_ROWS), cols, column,
                   strip);
    }
}

void tile_store(float *w, int64_t rows, int64_t cols, int64_t row, int64_t first, int64_t n,
                const int64_t *order, const float *t)
{
    int64_t here = min64(rows - row, TILE_ROWS);
    for (int64_t r = 0; r < here; r++) {
        float *to = w + (row + r) * cols;
        for (int64_t j = 0; j < n; j++)
            to[order ? order[first + j] : first + j] = t[j * TILE_ROWS + r];
    }
}

float row_largest(const float *w, int64_t n)
{
    float most = 0;
    for (int64_t j = 0; j < n; j++) most = fmaxf(most, fabsf(w[j]));
    return most;
}

double row_squares(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += (double)x[j] * (double)x[j];
    return sum;
}

double row_distance(const float *w, const float *q, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        double d = (double)w[j] - (double)q[j];
        sum += d * d;
    }
    return sum;
}
