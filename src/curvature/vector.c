#include "curvature/vector.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* CHUNK: what one partial sum covers; GROUP: chunks of one parallel region, whose partial sums lie
 * on the stack; WIDE: vectors that share a reading of w; STRIP: elements of all vectors that are
 * combined at once, so that they stay in the cache. */
enum { CHUNK = 1 << 14, GROUP = 256, LANES = 8, WIDE = 8, STRIP = 256 };

static double add_lanes(const double s[LANES])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Of one chunk of x and y. */
typedef double (*chunk_sum)(const float *x, const float *y, double a, int64_t n);

static double chunk_dot(const float *x, const float *y, int64_t n)
{
    double s[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) s[l] += (double)x[i + l] * y[i + l];
    for (int l = 0; i < n; i++, l++) s[l] += (double)x[i] * y[i];
    return add_lanes(s);
}

static double dot(const float *x, const float *y, double a, int64_t n)
{
    (void)a;
    return chunk_dot(x, y, n);
}

static double squared_distance(const float *x, const float *y, double a, int64_t n)
{
    double s[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        double d = y[i] - a * x[i];
        s[i % LANES] += d * d;
    }
    return add_lanes(s);
}

static double sum_chunks(chunk_sum f, int64_t n, const float *x, const float *y, double a)
{
    double sum = 0, partial[GROUP];
    for (int64_t begin = 0; begin < n; begin += (int64_t)CHUNK * GROUP) {
        int64_t end = min64(n, begin + (int64_t)CHUNK * GROUP);
        int64_t chunks = (end - begin + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) if (chunks > 1)
        for (int64_t c = 0; c < chunks; c++) {
            int64_t i = begin + c * CHUNK;
            partial[c] = f(x + i, y + i, a, min64(CHUNK, end - i));
        }
        for (int64_t c = 0; c < chunks; c++) sum += partial[c];
    }
    return sum;
}

double vector_dot(const struct space *s, const float *x, const float *y)
{
    double sum = sum_chunks(dot, s->n, x, y, 0);
    space_sum(s, 1, &sum);
    return sum;
}

double vector_norm(const struct space *s, const float *x)
{
    return sqrt(vector_dot(s, x, x));
}

void vector_part_dots(const struct space *s, int64_t k, const int64_t *offset, const float *x,
                      const float *y, double *c)
{
    for (int64_t t = 0; t < k; t++) {
        int64_t begin = offset[t], end = offset[t + 1];
        space_meet(s, &begin, &end);
        c[t] = sum_chunks(dot, end - begin, x + begin, y + begin, 0);
    }
    space_sum(s, k, c);
}

double vector_distance(const struct space *s, const float *y, double a, const float *x)
{
    double sum = sum_chunks(squared_distance, s->n, x, y, a);
    space_sum(s, 1, &sum);
    return sqrt(sum);
}

void vector_scale(int64_t n, double a, const float *x, float *y)
{
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t i = 0; i < n; i++) y[i] = (float)(a * x[i]);
}

void vector_add(int64_t n, double a, const float *x, float *y)
{
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t i = 0; i < n; i++) y[i] = (float)(y[i] + a * x[i]);
}

/* At most WIDE vectors: w's chunk is read once for all. */
static void few_dots(int64_t n, int64_t k, float *const *v, const float *w, double *c)
{
    double partial[GROUP][WIDE];
    for (int64_t j = 0; j < k; j++) c[j] = 0;
    for (int64_t begin = 0; begin < n; begin += (int64_t)CHUNK * GROUP) {
        int64_t end = min64(n, begin + (int64_t)CHUNK * GROUP);
        int64_t chunks = (end - begin + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) if (chunks > 1)
        for (int64_t t = 0; t < chunks; t++) {
            int64_t i = begin + t * CHUNK, m = min64(CHUNK, end - i);
            for (int64_t j = 0; j < k; j++) partial[t][j] = chunk_dot(v[j] + i, w + i, m);
        }
        for (int64_t t = 0; t < chunks; t++)
            for (int64_t j = 0; j < k; j++) c[j] += partial[t][j];
    }
}

void vector_dots(const struct space *s, int64_t k, float *const *v, const float *w, double *c)
{
    for (int64_t j = 0; j < k; j += WIDE) few_dots(s->n, min64(WIDE, k - j), v + j, w, c + j);
    space_sum(s, k, c);
}

void vector_subtract(int64_t n, int64_t k, float *const *v, const double *c, float *w)
{
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t begin = 0; begin < n; begin += STRIP) {
        double s[STRIP] = {0};
        int64_t m = min64(STRIP, n - begin);
        for (int64_t j = 0; j < k; j++) {
            const float *x = v[j] + begin;
            for (int64_t i = 0; i < m; i++) s[i] += c[j] * x[i];
        }
        for (int64_t i = 0; i < m; i++) w[begin + i] = (float)(w[begin + i] - s[i]);
    }
}

double vector_orthogonalise(const struct space *s, int64_t k, float *const *v, float *w, double *c)
{
    for (int pass = 0; pass < 2; pass++) {
        vector_dots(s, k, v, w, c);
        vector_subtract(s->n, k, v, c, w);
    }
    return vector_norm(s, w);
}

static void strip_sum(int64_t begin, int64_t count, int64_t m, float *const *v, const double *c,
                      float *out)
{
    double s[STRIP] = {0};
    for (int64_t j = 0; j < m; j++) {
        const float *x = v[j] + begin;
        for (int64_t i = 0; i < count; i++) s[i] += c[j] * x[i];
    }
    for (int64_t i = 0; i < count; i++) out[i] = (float)s[i];
}

void vector_sum(int64_t n, int64_t m, float *const *v, const double *s, float *out)
{
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t i = 0; i < n; i += STRIP) strip_sum(i, min64(STRIP, n - i), m, v, s, out + i);
}

enum status vector_combine(int64_t n, int64_t m, int64_t k, float *const *v, const double *s,
                           int64_t pitch, struct err *e)
{
    enum status st = OK;
    float *room = NULL;
    TRY(mem_alloc(&room, omp_get_max_threads() * k * STRIP, sizeof *room, "combined vectors", e));
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t begin = 0; begin < n; begin += STRIP) {
        float *mine = room + omp_get_thread_num() * k * STRIP;
        int64_t count = min64(STRIP, n - begin);
        for (int64_t i = 0; i < k; i++)
            strip_sum(begin, count, m, v, s + i * pitch, mine + i * STRIP);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < count; j++) v[i][begin + j] = mine[i * STRIP + j];
    }
done:
    free(room);
    return st;
}

void vector_signs(uint64_t stream, const struct space *s, float *x)
{
#pragma omp parallel for schedule(static) if (s->n > CHUNK)
    for (int64_t i = 0; i < s->n; i += CHUNK)
        rng_signs(stream, s->first + i, min64(CHUNK, s->n - i), x + i);
}

void vector_normals(uint64_t stream, const struct space *s, float *x)
{
#pragma omp parallel for schedule(static) if (s->n > CHUNK)
    for (int64_t i = 0; i < s->n; i += CHUNK)
        rng_normals(stream, s->first + i, min64(CHUNK, s->n - i), x + i);
}

enum status vector_start(uint64_t stream, const struct space *s, const float *start, float *v,
                         struct err *e)
{
    enum status st = OK;
    const double random_share = 0.1;
    vector_normals(stream, s, v);
    if (start) {
        double norm = vector_norm(s, start);
        ENSURE(isfinite(norm) && norm > 0, ERR_NUMERIC,
               "the vector to start from has the norm %g: expected one from an earlier run", norm);
        vector_scale(s->n, random_share / vector_norm(s, v), v, v);
        vector_add(s->n, 1 / norm, start, v);
    }
    vector_scale(s->n, 1 / vector_norm(s, v), v, v);
done:
    return st;
}

enum status vectors_alloc(int64_t k, int64_t n, const char *what, float ***v, struct err *e)
{
    enum status st = OK;
    *v = NULL;
    TRY(mem_zero(v, k, sizeof **v, what, e));
    for (int64_t i = 0; i < k; i++) TRY(mem_alloc(&(*v)[i], n, sizeof(float), what, e));
done:
    if (st != OK && *v) {
        vectors_free(*v, k);
        *v = NULL;
    }
    return st;
}

void vectors_free(float **v, int64_t k)
{
    for (int64_t i = 0; v && i < k; i++) free(v[i]);
    free(v);
}
