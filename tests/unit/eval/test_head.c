/* The head's scores against sums over whole logits in f64, and the statistics by hand. */
#include "eval/head.h"
#include "linalg/linalg.h"
#include "tensor/kern_ref.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { C = 64, V = 256, N = 4, TOKENS = 301 };
static int64_t offsets[N + 1] = {0, 260, 261, 263, TOKENS};
static int32_t ids[TOKENS], bytes[TOKENS];
static struct sequences s = {.n = N, .offset = offsets, .ids = ids, .bytes = bytes};
static struct checkpoint *checkpoint;
static struct model *model;
static float full[TOKENS * C], near[TOKENS * C], far[TOKENS * C];

static void must(enum status st, const struct err *e)
{
    if (st != OK) fail_msg("%s", e->text);
}

static int setup(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t seed = 5;
    must(checkpoint_open(FIXTURES "/models/llama", &checkpoint, &e), &e);
    must(model_open(checkpoint, &model, &e), &e);
    for (int i = 0; i < TOKENS; i++) ids[i] = (i * 53) % V, bytes[i] = 1 + i % 5;
    for (int i = 0; i < TOKENS * C; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float u = (float)((double)(seed >> 11) / 4503599627370496.0 - 1.0);
        full[i] = u;
        near[i] = u + 1e-4f * (float)((int)(seed >> 60) - 8);
        far[i] = u + 0.2f * (float)((int)(seed >> 60) - 8);
    }
    linalg_setup();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    model_close(model);
    checkpoint_close(checkpoint);
    return 0;
}

/* nll, kl and agreement of sequence i from whole logits. */
static void by_hand(const float *x, const float *z, int64_t i, double *nll, double *kl,
                    int64_t *top1)
{
    static double p[V];
    *nll = *kl = 0;
    *top1 = 0;
    for (int64_t t = offsets[i]; t < offsets[i + 1] - 1; t++) {
        const float *a = x + t * V, *b = z + t * V;
        int64_t best_a = 0, best_b = 0;
        for (int64_t v = 1; v < V; v++) {
            if (a[v] > a[best_a]) best_a = v;
            if (b[v] > b[best_b]) best_b = v;
        }
        *nll += ref_softmax(p, b, V) - b[ids[t + 1]];
        *kl += ref_kl(a, b, V);
        *top1 += best_a == best_b;
    }
}

static void scores_match_whole_logits(void **state)
{
    (void)state;
    struct err e = {0};
    struct scores of_full, of[2];
    const float *streams[2] = {near, far}, *all[3] = {full, near, far};
    float *logits[3];
    must(scores_init(&of_full, N, &e), &e);
    for (int k = 0; k < 2; k++) must(scores_init(&of[k], N, &e), &e);
    for (int k = 0; k < 3; k++) {
        logits[k] = malloc(sizeof(float) * TOKENS * V);
        for (int64_t i = 0; i < N; i++) /* the same slices as the scores: same bits */
            must(head_logits(model, all[k] + offsets[i] * C, offsets[i + 1] - offsets[i] - 1,
                             logits[k] + offsets[i] * V, &e),
                 &e);
    }
    must(head_score(model, &s, full, streams, 2, &of_full, of, &e), &e);
    for (int64_t i = 0; i < N; i++) {
        double nll, kl;
        int64_t top1;
        by_hand(logits[0], logits[0], i, &nll, &kl, &top1);
        assert_true(fabs(of_full.nll[i] - nll) <= 1e-7 * nll);
        assert_true(of_full.kl[i] == 0 && of_full.top1[i] == top1);
        for (int k = 0; k < 2; k++) {
            by_hand(logits[0], logits[1 + k], i, &nll, &kl, &top1);
            assert_true(fabs(of[k].nll[i] - nll) <= 1e-7 * nll);
            if (!(fabs(of[k].kl[i] - kl) <= 3e-6 * kl))
                fail_msg("stream %d, sequence %d: KL %.9g, expected %.9g", k, (int)i, of[k].kl[i],
                         kl);
            assert_int_equal(of[k].top1[i], top1);
        }
    }
    assert_true(of[0].kl[0] > 0 && of[0].kl[0] < 1e-4 * of[1].kl[0]);
    assert_true(of_full.nll[1] == 0 && of[1].top1[1] == 0);
    for (int k = 0; k < 3; k++) free(logits[k]);
    scores_free(&of_full);
    for (int k = 0; k < 2; k++) scores_free(&of[k]);
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    struct err e = {0};
    struct scores f[3], v[3];
    const float *stream = far;
    for (int k = 0; k < 3; k++) {
        omp_set_num_threads(k + 1);
        must(scores_init(&f[k], N, &e), &e);
        must(scores_init(&v[k], N, &e), &e);
        must(head_score(model, &s, full, &stream, 1, &f[k], &v[k], &e), &e);
        assert_memory_equal(f[k].nll, f[0].nll, N * sizeof(double));
        assert_memory_equal(v[k].nll, v[0].nll, N * sizeof(double));
        assert_memory_equal(v[k].kl, v[0].kl, N * sizeof(double));
    }
    for (int k = 0; k < 3; k++) scores_free(&f[k]), scores_free(&v[k]);
}

/* A stream compared with itself diverges by nothing at all. */
static void same_stream_has_no_divergence(void **state)
{
    (void)state;
    struct err e = {0};
    struct scores f, v;
    const float *stream = full;
    must(scores_init(&f, N, &e), &e);
    must(scores_init(&v, N, &e), &e);
    must(head_score(model, &s, full, &stream, 1, &f, &v, &e), &e);
    for (int i = 0; i < N; i++) {
        assert_true(v.kl[i] == 0 && v.nll[i] == f.nll[i]);
        assert_int_equal(v.top1[i], offsets[i + 1] - offsets[i] - 1);
    }
    scores_free(&f);
    scores_free(&v);
}

/* A broken stream gives NaN, not a hang or a number. */
static void nan_stays_nan(void **state)
{
    (void)state;
    struct err e = {0};
    struct scores f, v;
    static float broken[TOKENS * C];
    const float *stream = broken;
    memcpy(broken, full, sizeof broken);
    broken[3] = NAN;
    must(scores_init(&f, N, &e), &e);
    must(scores_init(&v, N, &e), &e);
    must(head_score(model, &s, full, &stream, 1, &f, &v, &e), &e);
    assert_true(isnan(v.nll[0]) && isnan(v.kl[0]));
    assert_true(v.nll[2] == f.nll[2]);
    scores_free(&f);
    scores_free(&v);
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* Three sequences of 5 tokens: losses 2, 3, 4 and 2.2, 3.1, 4.6. */
static void statistics_by_hand(void **state)
{
    (void)state;
    struct err e = {0};
    int64_t offset[] = {0, 5, 10, 15};
    int32_t some[15], length[15];
    double nll[] = {8, 12, 16}, variant_nll[] = {8.8, 12.4, 18.4}, kl[] = {0.1, 0.2, 0.3};
    int64_t top1[] = {4, 3, 2};
    for (int i = 0; i < 15; i++) some[i] = 0, length[i] = i % 5 ? 3 : 100;
    struct sequences three = {.n = 3, .offset = offset, .ids = some, .bytes = length};
    struct scores f = {.n = 3, .nll = nll, .kl = kl, .top1 = top1};
    struct scores v = {.n = 3, .nll = variant_nll, .kl = kl, .top1 = top1};
    struct loss_summary a, b;
    struct paired_summary p;
    must(loss_summarise(&three, &f, &a, &e), &e);
    must(loss_summarise(&three, &v, &b, &e), &e);
    paired_summarise(&a, &b, &v, &p);
    assert_true(close_to(a.loss, 3) && close_to(a.loss_stderr, 1 / sqrt(3)));
    assert_true(close_to(a.perplexity, exp(3)));
    assert_int_equal(a.tokens, 12);
    assert_int_equal(a.bytes, 36);
    assert_true(close_to(a.bits_per_byte, 36 / (log(2) * 36)));
    assert_true(close_to(p.delta, 0.3) && close_to(p.delta_stderr, sqrt(0.07 / 3)));
    assert_true(close_to(p.relative, 0.1));
    /* residuals v - 1.1 f: 0, -0.2, 0.2 */
    assert_true(close_to(p.relative_stderr, sqrt(0.04 / 3) / 3));
    assert_true(close_to(p.kl_divergence, 0.05) && close_to(p.top1_agreement, 0.75));
    loss_summary_free(&a);
    loss_summary_free(&b);
    three.n = 1;
    three.bytes = NULL;
    must(loss_summarise(&three, &f, &a, &e), &e);
    assert_true(isnan(a.loss_stderr) && isnan(a.bits_per_byte) && a.loss == 2);
    loss_summary_free(&a);
}

/* Unequal lengths: a mean over sequences; one-token sequences do not count. */
static void unequal_lengths(void **state)
{
    (void)state;
    struct err e = {0};
    int64_t offset[] = {0, 3, 4, 15};
    double nll[] = {2, 0, 30}, zero[3] = {0};
    int64_t top1[3] = {2, 0, 10};
    struct sequences three = {.n = 3, .offset = offset};
    struct scores f = {.n = 3, .nll = nll, .kl = zero, .top1 = top1};
    struct loss_summary a;
    struct paired_summary p;
    must(loss_summarise(&three, &f, &a, &e), &e);
    paired_summarise(&a, &a, &f, &p);
    assert_true(close_to(a.loss, 2) && isnan(a.sequence_loss[1]) && a.tokens == 12);
    assert_true(p.delta == 0 && p.delta_stderr == 0 && p.relative == 0 && p.top1_agreement == 1);
    loss_summary_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_match_whole_logits),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(same_stream_has_no_divergence),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(statistics_by_hand),
        cmocka_unit_test(unequal_lengths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
