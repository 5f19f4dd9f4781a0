#include "math/sums.h"
#include "math/isa.h"
#include "math/panels.h"
#include "math/strip.h"
#include "util/mem.h"
#include "util/num.h"

/* DEPTH terms are multiplied and added one after the other before their sum is added to the result.
 * ROWS rows of x at a time stay in the first cache while all panels pass them. */
enum { DEPTH = 512, ROWS = 6 };

/* The last n columns, which do not fill a panel. */
static void product_edge(const struct strip *s, struct strip_factor f, int64_t n)
{
    float tile[ROWS * STRIP_COLS];
    const int64_t ldy = f.ldy;
    const bool add = f.add;
    f.ldy = f.cols;
    f.add = false;
    strip_products(&(struct strip){tile, s->b, s->rows}, 1, &f, f.k);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const float sum = tile[i * f.cols + j];
            s->y[i * ldy + j] = add ? s->y[i * ldy + j] + sum : sum;
        }
}

/* y (rows, cols) = or += rows of a times panels that follow each other. */
static void product_rows(float *y, int64_t rows, int64_t cols, const float *panels,
                         const struct strip_factor *f)
{
    struct strip s[STRIP_COLS / STRIP_GRAIN];
    int n = 0;
    for (int64_t c = 0; c < cols; c += f->cols)
        s[n++] = (struct strip){y + c, panels + c * f->k, rows};
    const int64_t rest = cols % f->cols;
    if (rest > 0) product_edge(&s[--n], *f, rest);
    strip_products(s, n, f, f->k);
}

bool sums_nt(float *y, int64_t ldy, const float *x, const float *w, int64_t m, int64_t n, int64_t k)
{
    const int64_t depth = k <= 2 * DEPTH ? DEPTH : 2 * DEPTH;
    const int64_t widest = isa_active() == ISA_AVX512 ? STRIP_COLS : STRIP_GRAIN;
    static _Thread_local struct mem_kept buffer;
    float *panels = mem_keep(&buffer, STRIP_COLS * min64(depth, k) * (int64_t)sizeof *panels);
    if (!panels) return false;
    for (int64_t c = 0; c < n; c += STRIP_COLS)
        for (int64_t t = 0; t < k || t == 0; t += depth) {
            const int64_t cols = min64(n - c, STRIP_COLS), run = min64(k - t, depth);
            const int64_t grains = (cols + STRIP_GRAIN - 1) / STRIP_GRAIN;
            const int64_t width = min64(grains * STRIP_GRAIN, widest);
            struct strip_factor f = {
                .a_row = k, .a_col = 1, .k = run, .ldy = ldy, .ldb = width, .cols = width};
            f.add = t > 0;
            for (int64_t j = 0; j < cols; j += width)
                panels_copy(panels + j * run, width,
                            &(struct panels_factor){w + (c + j) * k + t, k, false},
                            min64(cols - j, width), run);
            for (int64_t r = 0; r < m; r += ROWS) {
                f.a = x + r * k + t;
                product_rows(y + r * ldy + c, min64(m - r, ROWS), cols, panels, &f);
            }
        }
    return true;
}
