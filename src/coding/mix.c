#include "coding/mix.h"
#include "math/hadamard.h"
#include "util/mem.h"
#include "util/rng.h"
#include <math.h>
#include <omp.h>

struct mix mix_shape(int64_t n)
{
    struct mix m = {.n = n, .part = n, .factor = hadamard_factor(n)};
    if (m.factor > 0) return m;
    m.factor = 1;
    for (m.part = 1; n % (2 * m.part) == 0;) m.part *= 2;
    return m;
}

enum status mix_make(struct mix *m, int64_t n, int signs, uint64_t seed, uint64_t stream,
                     struct err *e)
{
    const char *what = "a random Hadamard matrix";
    AUTO_FREE float *sign = NULL;
    *m = mix_shape(n);
    m->signs = signs;
    PASS(mem_alloc(&m->hadamard, m->factor * m->factor, sizeof *m->hadamard, what, e));
    PASS(mem_alloc(&m->sign, n, sizeof *m->sign, what, e));
    PASS(mem_alloc(&sign, n, sizeof *sign, what, e));
    hadamard_make(m->hadamard, m->factor);
    rng_signs(rng_stream(seed, stream), 0, n, sign);
    for (int64_t j = 0; j < n; j++)
        m->sign[j] = (signs == MIX_NO_SIGNS ? 1 : (double)sign[j]) / sqrt((double)m->part);
    return OK;
}

/* a -= the part of it that is along the unit vector b; with b = a: a gets length 1. */
static void remove_part(double *a, const double *b, int64_t n)
{
    double dot = 0;
    for (int64_t k = 0; k < n; k++) dot += a[k] * b[k];
    for (int64_t k = 0; k < n; k++) a[k] = a == b ? a[k] / sqrt(dot) : a[k] - dot * b[k];
}

enum status mix_make_dense(struct mix *m, int64_t n, uint64_t seed, uint64_t stream, struct err *e)
{
    AUTO_FREE float *normal = NULL;
    *m = (struct mix){.n = n, .part = n};
    PASS(mem_alloc(&m->dense, n * n, sizeof *m->dense, "a random orthogonal matrix", e));
    PASS(mem_alloc(&normal, n, sizeof *normal, "a random orthogonal matrix", e));
    for (int64_t i = 0; i < n; i++) {
        rng_normals(rng_stream(seed, stream), i * n, n, normal);
        for (int64_t k = 0; k < n; k++) m->dense[i * n + k] = (double)normal[k];
    }
    for (int64_t i = 0; i < n; i++) {
        const double *row = m->dense + i * n;
        remove_part(m->dense + i * n, row, n);
#pragma omp parallel for schedule(static)
        for (int64_t j = i + 1; j < n; j++) remove_part(m->dense + j * n, row, n);
    }
    return OK;
}

enum status mix_to_dense(struct mix *m, struct err *e)
{
    const int64_t n = m->n;
    AUTO_FREE double *dense = NULL, *scratch = NULL;
    if (m->dense) return OK;
    PASS(mem_zero(&dense, n * n, sizeof *dense, "an orthogonal matrix", e));
    PASS(mem_alloc(&scratch, n, sizeof *scratch, "an orthogonal matrix", e));
    for (int64_t i = 0; i < n; i++) {
        dense[i * n + i] = 1;
        mix_row(m, dense + i * n, false, scratch);
    }
    mix_free(m);
    *m = (struct mix){.n = n, .part = n, .dense = TAKE(dense)};
    return OK;
}

void mix_free(struct mix *m)
{
    free(m->dense);
    free(m->hadamard);
    free(m->sign);
    *m = (struct mix){0};
}

static void multiply(const struct mix *m, double *x, bool back, double *y)
{
    const int64_t n = m->n;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        const double *row = m->dense + i * n;
        for (int64_t j = 0; j < n; j++)
            if (back)
                y[i] += x[j] * row[j];
            else
                y[j] += x[i] * row[j];
    }
    memcpy(x, y, (size_t)n * sizeof *x);
}

void mix_row(const struct mix *m, double *x, bool back, double *scratch)
{
    if (m->part == 0) return;
    if (m->dense) {
        multiply(m, x, back, scratch);
        return;
    }
    const bool first = back == (m->signs == MIX_AFTER);
    for (int64_t j = 0; first && j < m->n; j++) x[j] *= m->sign[j];
    for (int64_t a = 0; a < m->n; a += m->part)
        hadamard_row(x + a, m->part, m->hadamard, m->factor, back, scratch);
    for (int64_t j = 0; !first && j < m->n; j++) x[j] *= m->sign[j];
}

int64_t mix_rows(const struct mix *m, float *to, const float *from, int64_t first, int64_t rows,
                 double by, bool back, double *scratch, int64_t numbers)
{
    const int64_t n = m->n;
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(static) reduction(min : bad)
    for (int64_t i = first; i < first + rows; i++) {
        double *x = scratch + omp_get_thread_num() * numbers;
        bool finite = true;
        for (int64_t j = 0; j < n; j++) x[j] = (double)from[i * n + j] * by;
        mix_row(m, x, back, x + numbers - n);
        for (int64_t j = 0; j < n; j++) {
            to[i * n + j] = (float)x[j];
            finite = finite && isfinite(to[i * n + j]);
        }
        if (!finite && i < bad) bad = i;
    }
    return bad == INT64_MAX ? -1 : bad;
}

void mix_gram(const struct mix *m, double *h, int64_t pitch, double *scratch)
{
    const int64_t n = m->n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) h[j * pitch + i] = h[i * pitch + j];
    for (int turn = 0; turn < 2; turn++) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++)
            mix_row(m, h + i * pitch, false, scratch + omp_get_thread_num() * n);
#pragma omp parallel for schedule(dynamic, 16)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++) {
                const double other = h[j * pitch + i];
                h[j * pitch + i] = h[i * pitch + j];
                h[i * pitch + j] = other;
            }
    }
    for (int64_t i = 0; i < n; i++)
        if (h[i * pitch + i] < 0) h[i * pitch + i] = 0;
}
