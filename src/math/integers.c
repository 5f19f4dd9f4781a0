#include "math/integers.h"
#include "math/kernel.h"
#include "math/onednn.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

enum { LINE = 64, LEAST_GROUP = 32, MOST = 255 };

struct integer_layout {
    int64_t rows, cols, group, groups;
    struct onednn_layout *of[2]; /* of a group, and of the last one if it is shorter */
    int64_t pitch;               /* bytes from one group to the next */
};

bool integers_run(void)
{
    return onednn_found()->integers;
}

const char *integers_unit(void)
{
    return integers_run() ? onednn_found()->integers_name : "simulated";
}

bool integers_fit(int64_t bits, int64_t group)
{
    return group >= LEAST_GROUP && group <= INT32_MAX / (MOST * ((1 << bits) - 1));
}

static int64_t lines(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

enum status integer_layout_make(int64_t rows, int64_t cols, int64_t group,
                                struct integer_layout **out, struct err *e)
{
    CLEANUP(integer_layout_free_at) struct integer_layout *l = NULL;
    const int64_t own = min64(group, cols);
    PASS(mem_zero(&l, 1, sizeof *l, "codes of weights", e));
    *l = (struct integer_layout){
        .rows = rows, .cols = cols, .group = own, .groups = (cols + own - 1) / own};
    PASS(onednn_layout_make(ONEDNN_U8S8, rows, own, &l->of[0], e));
    if (cols % own) PASS(onednn_layout_make(ONEDNN_U8S8, rows, cols % own, &l->of[1], e));
    for (int i = 0; i < 2; i++)
        if (l->of[i]) l->pitch = max64(l->pitch, lines(onednn_layout_bytes(l->of[i])));
    *out = TAKE(l);
    return OK;
}

void integer_layout_free(struct integer_layout *l)
{
    if (!l) return;
    free(l->of[0]);
    free(l->of[1]);
    free(l);
}

/* Behind the codes of all groups: what a group's rows have. */
struct constants {
    float *scale;        // (rows)
    int32_t *sum, *zero; // (rows) of b, and v, where b = code - 2^(bits - 1)
    int32_t *asymmetric; /* whether a zero is not 0 */
};

static int64_t constants_bytes(const struct integer_layout *l)
{
    return lines((3 * l->rows + 1) * (int64_t)sizeof(int32_t));
}

static struct constants constants_of(const struct integer_layout *l, const void *data, int64_t g)
{
    char *at = (char *)(uintptr_t)data + l->groups * l->pitch + g * constants_bytes(l);
    int32_t *numbers = (int32_t *)(void *)at;
    return (struct constants){(float *)(void *)at, numbers + l->rows, numbers + 2 * l->rows,
                              numbers + 3 * l->rows};
}

int64_t integer_layout_bytes(const struct integer_layout *l)
{
    return l->groups * (l->pitch + constants_bytes(l));
}

uint64_t integer_layout_digest(const struct integer_layout *l)
{
    const uint64_t last = l->of[1] ? onednn_layout_digest(l->of[1]) : 0;
    return onednn_layout_digest(l->of[0]) ^ 5 * last ^ (uint64_t)(l->pitch * 7 + l->groups);
}

static const struct onednn_layout *layout_at(const struct integer_layout *l, int64_t g)
{
    return l->of[1] && g == l->groups - 1 ? l->of[1] : l->of[0];
}

/* The grid of a row's group. */
struct row_grid {
    float scale, zero, half; /* half: what codes are shifted by */
};

/* to (n) = the codes of w, shifted; *sum = theirs. False: a weight is not on the grid. */
KERNEL_STATIC(bool, codes_of,
              (const struct row_grid *g, const float *w, int64_t n, int8_t *to, int32_t *sum),
              (g, w, n, to, sum))
{
    const float scale = g->scale, zero = g->zero, half = g->half;
    int32_t all = 0, missed = 0;
#pragma omp simd reduction(+ : all) reduction(| : missed)
    for (int64_t j = 0; j < n; j++) {
        float code = (scale > 0 ? rintf(w[j] / scale) : 0) + zero;
        code = code > 0 ? code : 0; /* NaN too */
        code = code < 2 * half - 1 ? code : 2 * half - 1;
        missed |= scale * (code - zero) != w[j];
        const int32_t shifted = (int32_t)(code - half);
        to[j] = (int8_t)shifted;
        all += shifted;
    }
    *sum = all;
    return !missed;
}

enum status integer_layout_fill(const struct integer_layout *l, const struct integer_grids *g,
                                int64_t row, const float *w, void *data, struct err *e)
{
    AUTO_FREE int8_t *codes = NULL;
    PASS(mem_alloc(&codes, l->rows * l->group, 1, "codes of weights", e));
    for (int64_t k = 0; k < l->groups; k++) {
        const struct constants c = constants_of(l, data, k);
        const int64_t first = k * l->group, n = min64(l->group, l->cols - first);
        *c.asymmetric = 0;
        for (int64_t i = 0; i < l->rows; i++) {
            const double *grid = g->grid + ((row + i) * l->groups + k) * 2;
            const struct row_grid own = {(float)grid[0], (float)grid[1],
                                         (float)(1 << (g->bits - 1))};
            NEED(own.zero >= 0 && own.zero < 2 * own.half && own.zero == rintf(own.zero) &&
                     codes_of(&own, w + i * l->cols + first, n, codes + i * n, &c.sum[i]),
                 ERR_NUMERIC, "a weight of row %lld is not on its grid", (long long)(row + i));
            c.scale[i] = own.scale;
            c.zero[i] = (int32_t)(own.zero - own.half);
            if (c.zero[i] != 0) *c.asymmetric = 1;
        }
        PASS(onednn_pack(layout_at(l, k), codes, (char *)data + k * l->pitch, e));
    }
    return OK;
}

/* --- products --- */

/* The outputs of a token: scale, z, and sum a - k z. */
struct token {
    float scale;
    uint32_t zero, rest;
};

/* y (n) += what the sums of a group are worth. In unsigned integers, where what overflows in
 * between does no harm. */
KERNEL_STATIC(void, add_group,
              (float *y, const int32_t *sum, int64_t n, const struct constants *c,
               const struct token *t),
              (y, sum, n, c, t))
{
    const float *scale = c->scale, own = t->scale;
    const int32_t *sums = c->sum, *zeros = c->zero;
    const uint32_t zero = t->zero, rest = t->rest;
    if (!*c->asymmetric) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            y[j] +=
                (float)(int32_t)((uint32_t)sum[j] - zero * (uint32_t)sums[j]) * (own * scale[j]);
        return;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        y[j] += (float)(int32_t)((uint32_t)sum[j] - zero * (uint32_t)sums[j] -
                                 rest * (uint32_t)zeros[j]) *
                (own * scale[j]);
}

KERNEL_STATIC(uint32_t, sum_codes, (const uint8_t *a, int64_t n), (a, n))
{
    uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += a[j];
    return sum;
}

/* Tokens whose sums stay in the cache until they are scaled. */
enum { TOKENS = 64 };

bool integer_product(float *y, int64_t ldy, const struct integer_inputs *x,
                     const struct integer_layout *l, const void *data, int64_t m)
{
    static _Thread_local struct mem_kept sums_kept, part_kept;
    int32_t *sums = mem_keep(&sums_kept, TOKENS * l->rows * (int64_t)sizeof *sums);
    uint8_t *part = mem_keep(&part_kept, TOKENS * l->group);
    if (!sums || !part) return false;
    for (int64_t t = 0; t < m; t += TOKENS)
        for (int64_t k = 0; k < l->groups; k++) {
            const struct constants c = constants_of(l, data, k);
            const int64_t first = k * l->group, n = min64(l->group, l->cols - first);
            const int64_t tokens = min64(TOKENS, m - t);
            const uint8_t *a = x->codes + t * l->cols + first;
            for (int64_t i = 0; i < tokens && l->groups > 1; i++)
                memcpy(part + i * n, a + i * l->cols, (size_t)n);
            if (l->groups > 1) a = part;
            if (!onednn_multiply(sums, a, layout_at(l, k), (const char *)data + k * l->pitch,
                                 tokens, false))
                return false;
            for (int64_t i = 0; i < tokens; i++) {
                float *to = y + (t + i) * ldy;
                struct token own = {x->scale[t + i], (uint32_t)x->zero[t + i], 0};
                if (*c.asymmetric) own.rest = sum_codes(a + i * n, n) - (uint32_t)n * own.zero;
                if (k == 0) memset(to, 0, (size_t)l->rows * sizeof *to);
                add_group(to, sums + i * l->rows, l->rows, &c, &own);
            }
        }
    return true;
}
