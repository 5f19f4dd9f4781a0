#include "curvature/vector.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/rng.h"
#include <math.h>
#include <omp.h>

/* CHUNK: numbers of one partial sum; GROUP: chunks per parallel region, whose partial sums are on
 * the stack; WIDE: vectors that share one reading of w; STRIP: numbers of all vectors that are
 * combined at a time, so that they stay in the cache. */
enum { CHUNK = 1 << 14, GROUP = 256, LANES = 8, WIDE = 8, STRIP = 256 };

static double add_lanes(const double s[LANES])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* A sum over one chunk of x and y. */
typedef double chunk_sum(const float *x, const float *y, double a, int64_t n);

/* x . y; a is unused. */
static double dot(const float *x, const float *y, double a, int64_t n)
{
    double s[LANES] = {0};
    int64_t i = 0;
    (void)a;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) s[l] += (double)x[i + l] * y[i + l];
    for (int l = 0; i < n; i++, l++) s[l] += (double)x[i] * y[i];
    return add_lanes(s);
}

/* |y - a x|^2 */
static double squared_distance(const float *x, const float *y, double a, int64_t n)
{
    double s[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        double d = y[i] - a * x[i];
        s[i % LANES] += d * d;
    }
    return add_lanes(s);
}

/* c (k) = the sums of f over v[j] and w (n), k <= WIDE; each chunk of w is read once for all v. */
static void local_sums(chunk_sum *f, int64_t n, int64_t k, const float *const *v, const float *w,
                       double a, double *c)
{
    double partial[GROUP][WIDE];
    for (int64_t j = 0; j < k; j++) c[j] = 0;
    for (int64_t begin = 0; begin < n; begin += (int64_t)CHUNK * GROUP) {
        int64_t end = min64(n, begin + (int64_t)CHUNK * GROUP);
        int64_t chunks = (end - begin + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) if (chunks > 1)
        for (int64_t t = 0; t < chunks; t++) {
            int64_t i = begin + t * CHUNK, m = min64(CHUNK, end - i);
            for (int64_t j = 0; j < k; j++) partial[t][j] = f(v[j] + i, w + i, a, m);
        }
        for (int64_t t = 0; t < chunks; t++)
            for (int64_t j = 0; j < k; j++) c[j] += partial[t][j];
    }
}

double vector_dot(const struct space *s, const float *x, const float *y)
{
    double sum;
    local_sums(dot, s->n, 1, &x, y, 0, &sum);
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
        space_clip(s, &begin, &end);
        local_sums(dot, end - begin, 1, &(const float *){x + begin}, y + begin, 0, &c[t]);
    }
    space_sum(s, k, c);
}

double vector_distance(const struct space *s, const float *y, double a, const float *x)
{
    double sum;
    local_sums(squared_distance, s->n, 1, &x, y, a, &sum);
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

/* c (k) = v[i] . w. */
static void dots(const struct space *s, int64_t k, float *const *v, const float *w, double *c)
{
    for (int64_t j = 0; j < k; j += WIDE)
        local_sums(dot, s->n, min64(WIDE, k - j), (const float *const *)v + j, w, 0, c + j);
    space_sum(s, k, c);
}

/* s (count) = sum of c[j] v[j] over j < m, for the `count` numbers from `begin` on. */
static void strip_sum(int64_t begin, int64_t count, int64_t m, float *const *v, const double *c,
                      double s[STRIP])
{
    for (int64_t i = 0; i < count; i++) s[i] = 0;
    for (int64_t j = 0; j < m; j++) {
        const float *x = v[j] + begin;
        for (int64_t i = 0; i < count; i++) s[i] += c[j] * x[i];
    }
}

/* w = sum of c[i] v[i] over i < k, or w minus that; rounded to f32 once per number. */
static void combine(int64_t n, int64_t k, float *const *v, const double *c, bool subtract, float *w)
{
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t begin = 0; begin < n; begin += STRIP) {
        double s[STRIP];
        int64_t count = min64(STRIP, n - begin);
        strip_sum(begin, count, k, v, c, s);
        for (int64_t i = 0; i < count; i++)
            w[begin + i] = (float)(subtract ? w[begin + i] - s[i] : s[i]);
    }
}

double vector_orthogonalise(const struct space *s, int64_t k, float *const *v, float *w, double *c)
{
    for (int pass = 0; pass < 2; pass++) {
        dots(s, k, v, w, c);
        combine(s->n, k, v, c, true, w);
    }
    return vector_norm(s, w);
}

void vector_sum(int64_t n, int64_t m, float *const *v, const double *c, float *out)
{
    combine(n, m, v, c, false, out);
}

enum status vector_combine(int64_t n, int64_t m, int64_t k, float *const *v, const double *s,
                           int64_t pitch, struct err *e)
{
    AUTO_FREE double *sums = NULL; // (threads, k, STRIP)
    PASS(mem_alloc(&sums, omp_get_max_threads() * k * STRIP, sizeof *sums, "combined vectors", e));
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t begin = 0; begin < n; begin += STRIP) {
        double *mine = sums + omp_get_thread_num() * k * STRIP;
        int64_t count = min64(STRIP, n - begin);
        for (int64_t i = 0; i < k; i++)
            strip_sum(begin, count, m, v, s + i * pitch, mine + i * STRIP);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < count; j++) v[i][begin + j] = (float)mine[i * STRIP + j];
    }
    return OK;
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
    const double random_share = 0.1;
    vector_normals(stream, s, v);
    if (start) {
        double norm = vector_norm(s, start);
        NEED(isfinite(norm) && norm > 0, ERR_NUMERIC,
             "the vector to start from has the norm %g: expected one from an earlier run", norm);
        vector_scale(s->n, random_share / vector_norm(s, v), v, v);
        vector_add(s->n, 1 / norm, start, v);
    }
    vector_scale(s->n, 1 / vector_norm(s, v), v, v);
    return OK;
}

enum status vectors_alloc(void *v, int64_t k, int64_t n, size_t size, const char *what,
                          struct err *e)
{
    enum status st = OK;
    void **vectors = NULL;
    TRY(mem_zero(&vectors, k, sizeof *vectors, what, e));
    for (int64_t i = 0; i < k; i++) TRY(mem_alloc(&vectors[i], n, size, what, e));
done:
    if (st != OK) {
        vectors_free(vectors, k);
        vectors = NULL;
    }
    memcpy(v, &vectors, sizeof vectors);
    return st;
}

void vectors_free(void *v, int64_t k)
{
    void **vectors = v;
    for (int64_t i = 0; v && i < k; i++) free(vectors[i]);
    free(v);
}
