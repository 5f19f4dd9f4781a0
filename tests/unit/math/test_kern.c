/* Every vector kernel against its reference in f64, with every instruction set that runs here. */
#include "math/isa.h"
#include "math/kern_ref.h"
#include "math/row.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A small generator, so that inputs are the same everywhere. Returns [-1, 1). */
static uint64_t state = 1;
static float uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(state >> 11) / 4503599627370496.0 - 1.0);
}

static double ulps(float got, double want)
{
    float near = (float)want;
    double ulp = (double)nextafterf(fabsf(near), INFINITY) - fabs((double)near);
    return fabs((double)got - want) / ulp;
}

static void exp_is_within_2_ulp(void **ignored)
{
    (void)ignored;
    enum { N = 1000 };
    float x[N], y[N];
    double worst = 0;
    for (double v = -103.9; v < 88.72; v += N * 3.1e-5) {
        for (int i = 0; i < N; i++) x[i] = (float)(v + i * 3.1e-5);
        kern_exp_sum(y, x, N, 0);
        for (int i = 0; i < N; i++)
            if (x[i] <= 88.7228f) worst = fmax(worst, ulps(y[i], exp((double)x[i])));
    }
    assert_true(worst <= 2.0);
}

static void exp_at_the_edges(void **ignored)
{
    (void)ignored;
    float x[] = {0.0f, -0.0f, 1e-30f, 88.8f, INFINITY, -105.0f, -INFINITY, NAN, -NAN, -87.5f};
    float y[10];
    kern_exp_sum(y, x, 10, 0);
    for (int i = 0; i < 3; i++) assert_true(y[i] == 1.0f);
    assert_true(isinf(y[3]) && isinf(y[4]) && y[5] == 0.0f && y[6] == 0.0f);
    assert_true(isnan(y[7]) && isnan(y[8]));
    assert_true(y[9] > 0 && ulps(y[9], exp(-87.5)) <= 2);
}

static void fill(float *x, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++) x[i] = scale * uniform();
}

static void near_all(const float *y, const double *want, int64_t n, double tolerance)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(y[i] - want[i]) <= tolerance * top))
            fail_msg("[%lld of %lld] %.9g, expected %.9g", (long long)i, (long long)n, y[i],
                     want[i]);
}

enum { WIDE = 5000, ROWS = 3 };
static float x_[ROWS * WIDE + 64], y_[ROWS * WIDE + 64], w_[WIDE], b_[WIDE];
static double want_[WIDE];

static void norms_match(void **ignored)
{
    (void)ignored;
    const int64_t sizes[] = {1, 7, 16, 24, 64, 100, 128, 4096, 4999};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k], ld = n + 3;
        fill(x_, ROWS * ld, 3.0f);
        fill(w_, n, 1.0f);
        fill(b_, n, 1.0f);
        kern_norm(&(struct kern_norm){.n = n, .eps = 1e-5f, .w = w_}, y_, ld, x_, ld, ROWS);
        for (int t = 0; t < ROWS; t++) {
            ref_rms_norm(want_, x_ + t * ld, w_, n, 1e-5f);
            near_all(y_ + t * ld, want_, n, 1e-6);
        }
        for (int affine = 0; affine < 2 && n > 1; affine++) {
            const float *w = affine ? w_ : NULL, *b = affine ? b_ : NULL;
            kern_norm(&(struct kern_norm){n, 1e-5f, true, w, b, false, false}, y_, ld, x_, ld,
                      ROWS);
            for (int t = 0; t < ROWS; t++) {
                ref_layer_norm(want_, x_ + t * ld, w, b, n, 1e-5f);
                near_all(y_ + t * ld, want_, n, 1e-6);
            }
        }
    }
}

/* The mean is subtracted before squaring: a large offset must not degrade the variance. */
static void layer_norm_keeps_a_small_variance(void **ignored)
{
    (void)ignored;
    enum { N = 256 };
    for (int i = 0; i < N; i++) x_[i] = 1000.0f + (float)(i % 16) / 64.0f;
    kern_norm(&(struct kern_norm){.n = N, .eps = 1e-5f, .centred = true}, y_, N, x_, N, 1);
    ref_layer_norm(want_, x_, NULL, NULL, N, 1e-5f);
    near_all(y_, want_, N, 1e-3);
}

static double ref_relu2(double x)
{
    return x > 0 ? x * x : 0;
}

static void activations_match(void **ignored)
{
    (void)ignored;
    enum { N = 4001 };
    const struct xielu c = {.a = 0.9f, .b = 1.4f, .beta = 0.5f, .eps = -9.98e-7f};
    for (int i = 0; i < N; i++) x_[i] = ((float)i - 2000.0f) / 100.0f;
    fill(w_, N, 2.0f);
    const struct {
        void (*fast)(float *y, const float *x, int64_t n);
        double (*plain)(double x);
        double tolerance; /* relative, plus 1e-7 absolute */
    } table[] = {{kern_silu, ref_silu, 4e-7},
                 {kern_gelu, ref_gelu, 4e-7},
                 {kern_gelu_tanh, ref_gelu_tanh, 3e-6},
                 {kern_relu2, ref_relu2, 1e-7}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        table[k].fast(y_, x_, N);
        for (int i = 0; i < N; i++) {
            double want = table[k].plain(x_[i]);
            assert_true(fabs(y_[i] - want) <= 1e-7 + table[k].tolerance * fabs(want));
        }
    }
    kern_silu_mul(y_, x_, w_, N);
    for (int i = 0; i < N; i++)
        assert_true(fabs(y_[i] - ref_silu(x_[i]) * w_[i]) <= 5e-7 * (fabsf(x_[i]) + 0.1));
    kern_xielu(y_, x_, N, &c);
    for (int i = 0; i < N; i++)
        assert_true(fabs(y_[i] - ref_xielu(x_[i], &c)) <=
                    5e-7 * (fabs(ref_xielu(x_[i], &c)) + 0.1));
}

/* Near 0 the terms of xIELU cancel; its relative error must not grow. */
static void xielu_near_zero(void **ignored)
{
    (void)ignored;
    const struct xielu c = {.a = 0.9f, .b = 1.4f, .beta = 0.5f, .eps = -1e-6f};
    for (int i = 0; i < 100; i++) {
        float x = -powf(10.0f, -(float)i / 20.0f), y;
        kern_xielu(&y, &x, 1, &c);
        assert_true(fabs(y - ref_xielu(x, &c)) <= 1e-6 * fabs(ref_xielu(x, &c)));
    }
}

static void rope_rotates(void **ignored)
{
    (void)ignored;
    enum { T = 5, HEADS = 3, D = 12, HALF = 4, LD = HEADS * D + 1 };
    float cosine[T * HALF], sine[T * HALF];
    double angle[T * HALF], want[2 * HALF];
    for (int i = 0; i < T * HALF; i++) {
        angle[i] = 3.0 * uniform();
        cosine[i] = (float)cos(angle[i]);
        sine[i] = (float)sin(angle[i]);
    }
    fill(x_, T * LD, 1.0f);
    memcpy(y_, x_, T * LD * sizeof *x_);
    row_rope(y_, LD, HEADS, D, cosine, sine, T, HALF, false);
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEADS; h++) {
            const float *x = x_ + t * LD + h * D, *y = y_ + t * LD + h * D;
            ref_rope(want, x, angle + t * HALF, HALF);
            near_all(y, want, 2 * HALF, 5e-7);
            for (int j = 2 * HALF; j < D; j++) assert_true(y[j] == x[j]);
        }
}

/* A softmax computed in pieces equals the softmax of the whole row. */
static void softmax_in_pieces(void **ignored)
{
    (void)ignored;
    enum { N = 1000 };
    const float scale = 0.3f;
    for (int64_t piece = 100; piece <= N; piece += 150) {
        float m = -INFINITY, l = 0;
        fill(x_, N, 80.0f);
        for (int i = 0; i < N; i++) w_[i] = scale * x_[i];
        ref_softmax(want_, w_, N);
        memcpy(y_, x_, N * sizeof *x_);
        for (int64_t start = 0; start < N; start += piece) {
            int64_t n = N - start < piece ? N - start : piece;
            kern_scale(y_, kern_softmax_step(y_ + start, n, 0, n, scale, &m, &l), start);
        }
        kern_scale(y_, 1.0f / l, N);
        near_all(y_, want_, N, 2e-6);
    }
}

static void softmax_masks(void **ignored)
{
    (void)ignored;
    float s[50], m = -INFINITY, l = 0;
    fill(s, 50, 1.0f);
    assert_true(kern_softmax_step(s, 50, 7, 7, 1.0f, &m, &l) == 1.0f);
    assert_true(m == -INFINITY && l == 0.0f && s[0] == 0.0f && s[49] == 0.0f);
    fill(s, 50, 1.0f);
    assert_true(kern_softmax_step(s, 50, 3, 41, 1.0f, &m, &l) == 0.0f);
    for (int i = 0; i < 50; i++) assert_true((s[i] > 0) == (i >= 3 && i < 41));
}

static void maximum_is_the_first(void **ignored)
{
    (void)ignored;
    int64_t first;
    for (int64_t n = 1; n < 700; n += 31) {
        fill(x_, n, 1.0f);
        int64_t at = n / 3, again = n - 1;
        x_[at] = x_[again] = 2.0f;
        assert_true(kern_max(x_, n, &first) == 2.0f);
        assert_int_equal(first, at);
    }
    float none[3] = {NAN, NAN, NAN};
    kern_max(none, 3, &first);
    assert_int_equal(first, 0);
}

/* KL of logits that differ by noise of many sizes, down to 1e-11 nats. An error of the logs of the
 * sums, which are f32 inside a run (half an ulp, 6e-8), enters as half its square. */
static void kl_is_right_however_small(void **ignored)
{
    (void)ignored;
    enum { N = 3001 };
    static float z[N], p[N];
    for (float noise = 8.0f; noise > 1e-5f; noise *= 0.3f) {
        int64_t first;
        fill(x_, N, 6.0f);
        for (int i = 0; i < N; i++) z[i] = x_[i] + noise * uniform();
        float mx = kern_max(x_, N, &first), mz = kern_max(z, N, &first);
        double sx = kern_exp_sum(p, x_, N, mx), sz = kern_exp_sum(y_, z, N, mz);
        float offset = (float)(mz + log(sz) - mx - log(sx));
        kern_scale(p, (float)(1 / sx), N);
        double kl = kern_kl(x_, p, z, y_, (float)(1 / sz), N, offset);
        double want = ref_kl(x_, z, N);
        if (!(fabs(kl - want) <= 2e-6 * want + 0.5 * 6e-8 * 6e-8))
            fail_msg("noise %g: KL %.12g, expected %.12g", noise, kl, want);
    }
    double sum = kern_exp_sum(y_, x_, N, 6.0f);
    memcpy(p, y_, sizeof p);
    kern_scale(p, (float)(1 / sum), N);
    assert_true(kern_kl(x_, p, x_, y_, (float)(1 / sum), N, 0.0f) == 0.0);
}

static void log_sums_match(void **ignored)
{
    (void)ignored;
    for (int64_t n = 1; n < WIDE; n = n * 3 + 1) {
        int64_t first;
        fill(x_, n, 10.0f);
        float m = kern_max(x_, n, &first);
        assert_true(fabs(m + log(kern_exp_sum(y_, x_, n, m)) - ref_softmax(want_, x_, n)) < 2e-7);
    }
}

static void small_steps(void **ignored)
{
    (void)ignored;
    float y[6] = {1, -2, 3, -4, 5, -6}, b[2] = {10, 20}, u[6] = {2, 2, 2, 2, 2, 2};
    row_add_bias(y, 3, b, 2, 2);
    const float added[6] = {11, 18, 3, 6, 25, -6};
    assert_memory_equal(y, added, sizeof y);
    row_clip(y, 3, 12, 2, 3);
    const float clipped[6] = {11, 12, 3, 6, 12, -6};
    assert_memory_equal(y, clipped, sizeof y);
    kern_mul(y, u, 6);
    row_axpy(y, 1, u, 6);
    const float last[6] = {24, 26, 8, 14, 26, -10};
    assert_memory_equal(y, last, sizeof y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_2_ulp),
        cmocka_unit_test(exp_at_the_edges),
        cmocka_unit_test(norms_match),
        cmocka_unit_test(layer_norm_keeps_a_small_variance),
        cmocka_unit_test(activations_match),
        cmocka_unit_test(xielu_near_zero),
        cmocka_unit_test(rope_rotates),
        cmocka_unit_test(softmax_in_pieces),
        cmocka_unit_test(softmax_masks),
        cmocka_unit_test(maximum_is_the_first),
        cmocka_unit_test(kl_is_right_however_small),
        cmocka_unit_test(log_sums_match),
        cmocka_unit_test(small_steps),
    };
    int failed = 0;
    for (int isa = ISA_PLAIN; isa < ISA_N; isa++) {
        if (!isa_runs((enum isa)isa)) continue;
        isa_use((enum isa)isa);
        state = 1; /* the same inputs for all */
        printf("with %s\n", isa_name((enum isa)isa));
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
