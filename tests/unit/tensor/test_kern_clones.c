/* The kernels give the same bits whatever instruction set they are compiled for: here is a second
 * copy of them, built for the baseline, beside the library's, which the loader picked for this
 * machine. */
#define QTRAJ_NO_CLONES
#define kern_exp          plain_exp
#define kern_max          plain_max
#define kern_exp_sum      plain_exp_sum
#define kern_softmax_step plain_softmax_step
#define kern_kl           plain_kl
#define kern_rms_norm     plain_rms_norm
#define kern_layer_norm   plain_layer_norm
#define kern_silu         plain_silu
#define kern_silu_mul     plain_silu_mul
#define kern_gelu         plain_gelu
#define kern_gelu_tanh    plain_gelu_tanh
#define kern_xielu        plain_xielu
#define kern_mul          plain_mul
#define kern_add          plain_add
#define kern_scale        plain_scale
#define kern_add_row      plain_add_row
#define kern_clip         plain_clip
#define kern_rope         plain_rope
#define sum               norm_sum
#include "../../../src/tensor/kern_act.c"
#include "../../../src/tensor/kern_exp.c"
#include "../../../src/tensor/kern_norm.c"
#undef kern_exp
#undef kern_max
#undef kern_exp_sum
#undef kern_softmax_step
#undef kern_kl
#undef kern_rms_norm
#undef kern_layer_norm
#undef kern_silu
#undef kern_gelu
#undef kern_gelu_tanh
#undef kern_xielu
/* The library's declarations again, under their own names. */
void kern_exp(float *y, const float *x, int64_t n);
float kern_max(const float *x, int64_t n, int64_t *first);
double kern_exp_sum(float *y, const float *x, int64_t n, float shift);
float kern_softmax_step(float *s, int64_t n, int64_t lo, int64_t hi, float scale, float *m,
                        float *l);
double kern_kl(const float *x, const float *p, const float *z, const float *e, float e_scale,
               int64_t n, float offset);
void kern_rms_norm(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t T,
                   int64_t n, float eps);
void kern_layer_norm(float *y, int64_t ldy, const float *x, int64_t ldx, const float *w,
                     const float *b, int64_t T, int64_t n, float eps);
void kern_silu(float *y, const float *x, int64_t n);
void kern_gelu(float *y, const float *x, int64_t n);
void kern_gelu_tanh(float *y, const float *x, int64_t n);
void kern_xielu(float *y, const float *x, int64_t n, const struct xielu *c);

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 1037 };
static float x[N], z[N], p[N], a[N], b[N];

static void fill(void)
{
    uint64_t state = 7;
    for (int i = 0; i < N; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = 12.0f * (float)((double)(state >> 11) / 4503599627370496.0 - 1.0);
        z[i] = x[i] + 0.1f * (float)(state >> 60);
    }
}

static void elementwise(void **state)
{
    (void)state;
    typedef void map(float *y, const float *in, int64_t n);
    map *const pairs[][2] = {{kern_exp, plain_exp},
                             {kern_silu, plain_silu},
                             {kern_gelu, plain_gelu},
                             {kern_gelu_tanh, plain_gelu_tanh}};
    const struct xielu c = {.a = 0.9f, .b = 1.4f, .beta = 0.5f, .eps = -1e-6f};
    fill();
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        pairs[k][0](a, x, N);
        pairs[k][1](b, x, N);
        assert_memory_equal(a, b, sizeof a);
    }
    kern_xielu(a, x, N, &c);
    plain_xielu(b, x, N, &c);
    assert_memory_equal(a, b, sizeof a);
}

static void sums(void **state)
{
    (void)state;
    int64_t first, again;
    fill();
    assert_true(kern_max(x, N, &first) == plain_max(x, N, &again) && first == again);
    assert_true(kern_exp_sum(p, x, N, 12.0f) == plain_exp_sum(b, x, N, 12.0f));
    assert_memory_equal(p, b, sizeof b);
    assert_true(kern_kl(x, p, z, b, 0.01f, N, 0.1f) == plain_kl(x, p, z, b, 0.01f, N, 0.1f));
    kern_rms_norm(a, N, x, N, z, 1, N, 1e-5f);
    plain_rms_norm(b, N, x, N, z, 1, N, 1e-5f);
    assert_memory_equal(a, b, sizeof a);
    kern_layer_norm(a, N, x, N, z, z, 1, N, 1e-5f);
    plain_layer_norm(b, N, x, N, z, z, 1, N, 1e-5f);
    assert_memory_equal(a, b, sizeof a);
    float m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};
    memcpy(a, x, sizeof a);
    memcpy(b, x, sizeof b);
    kern_softmax_step(a, N, 3, N - 2, 0.7f, &m[0], &l[0]);
    plain_softmax_step(b, N, 3, N - 2, 0.7f, &m[1], &l[1]);
    assert_memory_equal(a, b, sizeof a);
    assert_true(m[0] == m[1] && l[0] == l[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise), cmocka_unit_test(sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
