#include "coding/kquant_fit.h"
#include "coding/kquant_lane.h"
#include <math.h>
#include <string.h>

enum { CODES = 16 * TILE_ROWS, MOVES = 5 };
static const float LEAST = 1e-15f; /* a block of smaller weights is zero */

/* --- with an offset --- */

/* Sums over a block, and the range to beat. A range that is better than those before begins at its
 * offset, and so do those that follow. */
struct range {
    float low[TILE_ROWS], high[TILE_ROWS], w[TILE_ROWS], wx[TILE_ROWS], least[TILE_ROWS];
};

KERN_LANE void block_error(float *error, const float *x, const float *w, int64_t n,
                           const struct kquant_scale *s, const struct kquant_search *search)
{
    EACH_ROW error[r] = 0;
    for (int64_t i = 0; i < n; i++, x += TILE_ROWS, w += TILE_ROWS) EACH_ROW
        {
            const float code = kquant_code(s->inverse[r] * (x[r] - s->from[r]), 0, search->levels);
            const float miss = s->scale[r] * code + s->offset[r] - x[r];
            error[r] += w[r] * (search->absolute ? fabsf(miss) : miss * miss);
        }
}

KERN_LANE void range_start(struct range *g, struct kquant_scale *best, const float *x,
                           const float *w, int64_t n, const struct kquant_search *s)
{
    EACH_ROW g->w[r] = g->wx[r] = 0;
    EACH_ROW g->low[r] = g->high[r] = x[r];
    for (int64_t i = 0; i < n; i++) EACH_ROW
        {
            const float v = x[i * TILE_ROWS + r], count = w[i * TILE_ROWS + r];
            g->low[r] = v < g->low[r] ? v : g->low[r];
            g->high[r] = v > g->high[r] ? v : g->high[r];
            g->w[r] += count;
            g->wx[r] += count * v;
        }
    EACH_ROW
    {
        g->low[r] = g->low[r] > 0 ? 0 : g->low[r];
        best->inverse[r] = s->levels / (g->high[r] - g->low[r]);
        best->scale[r] = 1 / best->inverse[r];
        best->offset[r] = best->from[r] = g->low[r];
    }
    block_error(g->least, x, w, n, best, s);
}

/* trial <- the least-squares scale and offset for the codes of a range; none[r]: there is none. */
KERN_LANE void range_solve(struct kquant_scale *trial, bool *none, const struct range *g,
                           const float *x, const float *w, int64_t n, float levels)
{
    float l[TILE_ROWS] = {0}, ll[TILE_ROWS] = {0}, xl[TILE_ROWS] = {0};
    for (int64_t i = 0; i < n; i++, x += TILE_ROWS, w += TILE_ROWS) EACH_ROW
        {
            const float code = kquant_code(trial->inverse[r] * (x[r] - trial->from[r]), 0, levels);
            l[r] += w[r] * code;
            ll[r] += w[r] * code * code;
            xl[r] += w[r] * code * x[r];
        }
    EACH_ROW
    {
        const float d = g->w[r] * ll[r] - l[r] * l[r];
        const float scale = (g->w[r] * xl[r] - g->wx[r] * l[r]) / d;
        const float offset = (ll[r] * g->wx[r] - l[r] * xl[r]) / d;
        none[r] = !(d > 0);
        trial->scale[r] = offset > 0 ? xl[r] / ll[r] : scale;
        trial->offset[r] = offset > 0 ? 0 : offset;
    }
}

KERNEL(void, kquant_fit_offset,
       (struct kquant_scale * best, const float *x, const float *w, int64_t n,
        const struct kquant_search *s),
       (best, x, w, n, s))
{
    struct range g;
    struct kquant_scale trial;
    float error[TILE_ROWS];
    bool none[TILE_ROWS], flat[TILE_ROWS];
    range_start(&g, best, x, w, n, s);
    EACH_ROW flat[r] = !(g.high[r] > g.low[r]);
    for (int k = 0; k <= s->steps; k++) {
        const float steps = s->first + s->step * (float)k + s->levels;
        EACH_ROW trial.inverse[r] = steps / (g.high[r] - g.low[r]);
        memcpy(trial.from, g.low, sizeof trial.from);
        range_solve(&trial, none, &g, x, w, n, s->levels);
        block_error(error, x, w, n, &trial, s);
        EACH_ROW
        {
            const bool better = !none[r] && error[r] < g.least[r];
            g.least[r] = better ? error[r] : g.least[r];
            best->scale[r] = better ? trial.scale[r] : best->scale[r];
            best->offset[r] = better ? trial.offset[r] : best->offset[r];
            best->inverse[r] = better ? trial.inverse[r] : best->inverse[r];
            best->from[r] = better ? trial.from[r] : best->from[r];
            g.low[r] = better ? trial.offset[r] : g.low[r];
        }
    }
    EACH_ROW
    {
        best->scale[r] = flat[r] ? 0 : best->scale[r];
        best->offset[r] = flat[r] ? g.low[r] : best->offset[r];
        best->inverse[r] = flat[r] ? 0 : best->inverse[r];
    }
}

/* --- without --- */

/* xl = sum w x code, ll = sum w code^2 over the block; the codes, unless NULL. */
KERN_LANE void code_sums(float *xl, float *ll, float *codes, const float *x, const float *w,
                         int64_t n, const float *inverse, float low, float high)
{
    EACH_ROW xl[r] = ll[r] = 0;
    for (int64_t i = 0; i < n; i++, x += TILE_ROWS, w += TILE_ROWS) EACH_ROW
        {
            const float code = kquant_code(inverse[r] * x[r], low, high);
            xl[r] += w[r] * x[r] * code;
            ll[r] += w[r] * code * code;
            if (codes) codes[i * TILE_ROWS + r] = code;
        }
}

KERNEL(void, kquant_fit_signed,
       (struct kquant_scale * best, const float *x, const float *w, int64_t n, float levels),
       (best, x, w, n, levels))
{
    enum { TRIES = 9 };
    float peak[TILE_ROWS], most[TILE_ROWS], xl[TILE_ROWS], ll[TILE_ROWS], inverse[TILE_ROWS];
    float gain[TILE_ROWS] = {0}; /* xl^2 / ll: by how much the error is below sum w x^2 */
    kquant_peak(peak, most, x, n);
    memset(best, 0, sizeof *best);
    for (int k = 0; k <= 2 * TRIES; k++) { /* 0, then -9 to 9 */
        const int step = k == 0 ? 0 : k <= TRIES ? k - TRIES - 1 : k - TRIES;
        EACH_ROW inverse[r] = -(levels + 0.1f * (float)step) / peak[r];
        code_sums(xl, ll, NULL, x, w, n, inverse, -levels, levels - 1);
        EACH_ROW
        {
            const bool some = ll[r] > 0, better = some && xl[r] * xl[r] > gain[r] * ll[r];
            const bool take = k == 0 || better;
            const float scale = some ? xl[r] / ll[r] : 0;
            best->scale[r] = take ? scale : best->scale[r];
            best->inverse[r] = take ? inverse[r] : best->inverse[r];
            gain[r] = take ? scale * xl[r] : gain[r];
        }
    }
    EACH_ROW best->scale[r] = most[r] < LEAST ? 0 : best->scale[r];
    EACH_ROW best->inverse[r] = most[r] < LEAST ? 0 : best->inverse[r];
}

/* Moves codes one by one, each to the nearest for the scale that the others give, where that
 * raises xl^2 / ll. Once a pass moves none, later ones do not either. */
KERN_LANE void move_codes(float *codes, float *xl, float *ll, const float *x, const float *w,
                          int64_t n, float low, float high)
{
    for (int64_t k = 0; k < MOVES * n; k++) {
        const float *weight = x + k % n * TILE_ROWS, *count = w + k % n * TILE_ROWS;
        float *code = codes + k % n * TILE_ROWS;
        EACH_ROW
        {
            const float c = count[r], v = weight[r];
            const float x_rest = xl[r] - c * v * code[r], rest = ll[r] - c * code[r] * code[r];
            const float moved = kquant_code(v * rest / x_rest, low, high);
            const float x_sum = x_rest + c * v * moved, sum = rest + c * moved * moved;
            const bool defined = x_rest > 0 && sum > 0 && (rest > 0 || low < 0);
            const bool moves = defined && moved != code[r];
            const bool take = moves && x_sum * x_sum * ll[r] > xl[r] * xl[r] * sum;
            code[r] = take ? moved : code[r];
            xl[r] = take ? x_sum : xl[r];
            ll[r] = take ? sum : ll[r];
        }
    }
}

KERNEL(void, kquant_fit_moves,
       (struct kquant_scale * out, const float *x, const float *w, int64_t n, float levels),
       (out, x, w, n, levels))
{
    float codes[CODES];
    float peak[TILE_ROWS], most[TILE_ROWS], xl[TILE_ROWS], ll[TILE_ROWS];
    kquant_peak(peak, most, x, n);
    memset(out, 0, sizeof *out);
    EACH_ROW out->inverse[r] = -levels / peak[r];
    code_sums(xl, ll, codes, x, w, n, out->inverse, -levels, levels - 1);
    move_codes(codes, xl, ll, x, w, n, -levels, levels - 1);
    EACH_ROW out->scale[r] = ll[r] > 0 && !(most[r] < LEAST) ? xl[r] / ll[r] : 0;
}

KERNEL(void, kquant_fit_positive,
       (float *scale, float *codes, const float *x, const float *w, int64_t n, float levels),
       (scale, codes, x, w, n, levels))
{
    enum { TRIES = 4 };
    float most[TILE_ROWS] = {0}, inverse[TILE_ROWS] = {0}, least[TILE_ROWS] = {0};
    float xl[TILE_ROWS], ll[TILE_ROWS];
    for (int64_t i = 0; i < n; i++) EACH_ROW
        {
            const float v = x[i * TILE_ROWS + r];
            most[r] = v > most[r] ? v : most[r];
        }
    for (int k = 0; k <= 2 * TRIES; k++) { /* 0, then -4 to 4 */
        const int step = k == 0 ? 0 : k <= TRIES ? k - TRIES - 1 : k - TRIES;
        float error[TILE_ROWS] = {0};
        for (int64_t i = 0; i < n; i++) EACH_ROW
            {
                const float v = x[i * TILE_ROWS + r];
                const float tried = (0.1f * (float)step + levels) / most[r], unit = 1 / tried;
                const float miss = v - unit * kquant_code(tried * v, 0, levels);
                error[r] += w[i * TILE_ROWS + r] * miss * miss;
            }
        EACH_ROW
        {
            const bool take = k == 0 || error[r] < least[r];
            least[r] = take ? error[r] : least[r];
            inverse[r] = take ? (0.1f * (float)step + levels) / most[r] : inverse[r];
        }
    }
    code_sums(xl, ll, codes, x, w, n, inverse, 0, levels);
    move_codes(codes, xl, ll, x, w, n, 0, levels);
    EACH_ROW scale[r] = ll[r] > 0 && !(most[r] < LEAST) ? xl[r] / ll[r] : 0;
}

KERNEL(void, kquant_fit_iq4, (float *scale, const float *x, const float *w, int64_t n),
       (scale, x, w, n))
{
    enum { TRIES = 7 };
    const float first = kquant_iq4_values[0];
    float peak[TILE_ROWS], most[TILE_ROWS], gain[TILE_ROWS] = {0}, inverse[TILE_ROWS];
    kquant_peak(peak, most, x, n);
    EACH_ROW scale[r] = 0;
    for (int k = -TRIES - 1; k <= TRIES; k++) {
        const bool start = k < -TRIES;
        float xq[TILE_ROWS] = {0}, qq[TILE_ROWS] = {0};
        EACH_ROW inverse[r] = start ? 1 / (-peak[r] / first) : ((float)k + first) / peak[r];
        for (int64_t i = 0; i < n * TILE_ROWS; i += TILE_ROWS) EACH_ROW
            {
                const float q = kquant_iq4(inverse[r] * x[i + r]);
                xq[r] += w[i + r] * q * x[i + r];
                qq[r] += w[i + r] * q * q;
            }
        EACH_ROW
        {
            const bool better = qq[r] > 0 && (start || xq[r] * xq[r] > gain[r] * qq[r]);
            scale[r] = better ? xq[r] / qq[r] : scale[r];
            gain[r] = better ? scale[r] * xq[r] : gain[r];
        }
    }
    EACH_ROW scale[r] = most[r] < LEAST ? 0 : scale[r];
}
