/* Muon (Jordan et al. 2024, github.com/KellerJordan/Muon): Nesterov momentum, of which matrices
 * within blocks take the nearest orthogonal matrix, about, by five Newton-Schulz steps in f32
 * (there bf16); AdamW for all else. Their size follows Jordan, or Liu et al. 2025 (arXiv
 * 2502.16982), which gives updates the root mean square of AdamW's. */
#include "math/matmul.h"
#include "train/optimizer.h"
#include "util/num.h"
#include <math.h>

static void step(const struct optimizer_step *s, int64_t n, const float *w, const float *g,
                 float *m, float *v, float *out)
{
    const float clip = (float)s->clip, momentum = (float)s->options->momentum;
    const float rest = (float)(1 - s->options->momentum);
    if (!s->matrix) {
        struct optimizer_step other = *s;
        other.rate *= s->options->adamw_rate;
        optimizer_adamw.step(&other, n, w, g, m, v, out);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float x = g[i] * clip;
        m[i] += rest * (x - m[i]);
        out[i] = x + momentum * (m[i] - x);
    }
}

/* y = factor x; adds to what y was if it is to keep a share of it. */
static void scale(float *y, const float *x, float factor, float keep, int64_t n)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; i++) y[i] = (keep == 0 ? 0 : keep * y[i]) + factor * x[i];
}

static double size_of(const struct optimizer_options *o, int64_t rows, int64_t cols)
{
    return o->scale == MUON_RMS ? 0.2 * sqrt((double)max64(rows, cols))
                                : sqrt(fmax(1, (double)rows / (double)cols));
}

/* X <- a X + (b A + c A A) X with A = X Xᵀ, or from the right with XᵀX, the smaller one. */
static void matrix(const struct optimizer_step *s, int64_t rows, int64_t cols, float *w, float *x,
                   float *room)
{
    static const float a = 3.4445F, b = -4.7750F, c = 2.0315F;
    const bool wide = rows <= cols;
    const int64_t n = rows * cols, k = wide ? rows : cols;
    float *y = room, *gram = room + n, *square = gram + k * k;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    scale(x, x, (float)(1 / (sqrt(squares) + 1e-7)), 0, n);
    for (int i = 0; i < 5; i++) {
        mat_tiles(wide ? MAT_NT : MAT_TN, gram, k, x, cols, x, cols, k, k, wide ? cols : rows, 0);
        mat_tiles(MAT_NN, square, k, gram, k, gram, k, k, k, k, 0);
        scale(gram, square, c, b, k * k);
        scale(y, x, a, 0, n);
        mat_tiles(MAT_NN, y, cols, wide ? gram : x, wide ? k : cols, wide ? x : gram, cols, rows,
                  cols, k, 1);
        float *other = x;
        x = y;
        y = other;
    }
    scale(w, x, (float)(-s->rate * size_of(s->options, rows, cols)),
          (float)(1 - s->rate * s->decay), n);
}

const struct optimizer optimizer_muon = {.name = "muon",
                                         .doc = "Muon, and AdamW for all but matrices of blocks",
                                         .moments = 2,
                                         .step = step,
                                         .matrix = matrix};
