/* SmoothQuant of a model against its authors' code (tests/fixtures/activations): factors of
 * channels, logits and losses, with a scale for each token or all of a call, and outputs of q, k
 * and v in 8 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../model/grids.h"
#include "math/linalg.h"
#include "quant/quant.h"

/* Memory of the method's own options. */
struct own {
    double migration;
    int smoothed, granularity;
};

/* The linears of the last block. */
struct smooth {
    const struct fixture *f;
    bool weights;        /* those of the first block are compared with the fixture's */
    const char *factors; /* of the fixture, compared with the method's; NULL: there are none */
    struct quant_options options;
    void *linear[LINEARS_MAX];
};

static void forget(struct smooth *s)
{
    for (int i = 0; i < LINEARS_MAX; i++) quant_smoothquant.free_linear(s->linear[i]);
    memset(s->linear, 0, sizeof s->linear);
}

/* struct factors of quant/smoothquant.c: a number, then the factors. */
static void check_factors(const struct smooth *s, int64_t layer, int stage, const void *prepared)
{
    char key[64];
    const float *factor = (const float *)((const double *)prepared + 1);
    snprintf(key, sizeof key, "%s.%d.%d.s", s->factors, (int)layer, stage);
    const struct fixture_tensor t = fixture_get(s->f, key);
    for (int64_t j = 0; j < t.dim[0]; j++) assert_true(fabsf(factor[j] - t.f[j]) <= 2e-6f * t.f[j]);
}

/* The weights that the codes amount to times the factors are the fixture's. */
static void check_weights(const struct smooth *s, const struct quant_job *job, const char *linear)
{
    char key[64];
    struct err e = {0};
    struct quant_report report;
    const int64_t n = job->rows * job->cols;
    const float *factor = (const float *)((const double *)job->prepared + 1);
    struct quant_job own = *job;
    float *q = malloc((size_t)n * sizeof *q);
    own.q = q;
    must(quant_smoothquant.run(&own, &report, &e), &e);
    const char *dot = strstr(linear, ".weight"), *name = dot;
    while (name[-1] != '.') name--;
    snprintf(key, sizeof key, "%.*s.Wq", (int)(dot - name), name);
    const float *reference = fixture_get(s->f, key).f;
    for (int64_t i = 0; i < n; i++)
        assert_true(fabsf(q[i] * factor[i % job->cols] - reference[i]) <=
                    3e-6f * fabsf(reference[i]));
    free(q);
}

static void quantize(void *context, struct block *b)
{
    struct smooth *s = context;
    struct err e = {0};
    struct quant_linear linear[LINEARS_MAX];
    struct quant_input input[STAGE_N] = {0};
    double most[STAGE_N][96];
    void *prepared[STAGE_N] = {NULL};
    forget(s);
    for (int i = 0; i < b->n_linears; i++) {
        const struct linear *l = &b->linear[i];
        const bool behind = s->factors && (l->stage == STAGE_QKV || l->stage == STAGE_UP);
        linear[i] = (struct quant_linear){.name = l->name,
                                          .rows = l->rows,
                                          .cols = l->cols,
                                          .w = l->w,
                                          .stage = l->stage,
                                          .tie = behind ? TIE_NORM : TIE_NONE};
        input[l->stage] = (struct quant_input){.cols = l->cols};
        input[l->stage].statistic[STATISTIC_LARGEST] = most[l->stage];
        for (int64_t j = 0; behind && j < l->cols; j++) {
            char key[64];
            snprintf(key, sizeof key, "%d.%d.absmax", (int)b->layer, l->stage);
            most[l->stage][j] = (double)fixture_get(s->f, key).f[j];
        }
    }
    const struct quant_block block = {.bits = 8,
                                      .options = &s->options,
                                      .n_linears = b->n_linears,
                                      .n_stages = STAGE_N,
                                      .linear = linear,
                                      .input = input};
    must(quant_smoothquant.prepare_block(&block, prepared, &e), &e);
    for (int i = 0; i < b->n_linears; i++) {
        struct linear *l = &b->linear[i];
        const struct quant_job job = {.bits = 8,
                                      .options = &s->options,
                                      .rows = l->rows,
                                      .cols = l->cols,
                                      .w = l->w,
                                      .prepared = prepared[l->stage]};
        if (s->weights && b->layer == 0) check_weights(s, &job, l->name);
        must(quant_smoothquant.make_linear(&job, 96, &s->linear[i], &e), &e);
        l->apply = quant_smoothquant.apply;
        l->computing = s->linear[i];
    }
    for (int stage = 0; stage < STAGE_N; stage++) {
        if (s->factors && (stage == STAGE_QKV || stage == STAGE_UP))
            check_factors(s, b->layer, stage, prepared[stage]);
        quant_smoothquant.release(prepared[stage]);
    }
}

/* The logits of the first half of the first sequence, whose normed hidden states x has, are the
 * fixture's within 1e-5 of the largest; later ones may see a code that near ties decide. */
static void check_logits(const struct fixture *f, const struct model *m, const float *x)
{
    const int64_t C = model_shape(m)->hidden;
    const struct fixture_tensor t = fixture_get(f, "logits");
    double size = 0, most = 0;
    for (int64_t i = 0; i < t.dim[0] / 2 * t.dim[1]; i++) {
        double logit = 0;
        for (int64_t c = 0; c < C; c++)
            logit += (double)x[i / t.dim[1] * C + c] * (double)model_head(m)[i % t.dim[1] * C + c];
        size = fmax(size, fabs((double)t.f[i]));
        most = fmax(most, fabs(logit - (double)t.f[i]));
    }
    print_message("logits: %.1e\n", most / size);
    assert_true(most <= 1e-5 * size);
}

static void test_losses_of_the_authors(void **state)
{
    (void)state;
    static const struct {
        const char *name, *factors;
        struct own own;
        int64_t qkv_bits;
    } settings[] = {
        {"W8A8", NULL, {0.5, 0, 0}, 0},
        {"W8A8_alpha0.5", "alpha0.5", {0.5, 0, 0}, 0},
        {"W8A8_alpha0.8", "alpha0.8", {0.8, 0, 0}, 0},
        {"W8A8_alpha0.5_per_tensor", "alpha0.5", {0.5, 0, 1}, 0},
        {"W8A8_alpha0.5_qkv8", "alpha0.5", {0.5, 0, 0}, 8},
    };
    struct fixture f;
    struct opened o = open_fixture("llama");
    assert_true(fixture_open(&f, FIXTURES "/activations", "smooth"));
    struct sequences s = sequences_of(&f, "ids");
    /* A call of several texts: parts of one sequence that see nothing of each other. */
    const int64_t T = s.offset[1];
    struct segment parts[] = {{.parent = -1}, {.row = T, .parent = -1}};
    int64_t all[] = {0, 2 * T}, first[] = {0, 2};
    const struct sequences call = {
        .n = 1, .offset = all, .ids = s.ids, .segments = parts, .first_segment = first};
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        char key[64];
        double nll[2 * 47];
        struct smooth smooth = {.f = &f, .factors = settings[k].factors, .weights = k == 1};
        const struct activation_grid none = {.bits = ACTIVATION_BITS_NONE};
        struct setting how = {
            .grids = {none, none, none}, .quantize = quantize, .context = &smooth};
        how.grids.inputs.qkv_bits = settings[k].qkv_bits;
        options_default(&quant_table, &smooth.options);
        memcpy(&smooth.options.own[METHOD_smoothquant], &settings[k].own, sizeof(struct own));
        float *x = run_setting(o.model, settings[k].own.granularity ? &call : &s, &how, false);
        losses(o.model, &s, x, nll);
        snprintf(key, sizeof key, "%s.nll", settings[k].name);
        check_losses(settings[k].name, json_object_get(f.meta, settings[k].name), nll,
                     fixture_get(&f, key).data, 2 * 47);
        if (k == 1) check_logits(&f, o.model, x);
        forget(&smooth);
        free(x);
    }
    /* Factors without rounding change nothing. */
    double nll[2 * 47];
    float *plain = forward(o.model, &s, s.offset[s.n]);
    losses(o.model, &s, plain, nll);
    check_losses("W16A16_alpha0.5", json_object_get(f.meta, "W16A16_alpha0.5"), nll,
                 fixture_get(&f, "W16A16_alpha0.5.nll").data, 2 * 47);
    free(plain);
    sequences_free(&s);
    fixture_close(&f);
    close_fixture(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses_of_the_authors)};
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
