/* Scores of the inputs of a model's linears on a calibration text, and the order of channels by
 * them, against Atom's, QUIK's and SmoothQuant's code (tests/fixtures/activations; SmoothQuant's
 * largest inputs are QUIK's bit for bit). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../model/grids.h"
#include "math/linalg.h"
#include "quant/statistic.h"

enum { CHANNELS_MAX = 96, SCORES = 3 };

/* The name of the fixture, the reference's score over the statistic; 0: the fixture has places in
 * the order for scores. */
static const struct {
    const char *name;
    int statistic;
    double factor;
} scores_of[SCORES] = {{"atom", STATISTIC_SQUARES_FULL, 2. / 8},
                       {"quik", STATISTIC_LARGEST_FULL, 1},
                       {"abs_mean", STATISTIC_MEAN_FULL, 0}};

/* Scores within 1e-5; the same order. Channels with equal scores of the reference, as o's inputs at
 * the first token in heads that share their values, may stand in any order: compared are scores by
 * place. */
static double check_scores(const struct fixture *f, int k, int64_t layer, int stage,
                           const double *sum, int64_t n)
{
    char key[64];
    double worst = 0;
    int32_t own[CHANNELS_MAX], order[CHANNELS_MAX];
    struct err e = {0};
    snprintf(key, sizeof key, "model.%s.%d.%d.score", scores_of[k].name, (int)layer, stage);
    const struct fixture_tensor t = fixture_get(f, key);
    const double *reference = t.data;
    assert_int_equal(t.dim[0], n);
    for (int64_t j = 0; j < n && scores_of[k].factor > 0; j++)
        worst = fmax(worst, fabs(scores_of[k].factor * sum[j] / reference[j] - 1));
    if (worst >= 1e-5) fail_msg("%s: %g", key, worst);
    must(activation_order(sum, n, own, &e), &e);
    must(activation_order(reference, n, order, &e), &e);
    for (int64_t j = 0; j < n; j++)
        if (own[j] != order[j] && fabs(reference[own[j]] / reference[order[j]] - 1) > 1e-6)
            fail_msg("%s: place %d: channel %d, not %d", key, (int)j, (int)own[j], (int)order[j]);
    return worst;
}

static void test_scores_of_the_authors(void **state)
{
    (void)state;
    struct fixture f;
    struct acts a;
    struct block b;
    struct err e = {0};
    struct opened o = open_fixture("llama");
    double sum[STAGE_N][SCORES][CHANNELS_MAX], worst[SCORES] = {0};
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    struct sequences s = sequences_of(&f, "calibration_ids");
    const int64_t T = s.offset[s.n];
    float *x = malloc((size_t)(T * model_shape(o.model)->hidden) * sizeof *x);
    assert_int_equal(s.n, 8);
    must(model_acts_init(o.model, T, &a, &e), &e);
    must(model_embed(o.model, &s, x, &e), &e);
    for (int64_t layer = 0; layer < model_shape(o.model)->layers; layer++) {
        must(model_block_load(o.model, layer, &b, &e), &e);
        memset(sum, 0, sizeof sum);
        for (int stage = 0; stage < STAGE_N; stage++) {
            int64_t cols = 0;
            for (int i = 0; i < b.n_linears; i++)
                if (b.linear[i].stage == stage) cols = b.linear[i].cols;
            model_stage_input(o.model, &b, stage, &s, 0, s.n, x, &a);
            const struct statistic_range all = {
                .x = a.in, .cols = cols, .offset = s.offset, .n = s.n, .tokens = T};
            for (int k = 0; k < SCORES; k++) {
                const struct statistic *own = statistic_at(scores_of[k].statistic);
                assert_int_equal(own->count(cols), cols);
                must(own->add(sum[stage][k], &all, &e), &e);
                worst[k] = fmax(worst[k], check_scores(&f, k, layer, stage, sum[stage][k], cols));
            }
            model_stage_output(o.model, &b, stage, &s, 0, s.n, x, &a);
        }
        model_block_free(&b);
    }
    for (int k = 0; k < SCORES; k++) print_message("%s: %.1e\n", scores_of[k].name, worst[k]);
    free(x);
    model_acts_free(&a);
    sequences_free(&s);
    fixture_close(&f);
    close_fixture(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scores_of_the_authors)};
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
