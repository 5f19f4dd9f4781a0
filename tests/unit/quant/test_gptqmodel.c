/* GPTQ's orders, static groups, range search and damping against GPTQModel (tests/fixtures/gptq,
 * gptqmodel_*), given its Hessian. */
#include "fixture.h"
#include "math/dtype.h"
#include "math/linalg.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

/* "b3_g32_sym_gar_mse2.4" */
static int64_t setting_parse(const char *name, struct quant_options *o)
{
    const char *mse = strstr(name, "_mse");
    *o = (struct quant_options){.group_size = name[4] == 'a' ? -1 : atoi(name + 4),
                                .symmetric = !strstr(name, "asym"),
                                .order = strstr(name, "_act")   ? ORDER_ACTIVATION
                                         : strstr(name, "_gar") ? ORDER_GROUP
                                                                : ORDER_NONE,
                                .damping = 0.05,
                                .damping_increment = 0.01,
                                .block_size = 128,
                                .static_groups = strstr(name, "_static") != NULL,
                                .range_search = mse ? atof(mse + 4) : 0,
                                .hessian_per_token = true};
    return name[1] - '0';
}

/* The stored H as a sum over tokens: with two tokens H = 2/2 gram. */
static struct quant_input input_make(struct fixture_tensor h)
{
    double *gram;
    int64_t n = h.dim[0];
    assert_int_equal(mem_zero(&gram, n * n, sizeof *gram, "a Gram", NULL), OK);
    for (int64_t i = 0; i < n * n; i++) gram[i] = (double)h.f[i];
    return (struct quant_input){
        .cols = n, .samples = 1, .tokens = 2, .statistic[STATISTIC_GRAM] = gram};
}

/* unrounded: buffer for those weights too, or NULL. */
static float *layer_run(const struct quant_input *in, struct fixture_tensor w,
                        const struct quant_options *o, int64_t bits, float *unrounded,
                        struct quant_report *report)
{
    const struct quant_method *m = quant_find("gptq");
    void *prepared = NULL;
    struct err e = {0};
    float *q = malloc((size_t)(w.dim[0] * w.dim[1]) * sizeof *q);
    struct quant_job job = {.bits = bits,
                            .options = o,
                            .rows = w.dim[0],
                            .cols = w.dim[1],
                            .w = w.f,
                            .q = q,
                            .unrounded = unrounded,
                            .input = in};
    if (m->prepare(in, o, &prepared, &e) != OK) fail_msg("%s", e.text);
    job.prepared = prepared;
    if (m->run(&job, report, &e) != OK) fail_msg("%s", e.text);
    m->release(prepared);
    return q;
}

/* Number of weights that differ from code, scale and zero. */
static int64_t differing(const struct fixture *f, const char *setting, const float *q, int64_t rows,
                         int64_t cols, int64_t group)
{
    char key[96];
    snprintf(key, sizeof key, "%s.codes", setting);
    const uint8_t *codes = fixture_get(f, key).data;
    snprintf(key, sizeof key, "%s.scale", setting);
    struct fixture_tensor scale = fixture_get(f, key);
    snprintf(key, sizeof key, "%s.zero", setting);
    const float *zero = fixture_get(f, key).f;
    snprintf(key, sizeof key, "%s.g_idx", setting);
    const int32_t *index = fixture_get(f, key).data;
    int64_t groups = scale.dim[1], differ = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            int64_t g = group < 0 ? 0 : index ? index[j] : j / group;
            float s = scale.f[i * groups + g], z = zero[i * groups + g];
            float expected = s * ((float)codes[i * cols + j] - z);
            differ += fabsf(q[i * cols + j] - expected) > 1e-4f * fabsf(expected) + 1e-7f;
        }
    return differ;
}

struct tally {
    int cases, equal;
};

static void setting_check(const struct fixture *f, const char *setting, struct tally *t)
{
    struct fixture_tensor w = fixture_get(f, "W"), h = fixture_get(f, "H");
    struct quant_input in = input_make(h);
    struct quant_options o;
    struct quant_report r;
    int64_t bits = setting_parse(setting, &o);
    float *q = layer_run(&in, w, &o, bits, NULL, &r);
    int64_t n = w.dim[0] * w.dim[1];
    int64_t differ = differing(f, setting, q, w.dim[0], w.dim[1], o.group_size);
    /* GPTQModel divides by the number of tokens. */
    double loss = json_number_get(json_object_get(json_object_get(f->meta, "loss"), setting)) *
                  json_number_get(json_object_get(f->meta, "nsamples"));
    if (differ)
        printf("%s: %lld of %lld codes differ, loss %.6g against %.6g\n", setting,
               (long long)differ, (long long)n, r.error, loss);
    assert_true((double)differ <= 1e-3 * (double)n);
    if (!differ) assert_true(fabs(r.error - loss) <= 1e-4 * loss);
    t->cases++;
    t->equal += differ == 0;
    free(q);
    free((double *)in.statistic[STATISTIC_GRAM]);
}

static void codes_are_those_of_gptqmodel(void **state)
{
    (void)state;
    const char *const names[] = {"gptqmodel_small", "gptqmodel_wide", "gptqmodel_dead",
                                 "gptqmodel_tail"};
    struct tally t = {0};
    for (int l = 0; l < 4; l++) {
        struct fixture f = {0};
        const char *key;
        json_t *value;
        assert_true(fixture_open(&f, FIXTURES "/gptq", names[l]));
        printf("%s\n", names[l]);
        json_object_foreach(f.header, key, value) {
            char setting[64];
            const char *dot = strstr(key, ".codes");
            if (!dot) continue;
            snprintf(setting, sizeof setting, "%.*s", (int)(dot - key), key);
            setting_check(&f, setting, &t);
        }
        fixture_close(&f);
    }
    printf("%d of %d cases equal in every code\n", t.equal, t.cases);
    assert_int_equal(t.cases, 96);
    assert_true(t.equal >= 94);
}

/* rankdef: fewer tokens than channels, and the requested damping is enough. indef: raised in steps
 * of 0.01 until it is enough; the inverse is then so ill-conditioned that the reference's f32 codes
 * are uncertain. */
static void damping_rises_as_in_gptqmodel(void **state)
{
    (void)state;
    const char *const cases[] = {"rankdef.plain", "rankdef.gar", "indef.plain", "indef.gar"};
    struct fixture f = {0};
    assert_true(fixture_open(&f, FIXTURES "/gptq", "gptqmodel_damp"));
    struct fixture_tensor w = fixture_get(&f, "W");
    int64_t n = w.dim[0] * w.dim[1];
    for (int c = 0; c < 4; c++) {
        char key[32];
        struct quant_options o;
        struct quant_report r;
        bool indefinite = cases[c][0] == 'i';
        int64_t differ = 0, bits = setting_parse(c % 2 ? "b4_g32_sym_gar" : "b4_g32_sym", &o);
        snprintf(key, sizeof key, "%s.H", indefinite ? "indef" : "rankdef");
        struct quant_input in = input_make(fixture_get(&f, key));
        float *q = layer_run(&in, w, &o, bits, NULL, &r);
        snprintf(key, sizeof key, "%s.Q", cases[c]);
        const float *expected = fixture_get(&f, key).f;
        for (int64_t i = 0; i < n; i++)
            differ += fabsf(q[i] - expected[i]) > 1e-4f * fabsf(expected[i]) + 1e-7f;
        printf("%s: damping %g, %lld of %lld codes differ\n", cases[c], r.damping,
               (long long)differ, (long long)n);
        double damping = json_number_get(
            json_object_get(json_object_get(json_object_get(f.meta, "result"), cases[c]), "damp"));
        assert_true(fabs(r.damping - damping) < 1e-12);
        assert_true((double)differ <= (indefinite ? 1e-2 : 1e-3) * (double)n);
        free(q);
        free((double *)in.statistic[STATISTIC_GRAM]);
    }
    fixture_close(&f);
}

static int64_t damp_case(const struct fixture *f, const char *name, int last_resort,
                         struct quant_report *r, struct err *e)
{
    char key[32];
    struct quant_options o;
    void *prepared = NULL;
    struct fixture_tensor w = fixture_get(f, "W");
    int64_t n = w.dim[0] * w.dim[1], differ = 0, bits = setting_parse("b4_g32_sym", &o);
    const struct quant_method *m = quant_find("gptq");
    o.last_resort = last_resort;
    snprintf(key, sizeof key, "%s.H", name);
    struct quant_input in = input_make(fixture_get(f, key));
    float *q = NULL;
    enum status st = m->prepare(&in, &o, &prepared, e);
    if (st == OK) {
        m->release(prepared);
        q = layer_run(&in, w, &o, bits, NULL, r);
    }
    snprintf(key, sizeof key, "%s.plain.Q", name);
    const float *expected = fixture_get(f, key).f;
    for (int64_t i = 0; q && i < n; i++)
        differ += fabsf(q[i] - expected[i]) > 1e-4f * fabsf(expected[i]) + 1e-7f;
    free(q);
    free((double *)in.statistic[STATISTIC_GRAM]);
    return st == OK ? differ : -1;
}

/* Damping up to 1 and then six floors (GPTQModel since 5.2). floor: the fourth one, 1e-3 of the
 * largest entry, together with a damping of 0.81; the report gives the sum on the diagonal as a
 * share of its mean. fail: rounded to nearest, and no figures that need a factor. */
static void last_resorts_are_those_of_gptqmodel(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct quant_report r;
    struct err e = {0};
    assert_true(fixture_open(&f, FIXTURES "/gptq", "gptqmodel_damp"));
    int64_t n = fixture_get(&f, "W").dim[0] * fixture_get(&f, "W").dim[1];
    const char *const cases[] = {"floor", "fail"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(damp_case(&f, cases[i], RESORT_NONE, &r, &e), -1);
        assert_int_equal(e.code, ERR_NUMERIC);
        assert_non_null(strstr(e.text, "damping"));
        err_clear(&e);
    }
    int64_t differ = damp_case(&f, "floor", RESORT_FLOOR, &r, &e);
    printf("floor: damping %g, error %g, %lld of %lld codes differ\n", r.damping, r.error,
           (long long)differ, (long long)n);
    assert_true(differ >= 0 && (double)differ <= 1e-2 * (double)n);
    assert_true(r.damping > 0.81 && r.damping < 2 && isfinite(r.error));

    int64_t floored = damp_case(&f, "fail", RESORT_FLOOR, &r, &e);
    assert_int_equal(floored, 0);
    assert_true(isnan(r.damping) && isnan(r.error) && isnan(r.relative_error));
    assert_true(r.squared_distance > 0);
    assert_int_equal(damp_case(&f, "fail", RESORT_ROUND, &r, &e), 0);
    /* 4.x and 5.0 have no floor. */
    assert_true(damp_case(&f, "floor", RESORT_ROUND, &r, &e) > n / 100);
    assert_true(isnan(r.damping));
    fixture_close(&f);
}

/* Half a unit in the last place of f16 at the scale; the codes are those of f32 scales. */
static void narrow_scales_keep_the_codes(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct quant_options o;
    struct quant_report wide, r;
    assert_true(fixture_open(&f, FIXTURES "/gptq", "gptqmodel_small"));
    struct fixture_tensor w = fixture_get(&f, "W"), s = fixture_get(&f, "b4_g32_asym_act.scale");
    const float *zero = fixture_get(&f, "b4_g32_asym_act.zero").f;
    const uint8_t *codes = fixture_get(&f, "b4_g32_asym_act.codes").data;
    const int32_t *group = fixture_get(&f, "b4_g32_asym_act.g_idx").data;
    struct quant_input in = input_make(fixture_get(&f, "H"));
    int64_t differ = 0, rounded = 0, bits = setting_parse("b4_g32_asym_act", &o);
    float *p = layer_run(&in, w, &o, bits, NULL, &wide);
    o.scale_dtype = SCALE_F16_PACKED;
    float *before = malloc((size_t)(w.dim[0] * w.dim[1]) * sizeof *before);
    float *q = layer_run(&in, w, &o, bits, before, &r);
    assert_memory_equal(before, p, (size_t)(w.dim[0] * w.dim[1]) * sizeof *p);
    free(before);
    for (int64_t i = 0; i < w.dim[0]; i++)
        for (int64_t j = 0; j < w.dim[1]; j++) {
            int64_t k = i * w.dim[1] + j, g = i * s.dim[1] + group[j];
            float half = dtype_round_f16(s.f[g]);
            differ += q[k] != half * ((float)codes[k] - zero[g]);
            rounded += p[k] != q[k];
            assert_true(fabsf(p[k] - q[k]) <= ldexpf(fabsf(p[k]), -11));
        }
    printf("scale f16: %lld weights are not code times rounded scale, %lld moved\n",
           (long long)differ, (long long)rounded);
    /* The scales of qtraj and of the package may differ by an ulp and then round differently. */
    assert_true(differ <= w.dim[0] * w.dim[1] / 1000);
    assert_true(rounded > w.dim[0] * w.dim[1] / 2);
    assert_true(r.error == wide.error);
    free(p);
    free(q);
    free((double *)in.statistic[STATISTIC_GRAM]);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_gptqmodel),
        cmocka_unit_test(damping_rises_as_in_gptqmodel),
        cmocka_unit_test(last_resorts_are_those_of_gptqmodel),
        cmocka_unit_test(narrow_scales_keep_the_codes),
    };
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
