#include "linalg/sums.h"
#include "linalg/panels.h"
#include "linalg/strip.h"
#include "util/mem.h"
#include "util/num.h"

/* Terms that are multiplied and added one after the other before their sum is added to the result.
 */
enum { DEPTH = 512 };

/* y (m, n) of row pitch ldy = the n <= STRIP_COLS columns of a strip that is computed apart. */
static void product_edge(float *y, int64_t ldy, const struct strip *s, struct strip_factor f,
                         int64_t n)
{
    enum { CHUNK = 48 };
    float tile[CHUNK * STRIP_COLS];
    const float *a = f.a;
    const bool add = f.add;
    f.ldy = f.cols;
    f.add = false;
    for (int64_t r = 0; r < s->rows; r += CHUNK) {
        const struct strip part = {tile, s->b, min64(s->rows - r, CHUNK)};
        f.a = a + r * f.a_row;
        strip_products(&part, 1, &f, f.k);
        for (int64_t i = 0; i < part.rows; i++)
            for (int64_t j = 0; j < n; j++) {
                float *to = y + (r + i) * ldy + j;
                *to = add ? *to + tile[i * f.cols + j] : tile[i * f.cols + j];
            }
    }
}

bool sums_nt(float *y, int64_t ldy, const float *x, const float *w, int64_t m, int64_t n, int64_t k)
{
    const int64_t depth = k <= 2 * DEPTH ? DEPTH : 2 * DEPTH;
    static _Thread_local struct mem_kept buffer;
    float *panel = mem_keep(&buffer, STRIP_COLS * min64(depth, k) * (int64_t)sizeof *panel);
    if (!panel) return false;
    for (int64_t c = 0; c < n; c += STRIP_COLS)
        for (int64_t t = 0; t < k || t == 0; t += depth) {
            const int64_t cols = min64(n - c, STRIP_COLS), run = min64(k - t, depth);
            const int64_t width = (cols + STRIP_GRAIN - 1) / STRIP_GRAIN * STRIP_GRAIN;
            const struct strip strip = {y + c, panel, m};
            const struct strip_factor f = {.a = x + t,
                                           .a_row = k,
                                           .a_col = 1,
                                           .k = run,
                                           .ldy = ldy,
                                           .ldb = width,
                                           .cols = width,
                                           .add = t > 0};
            panels_copy(panel, width, &(struct panels_factor){w + c * k + t, k, false}, cols, run);
            if (width == cols)
                strip_products(&strip, 1, &f, run);
            else
                product_edge(y + c, ldy, &strip, f, cols);
        }
    return true;
}
