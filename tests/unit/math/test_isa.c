/* The kernels give the same bits with every instruction set, for lengths that fill vectors and
 * lengths that do not; and the environment selects the set. test_kern.c tests that each set
 * computes the right values. */
#include "math/diff.h"
#include "math/isa.h"
#include "math/kern_bf16.h"
#include "math/row.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1037, ROOM = 8 };
static uint64_t seed;
static real in[ROOM][N], out[ROOM][N]; /* inputs, and what a case leaves */
static double value[4];                /* likewise: what it returns */

static real uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (real)((double)(seed >> 11) / 4503599627370496.0 - 1.0);
}

/* Inputs in the ranges that the kernels meet: in[0] activations and logits, in[1] near them. */
static void fill(void)
{
    seed = 7;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < ROOM; k++) in[k][i] = uniform();
        in[0][i] *= 12;
        in[1][i] = in[0][i] + in[1][i] / 8;
    }
    memcpy(out, in, sizeof out);
    memset(value, 0, sizeof value);
}

typedef void trial(int64_t n);

static void exponentials(int64_t n)
{
    int64_t first = 0;
    kern_exp_sum(out[0], in[0], n, 0);
    value[0] = (double)kern_max(in[0], n, &first);
    value[1] = (double)first;
    value[2] = kern_exp_sum(out[1], in[0], n, 12.0f);
    kern_exp_sum(out[2], in[1], n, 12.0f);
    value[3] = kern_kl(in[0], out[1], in[1], out[2], 0.01f, n, 0.1f);
}

static void softmax(int64_t n)
{
    float m = -INFINITY, l = 0;
    value[0] = (double)kern_softmax_step(out[0], n, 2, n - 2, 0.7f, &m, &l);
    value[1] = (double)kern_softmax_step(out[1], n, 0, n, 0.7f, &m, &l);
    value[2] = (double)m;
    value[3] = (double)l;
}

static void norms(int64_t n)
{
    struct kern_norm f = {.n = n, .eps = 1e-5f, .centred = true};
    kern_norm(&f, out[2], n, in[0], n, 1);
    f.w = in[1], f.b = in[2];
    kern_norm(&f, out[1], n, in[0], n, 1);
    f.centred = false, f.b = NULL;
    kern_norm(&f, out[0], n, in[0], n, 1);
}

static void activations(int64_t n)
{
    const struct xielu c = {.a = 0.9f, .b = 1.4f, .beta = 0.5f, .eps = -1e-6f};
    kern_silu(out[0], in[0], n);
    kern_silu_mul(out[1], in[0], in[1], n);
    kern_gelu(out[2], in[0], n);
    kern_gelu_tanh(out[3], in[0], n);
    kern_xielu(out[4], in[0], n, &c);
}

static void rounded(int64_t n)
{
    const struct xielu c = {.a = 0.875f, .b = 1.375f, .beta = 0.5f, .eps = -0x1p-20f};
    const struct kern_norm rms = {
        .n = n, .eps = 1e-5f, .w = in[1], .rounded = true, .between = true};
    const struct kern_norm layer = {n, 1e-5f, true, in[1], in[2], true, false};
    kern_norm(&rms, out[0], n, in[0], n, 1);
    kern_norm(&layer, out[1], n, in[0], n, 1);
    kern_bf16_xielu(out[2], in[0], n, &c);
    kern_bf16_rope(out[3], n, 2, n / 2, in[6], in[7], 1, n / 4, true);
    kern_bf16_bias(out[4], n, in[2], 1, n);
}

static void small_steps(int64_t n)
{
    kern_mul(out[0], in[1], n);
    row_axpy(out[1], 1, in[2], n);
    kern_scale(out[2], 0.3f, n);
    row_add_bias(out[3], n, in[4], 1, n);
    row_clip(out[4], n, 0.5f, 1, n);
    row_rope(out[5], n, 2, n / 2, in[6], in[7], 1, n / 4, false);
}

static void diff_norms(int64_t n)
{
    const struct diff_norm rms = {n, (real)1e-5, false, in[2], in[3], in[4], in[5]},
                           centred = {n, (real)1e-5, true, in[2], in[3], in[4], in[5]};
    diff_norm(&rms, out[0], n, in[0], n, 1);
    diff_norm(&centred, out[1], n, in[0], n, 1);
    diff_norm_tangent(&centred, out[2], n, in[0], in[1], n, 1);
    diff_norm_adjoint(&centred, out[3], in[0], n, in[6], n, 1, false, out[4], out[5]);
    diff_norm_adjoint_tangent(&centred, out[6], in[0], in[1], n, in[6], in[7], n, 1, true, out[4],
                              out[5]);
}

static void diff_activations(int64_t n)
{
    for (int f = DIFF_SILU; f <= DIFF_RELU2; f++) {
        diff_act(f, out[f], in[0], in[1], n);
        diff_act_tangent(f, out[3], in[0], in[2], in[1], in[3], n);
        row_add(out[4], out[4], out[3], n);
        diff_act_adjoint(f, out[3], out[5], in[0], in[1], in[4], n);
        row_add(out[6], out[3], out[5], n);
        diff_act_adjoint_tangent(f, out[3], out[5], in[0], in[2], in[1], in[3], in[4], in[5], n);
        row_axpy(out[7], (real)0.3, out[3], n);
    }
}

static void diff_xielus(int64_t n)
{
    const struct diff_xielu c = {(real)0.9, (real)1.4, (real)0.5, (real)-1e-6, 1, 2};
    diff_xielu(&c, out[0], in[0], n);
    diff_xielu_tangent(&c, out[1], in[0], in[2], n);
    diff_xielu_adjoint(&c, out[2], in[0], in[3], n, value);
    diff_xielu_adjoint_tangent(&c, out[3], in[0], in[2], in[3], in[4], n, value, value + 2);
}

static void diff_softmaxes(int64_t n)
{
    const real scale = (real)0.7;
    value[0] = (double)diff_softmax(out[0], n, 1, n - 1, scale);
    diff_softmax_adjoint_tangent(out[1], out[2], out[3], out[4], n, 1, n - 1, scale,
                                 (real)value[0]);
    memcpy(out[5], in[0], sizeof in[0]);
    diff_softmax_tangent(out[5], out[6], n, 1, n - 1, scale, (real)value[0]);
    diff_softmax_tangent(out[5], out[7], n, 1, n - 1, scale, (real)value[0]);
}

static void diff_losses(int64_t n)
{
    value[0] = diff_loss(out[0], n, n / 2, &value[1]);
    value[2] = diff_loss_dot(out[0], out[1], n) / value[1];
    real p = diff_loss_adjoint(out[0], n, n / 2, 1, value[1]);
    value[3] = (double)p;
    diff_loss_adjoint_tangent(out[1], out[0], n, n / 2, p, (real)value[2]);
}

static void diff_rows(int64_t n)
{
    row_rope(out[0], n, 2, n / 2, in[6], in[7], 1, n / 4, true);
    row_add_bias(out[1], n, in[4], 1, n);
    row_sum(out[2], in[3], n, 1, n);
    row_clip(out[3], n, (real)0.5, 1, n);
    row_clip_mask(out[4], in[3], n, (real)0.5, 1, n);
}

static const struct {
    const char *name;
    trial *run;
} trials[] = {
    {"exponentials", exponentials},
    {"softmax", softmax},
    {"norms", norms},
    {"activations", activations},
    {"rounded to bf16", rounded},
    {"small steps", small_steps},
    {"diff: norms", diff_norms},
    {"diff: activations", diff_activations},
    {"diff: xielu", diff_xielus},
    {"diff: softmax", diff_softmaxes},
    {"diff: losses", diff_losses},
    {"diff: rows", diff_rows},
};

static void same_bits(void **ignored)
{
    (void)ignored;
    static real plain[ROOM][N];
    double plain_value[4];
    const int64_t lengths[] = {5, 16, 67, 128, N};
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            for (int isa = ISA_PLAIN; isa < ISA_N; isa++) {
                if (!isa_runs((enum isa)isa)) continue;
                isa_use((enum isa)isa);
                fill();
                trials[t].run(lengths[k]);
                if (isa == ISA_PLAIN) {
                    memcpy(plain, out, sizeof plain);
                    memcpy(plain_value, value, sizeof value);
                    assert_memory_not_equal(out, in, sizeof in); /* the kernel changed its output */
                }
                if (memcmp(plain, out, sizeof out) != 0 ||
                    memcmp(plain_value, value, sizeof value) != 0)
                    fail_msg("%s of %lld: %s differs from plain", trials[t].name,
                             (long long)lengths[k], isa_name((enum isa)isa));
            }
}

static void environment_chooses(void **ignored)
{
    (void)ignored;
    struct err e = {0};
    for (int isa = ISA_PLAIN; isa < ISA_N; isa++) {
        setenv("QTRAJ_KERNELS", isa_name((enum isa)isa), 1);
        err_clear(&e);
        enum status st = isa_setup(&e);
        if (isa_runs((enum isa)isa)) {
            assert_int_equal(st, OK);
            assert_int_equal(isa_active(), isa);
        } else {
            assert_int_equal(st, ERR_USAGE);
            assert_non_null(strstr(e.text, "widest here"));
        }
    }
    setenv("QTRAJ_KERNELS", "sse9", 1);
    err_clear(&e);
    assert_int_equal(isa_setup(&e), ERR_USAGE);
    assert_non_null(strstr(e.text, "sse9"));
    unsetenv("QTRAJ_KERNELS");
    isa_use(ISA_PLAIN);
    assert_int_equal(isa_setup(&e), OK);
    assert_true(isa_runs(isa_active()));
    for (int isa = (int)isa_active() + 1; isa < ISA_N; isa++) assert_false(isa_runs((enum isa)isa));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits),
                                       cmocka_unit_test(environment_chooses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
