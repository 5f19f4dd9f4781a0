/* The head's scores against f64 sums over all logits, and the statistics by hand. */
#include "eval/head.h"
#include "eval/metric.h"
#include "math/kern_ref.h"
#include "math/linalg.h"
#include "text_spans.h"
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

/* The first sum of a metric, of unit i. */
static double sum_of(const struct scores *x, const struct metric *m, int64_t i)
{
    return x->sum[i * metrics_sums() + metrics_first_sum(m)];
}
static double nll_of(const struct scores *x, int64_t i)
{
    return sum_of(x, &metric_loss, i);
}
static double kl_of(const struct scores *x, int64_t i)
{
    return sum_of(x, &metric_kl_divergence, i);
}
static int64_t top1_of(const struct scores *x, int64_t i)
{
    return (int64_t)sum_of(x, &metric_top1_agreement, i);
}

/* Scores the streams of `s`, full precision first. */
static void score(const float *const *x, int64_t n_streams, struct scores *out)
{
    struct err e = {0};
    struct span *spans;
    for (int64_t k = 0; k < n_streams; k++) must(scores_init(&out[k], N, &e), &e);
    must(text_spans(&s, &spans, &e), &e);
    must(head_score(model, spans, N, x, n_streams, out, &e), &e);
    free(spans);
}

static void scores_free_all(struct scores *x, int n)
{
    for (int k = 0; k < n; k++) scores_free(&x[k]);
}

/* nll, kl and agreement of sequence i from all logits. */
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
    struct scores of[3];
    const float *all[3] = {full, near, far};
    float *logits[3];
    for (int k = 0; k < 3; k++) {
        logits[k] = malloc(sizeof(float) * TOKENS * V);
        for (int64_t i = 0; i < N; i++) /* the same slices as the scores: same bits */
            must(head_logits(model, all[k] + offsets[i] * C, offsets[i + 1] - offsets[i] - 1,
                             logits[k] + offsets[i] * V, &e),
                 &e);
    }
    score(all, 3, of);
    for (int64_t i = 0; i < N; i++)
        for (int k = 0; k < 3; k++) {
            double nll, kl;
            int64_t top1;
            by_hand(logits[0], logits[k], i, &nll, &kl, &top1);
            assert_true(fabs(nll_of(&of[k], i) - nll) <= 1e-7 * nll);
            if (k == 0) assert_true(kl_of(&of[k], i) == 0);
            if (k > 0 && !(fabs(kl_of(&of[k], i) - kl) <= 3e-6 * kl))
                fail_msg("stream %d, sequence %d: KL %.9g, expected %.9g", k, (int)i,
                         kl_of(&of[k], i), kl);
            assert_int_equal(top1_of(&of[k], i), top1);
        }
    assert_true(kl_of(&of[1], 0) > 0 && kl_of(&of[1], 0) < 1e-4 * kl_of(&of[2], 0));
    assert_true(nll_of(&of[0], 1) == 0 && top1_of(&of[2], 1) == 0);
    for (int k = 0; k < 3; k++) free(logits[k]);
    scores_free_all(of, 3);
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    struct scores of[3][2];
    const float *x[2] = {full, far};
    for (int k = 0; k < 3; k++) {
        omp_set_num_threads(k + 1);
        score(x, 2, of[k]);
        for (int i = 0; i < 2; i++)
            assert_memory_equal(of[k][i].sum, of[0][i].sum,
                                (size_t)(N * metrics_sums()) * sizeof(double));
    }
    for (int k = 0; k < 3; k++) scores_free_all(of[k], 2);
}

/* A stream compared with itself has divergence exactly 0. */
static void same_stream_has_no_divergence(void **state)
{
    (void)state;
    struct scores of[2];
    score((const float *[]){full, full}, 2, of);
    for (int i = 0; i < N; i++) {
        assert_true(kl_of(&of[1], i) == 0 && nll_of(&of[1], i) == nll_of(&of[0], i));
        assert_int_equal(top1_of(&of[1], i), offsets[i + 1] - offsets[i] - 1);
    }
    scores_free_all(of, 2);
}

/* A stream with NaN gives NaN, not a hang or a number. */
static void nan_stays_nan(void **state)
{
    (void)state;
    struct scores of[2];
    static float broken[TOKENS * C];
    memcpy(broken, full, sizeof broken);
    broken[3] = NAN;
    score((const float *[]){full, broken}, 2, of);
    assert_true(isnan(nll_of(&of[1], 0)) && isnan(kl_of(&of[1], 0)));
    assert_true(nll_of(&of[1], 2) == nll_of(&of[0], 2));
    scores_free_all(of, 2);
}

/* Some positions of some sequences, with targets of their own, two spans in one unit: what the
 * choices of a question need. */
static void spans_choose_positions(void **state)
{
    (void)state;
    struct err e = {0};
    enum { CHOICES = 2, LAST = 259 };
    const float *x = full;
    struct scores of;
    float logits[2 * V];
    int32_t target[] = {7, 200};
    const struct span spans[] = {
        {.row = LAST, .n = 1, .target = &target[0], .unit = 1},
        {.row = 299, .n = 1, .target = &target[1], .unit = 0},
        {.row = LAST, .n = 1, .target = &target[1], .unit = 1},
    };
    must(scores_init(&of, CHOICES, &e), &e);
    must(head_score(model, spans, 3, &x, 1, &of, &e), &e);
    for (int i = 0; i < 2; i++)
        must(head_logits(model, full + (i ? 299 : LAST) * C, 1, logits + i * V, &e), &e);
    double p[V], first = ref_softmax(p, logits, V), second = ref_softmax(p, logits + V, V);
    double both = 2 * first - logits[7] - logits[200], one = second - logits[V + 200];
    assert_true(fabs(nll_of(&of, 1) - both) <= 1e-6 * both);
    assert_true(fabs(nll_of(&of, 0) - one) <= 1e-6 * one);
    assert_int_equal(top1_of(&of, 1), 2);
    scores_free(&of);
}

/* Spans of one sequence go through the output matrix together, whatever their lengths, and
 * positions that follow each other only once: the same sums as of spans that are each a sequence of
 * its own. */
static void spans_of_a_sequence_share_slices(void **state)
{
    (void)state;
    struct err e = {0};
    enum { SPANS = 90, STREAMS = 3 };
    struct span spans[SPANS];
    struct scores of[3][STREAMS];
    const float *x[STREAMS] = {full, near, far};
    for (int i = 0; i < SPANS; i++)
        spans[i] = (struct span){.row = i * 7 % 250, .n = 1 + i % 5, .target = ids + i, .unit = i};
    for (int i = 1; i < SPANS; i++) /* three choices of one token behind one context */
        if (i % 15 == 1 || i % 15 == 2) spans[i].row = spans[i - 1].row, spans[i].n = 1;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < SPANS; i++) spans[i].sequence = k == 2 ? i : 0;
        omp_set_num_threads(k + 1);
        for (int i = 0; i < STREAMS; i++) must(scores_init(&of[k][i], SPANS, &e), &e);
        must(head_score(model, spans, SPANS, x, STREAMS, of[k], &e), &e);
    }
    for (int i = 0; i < STREAMS; i++) {
        const size_t size = SPANS * (size_t)metrics_sums() * sizeof(double);
        assert_memory_equal(of[0][i].sum, of[1][i].sum, size);
        for (int u = 0; u < SPANS; u++) {
            const double nll = nll_of(&of[2][i], u), kl = kl_of(&of[2][i], u);
            assert_true(fabs(nll_of(&of[0][i], u) - nll) <= 1e-6 * nll);
            /* logits round differently in other shapes; so near its minimum does the divergence */
            assert_true(fabs(kl_of(&of[0][i], u) - kl) <= 5e-6 * sqrt(kl));
            assert_int_equal(top1_of(&of[0][i], u), top1_of(&of[2][i], u));
        }
    }
    for (int k = 0; k < 3; k++) scores_free_all(of[k], STREAMS);
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* A number of a dataset's record. */
static double number(const json_t *record, const char *field)
{
    const json_t *value = json_object_get(record, field);
    if (!value) fail_msg("no field %s", field);
    return json_number_get(value);
}

/* Three sequences of 5 tokens: losses 2, 3, 4 and 2.2, 3.1, 4.6. */
static void statistics_by_hand(void **state)
{
    (void)state;
    int64_t offset[] = {0, 5, 10, 15};
    int32_t some[15], length[15];
    /* Sums in the order of the table: nll, kl, top1, hits. */
    double f[] = {8, 0, 4, 1, 12, 0, 4, 2, 16, 0, 4, 3};
    double v[] = {8.8, 0.1, 4, 0, 12.4, 0.2, 3, 1, 18.4, 0.3, 2, 2};
    assert_int_equal(metrics_sums(), 4);
    assert_int_equal(metrics_first_sum(&metric_loss), 0);
    assert_int_equal(metrics_first_sum(&metric_hits), 3);
    for (int i = 0; i < 15; i++) some[i] = 0, length[i] = i % 5 ? 3 : 100;
    struct sequences three = {.n = 3, .offset = offset, .ids = some, .bytes = length};
    json_t *a = metrics_record(&three, 0, 3, f, f, METRIC_CHECKPOINT);
    json_t *p = metrics_record(&three, 0, 3, v, f, METRIC_CELL);
    assert_true(close_to(number(a, "loss"), 3) && close_to(number(a, "loss_stderr"), 1 / sqrt(3)));
    assert_true(close_to(number(a, "perplexity"), exp(3)));
    assert_int_equal(json_integer_value(json_object_get(a, "tokens")), 12);
    assert_int_equal(json_integer_value(json_object_get(a, "bytes")), 36);
    assert_true(close_to(number(a, "bits_per_byte"), 36 / (log(2) * 36)));
    assert_null(json_object_get(a, "loss_delta"));
    assert_true(close_to(number(p, "loss"), 3.3) && !json_object_get(p, "loss_stderr"));
    assert_true(close_to(number(p, "loss_delta"), 0.3) &&
                close_to(number(p, "loss_delta_stderr"), sqrt(0.07 / 3)));
    assert_true(close_to(number(p, "loss_relative"), 0.1));
    /* residuals v - 1.1 f: 0, -0.2, 0.2 */
    assert_true(close_to(number(p, "loss_relative_stderr"), sqrt(0.04 / 3) / 3));
    assert_true(close_to(number(p, "kl_divergence"), 0.05) &&
                close_to(number(p, "top1_agreement"), 0.75));
    json_decref(a);
    json_decref(p);
    three.bytes = NULL;
    a = metrics_record(&three, 1, 2, f, f, METRIC_CHECKPOINT);
    assert_true(isnan(number(a, "loss_stderr")) && isnan(number(a, "bits_per_byte")));
    assert_true(number(a, "loss") == 3);
    json_decref(a);
}

/* Unequal lengths: a mean over sequences; one-token sequences do not count. */
static void unequal_lengths(void **state)
{
    (void)state;
    int64_t offset[] = {0, 3, 4, 15};
    double f[] = {2, 0, 2, 0, 0, 0, 0, 0, 30, 0, 10, 0};
    struct sequences three = {.n = 3, .offset = offset};
    json_t *a = metrics_record(&three, 0, 3, f, f, METRIC_CHECKPOINT);
    assert_true(close_to(number(a, "loss"), 2) && number(a, "tokens") == 12);
    assert_true(isnan(json_number_get(json_array_get(json_object_get(a, "sequence_loss"), 1))));
    json_decref(a);
    a = metrics_record(&three, 0, 3, f, f, METRIC_CELL);
    assert_true(close_to(number(a, "loss"), 2) && number(a, "loss_delta") == 0 &&
                number(a, "loss_delta_stderr") == 0 && number(a, "loss_relative") == 0 &&
                number(a, "top1_agreement") == 1);
    json_decref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_match_whole_logits),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(same_stream_has_no_divergence),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(spans_choose_positions),
        cmocka_unit_test(spans_of_a_sequence_share_slices),
        cmocka_unit_test(statistics_by_hand),
        cmocka_unit_test(unequal_lengths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
