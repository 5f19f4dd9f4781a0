/* Tiled attention against the full softmax in f64: long sequences, grouped heads, the fused layout,
 * windows. */
#include "math/linalg.h"
#include "model/model_internal.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 3;
static float uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(seed >> 11) / 4503599627370496.0 - 1.0);
}

/* out (D) = attention of query position t of one head, the sequence starting at row 0 of qkv; keys
 * from `valid` on are padding, and a query that sees no other key gets 0. */
static void plain(const struct spec *s, const float *qkv, int64_t head, int64_t t, int64_t valid,
                  double *out)
{
    int64_t W = qkv_width(s), D = s->shape.head_dim, q, k, v;
    int64_t from = s->window && t >= s->window ? t - s->window + 1 : 0;
    int64_t last = t < valid ? t : valid - 1;
    double sum = 0, top = -INFINITY, *p = calloc((size_t)t + 1, sizeof *p);
    qkv_columns(s, head, &q, &k, &v);
    for (int64_t j = from; j <= last; j++) {
        for (int64_t i = 0; i < D; i++) p[j] += (double)qkv[t * W + q + i] * qkv[j * W + k + i];
        p[j] /= sqrt((double)D);
        top = fmax(top, p[j]);
    }
    for (int64_t i = 0; i < D; i++) out[i] = 0;
    for (int64_t j = from; j <= last; j++) sum += p[j] = exp(p[j] - top);
    for (int64_t j = from; j <= last; j++)
        for (int64_t i = 0; i < D; i++) out[i] += p[j] / sum * qkv[j * W + v + i];
    free(p);
}

static void check_valid(int64_t heads, int64_t kv_heads, bool fused, int64_t window, int64_t *valid)
{
    enum { D = 8, LONG = 1300 };
    static struct model m;
    int64_t offset[] = {0, 1, 1 + LONG, LONG + 71};
    struct sequences s = {.n = 3, .offset = offset, .valid = valid};
    struct acts a;
    struct err e = {0};
    m.spec = (struct spec){.shape = {.hidden = 8,
                                     .heads = heads,
                                     .kv_heads = kv_heads,
                                     .head_dim = D,
                                     .intermediate = 8},
                           .rope = {{.half = D / 2}},
                           .n_ropes = 1,
                           .fused = fused,
                           .window = window,
                           .flags = {window ? LAYER_WINDOW : 0}};
    assert_int_equal(model_acts_init(&m, offset[3], &a, &e), OK);
    int64_t W = qkv_width(&m.spec), ld = heads * D;
    for (int64_t i = 0; i < offset[3] * W; i++) a.inner[i] = 2.0f * uniform();
    acts_cut(&a, &s, 0, 3, TOKEN_TILE, false);
    attention_forward(&m, &(struct block){0}, &a, false);
    for (int64_t n = 0; n < 3; n++)
        for (int64_t t = 0; t < offset[n + 1] - offset[n]; t += t < 70 ? 1 : 37)
            for (int64_t h = 0; h < heads; h++) {
                double want[D];
                plain(&m.spec, a.inner + offset[n] * W, h, t,
                      valid ? valid[n] : offset[n + 1] - offset[n], want);
                for (int i = 0; i < D; i++)
                    assert_true(fabs(a.in[(offset[n] + t) * ld + h * D + i] - want[i]) < 2e-6);
            }
    model_acts_free(&a);
}

static void check(int64_t heads, int64_t kv_heads, bool fused, int64_t window)
{
    check_valid(heads, kv_heads, fused, window, NULL);
}

/* Padding that starts inside a tile of queries, a tile of keys, and between tiles; padding queries
 * see the real tokens too. */
static void filled_up(void **state)
{
    (void)state;
    int64_t some[] = {1, 900, 40}, few[] = {1, 1, 64}, all[] = {1, 1300, 70}, edge[] = {1, 512, 1};
    int64_t *const cases[] = {some, few, all, edge};
    for (int i = 0; i < 4; i++) {
        check_valid(4, 2, false, 0, cases[i]);
        check_valid(2, 2, true, 0, cases[i]);
        check_valid(2, 1, false, 50, cases[i]);
    }
}

static void grouped_heads(void **state)
{
    (void)state;
    check(4, 2, false, 0);
}

static void fused_heads(void **state)
{
    (void)state;
    check(3, 3, true, 0);
}

static void windows_see_only_their_keys(void **state)
{
    (void)state;
    check(2, 1, false, 1);
    check(2, 1, false, 50);
    check(2, 1, false, 600);
    check(2, 1, false, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grouped_heads),
        cmocka_unit_test(fused_heads),
        cmocka_unit_test(windows_see_only_their_keys),
        cmocka_unit_test(filled_up),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
