/* Derivatives of RMSNorm and LayerNorm. With h = (x - mean) r the normalised row, r = 1 / sqrt(var
 * + eps), and <.> the mean over a row: dh = r (dx - <dx> - h <h dx>),  dr = -r^2 <h dx> where only
 * LayerNorm has the term <dx>. The map is symmetric, so adjoints have the same form, with u = w gy:
 *   gx = r (u - <u> - h <h u>)
 * and their tangent follows by the product rule over r, u and h. */
#include "math/diff.h"
#include "math/diff_lane.h"

struct row {
    real mean, r;
};

KERN_LANE struct row row_of(const struct diff_norm *f, const real *x)
{
    struct row s = {0};
    const int64_t n = f->n;
    real squares;
    if (f->centred) {
        REAL_SUM(s.mean, i, 0, n, x[i]);
        s.mean /= (real)n;
    }
    const real mean = s.mean;
    REAL_SUM(squares, i, 0, n, (x[i] - mean) * (x[i] - mean));
    s.r = 1 / real_sqrt(squares / (real)n + f->eps);
    return s;
}

KERNEL(void, diff_norm,
       (const struct diff_norm *f, real *y, int64_t ldy, const real *x, int64_t ldx, int64_t T),
       (f, y, ldy, x, ldx, T))
{
    const real *w = f->w, *b = f->b;
    for (int64_t t = 0; t < T; t++, x += ldx, y += ldy) {
        const struct row s = row_of(f, x);
#pragma omp simd
        for (int64_t i = 0; i < f->n; i++) y[i] = w[i] * ((x[i] - s.mean) * s.r) + b[i];
    }
}

/* <dx> (0 unless centred) and <h dx>. */
KERN_LANE void means(const struct diff_norm *f, struct row s, const real *x, const real *dx,
                     real *m1, real *m2)
{
    const int64_t n = f->n;
    *m1 = 0;
    if (f->centred) {
        REAL_SUM(*m1, i, 0, n, dx[i]);
        *m1 /= (real)n;
    }
    REAL_SUM(*m2, i, 0, n, (x[i] - s.mean) * s.r * dx[i]);
    *m2 /= (real)n;
}

KERNEL(void, diff_norm_tangent,
       (const struct diff_norm *f, real *dy, int64_t ldy, const real *x, const real *dx,
        int64_t ldx, int64_t T),
       (f, dy, ldy, x, dx, ldx, T))
{
    const real *w = f->w, *dw = f->dw, *db = f->db;
    for (int64_t t = 0; t < T; t++, x += ldx, dx += ldx, dy += ldy) {
        const struct row s = row_of(f, x);
        real m1, m2;
        means(f, s, x, dx, &m1, &m2);
#pragma omp simd
        for (int64_t i = 0; i < f->n; i++) {
            real h = (x[i] - s.mean) * s.r;
            dy[i] = w[i] * (s.r * (dx[i] - m1 - h * m2)) + dw[i] * h + db[i];
        }
    }
}

KERNEL(void, diff_norm_adjoint,
       (const struct diff_norm *f, real *gx, const real *x, int64_t ldx, const real *gy,
        int64_t ldy, int64_t T, bool add, real *gw, real *gb),
       (f, gx, x, ldx, gy, ldy, T, add, gw, gb))
{
    const real *w = f->w;
    const int64_t n = f->n;
    for (int64_t t = 0; t < T; t++, x += ldx, gx += ldx, gy += ldy) {
        const struct row s = row_of(f, x);
        real u1 = 0, u2;
        if (f->centred) REAL_SUM(u1, i, 0, n, w[i] * gy[i]);
        REAL_SUM(u2, i, 0, n, w[i] * gy[i] * ((x[i] - s.mean) * s.r));
        u1 /= (real)n, u2 /= (real)n;
        if (!add)
            for (int64_t i = 0; i < n; i++) gx[i] = 0;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            real h = (x[i] - s.mean) * s.r;
            gx[i] += s.r * (w[i] * gy[i] - u1 - h * u2);
            gw[i] += gy[i] * h;
            gb[i] += gy[i];
        }
    }
}

KERNEL(void, diff_norm_adjoint_tangent,
       (const struct diff_norm *f, real *dgx, const real *x, const real *dx, int64_t ldx,
        const real *gy, const real *dgy, int64_t ldy, int64_t T, bool add, real *dgw, real *dgb),
       (f, dgx, x, dx, ldx, gy, dgy, ldy, T, add, dgw, dgb))
{
    const real *w = f->w, *dw = f->dw;
    const int64_t n = f->n;
    for (int64_t t = 0; t < T; t++, x += ldx, dx += ldx, dgx += ldx, gy += ldy, dgy += ldy) {
        const struct row s = row_of(f, x);
        real m1, m2, u1 = 0, u2, v1 = 0, v2;
        means(f, s, x, dx, &m1, &m2);
#define H  ((x[i] - s.mean) * s.r)
#define DH (s.r * (dx[i] - m1 - H * m2))
#define U  (w[i] * gy[i])
#define DU (dw[i] * gy[i] + w[i] * dgy[i])
        if (f->centred) {
            REAL_SUM(u1, i, 0, n, U);
            REAL_SUM(v1, i, 0, n, DU);
        }
        REAL_SUM(u2, i, 0, n, U * H);
        REAL_SUM(v2, i, 0, n, DU * H + U * DH);
        u1 /= (real)n, u2 /= (real)n, v1 /= (real)n, v2 /= (real)n;
        if (!add)
            for (int64_t i = 0; i < n; i++) dgx[i] = 0;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            real h = H, dh = DH, g = U - u1 - h * u2;
            dgx[i] += s.r * (DU - v1 - dh * u2 - h * v2 - s.r * m2 * g);
            dgw[i] += dgy[i] * h + gy[i] * dh;
            dgb[i] += dgy[i];
        }
#undef H
#undef DH
#undef U
#undef DU
    }
}
