/* What a visit costs: FLOPs against sums done by hand, tokens from options, corrections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "curvature/hvp.h"
#include "curvature/hvp_predict.h"
#include "memory/cost.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OLMo2-7B: h 4096, I 11008, 32 layers, 32 heads of 128, vocabulary 100352. */
static const double h = 4096, inner = 11008, layers = 32, vocab = 100352;

static struct model_sizes sizes_of(const char *model)
{
    char path[512];
    struct err e = {0};
    json_t *config;
    struct model_sizes sizes;
    snprintf(path, sizeof path, CONFIGS "/shapes/%s/config.json", model);
    assert_int_equal(json_read_file(path, 0, &config, &e), OK);
    assert_int_equal(model_sizes_read(config, path, &sizes, &e), OK);
    json_decref(config);
    return sizes;
}

static struct cost_tokens tokens_of(double n, double length)
{
    return (struct cost_tokens){.tokens = n * length, .squares = n * length * length};
}

static struct method_entry method_of(char *name)
{
    struct method_entry m = {.name = name, .method = name};
    options_default(&quant_table, &m.options);
    return m;
}

/* A forward pass takes 2 P T FLOPs, plus T² h per block for attention (causal, two products). */
static void a_forward_pass_costs_2_flops_a_weight(void **state)
{
    (void)state;
    struct model_sizes m = sizes_of("OLMo-2-1124-7B");
    struct cost_tokens t = tokens_of(10, 2048);
    struct cost c = cost_shared(&m, &t, 2);
    double linears = 4 * h * h + 3 * h * inner;
    assert_float_equal((double)m.linears, linears, 0.5);
    double expected = layers * (2 * linears * 20480 + 10 * 2 * 2048.0 * 2048.0 * h);
    assert_float_equal(c.flop[COST_FORWARD] / expected, 1, 1e-12);
    assert_float_equal(c.flop[COST_HEAD] / (2 * vocab * h * 20480), 1, 1e-12);
    assert_float_equal(c.bytes / (2 * 7298617344.0), 1, 1e-12);
    assert_true(c.flop[COST_HESSIAN] == 0);
}

/* In layers with a window a token sees at most that many keys: of T tokens the pairs of query and
 * key are W (T - W) + W²/2 instead of T²/2. */
static void windows_cost_only_their_pairs(void **state)
{
    (void)state;
    struct model_sizes m = sizes_of("OLMo-2-1124-7B"), w = m;
    w.windowed = 24;
    w.spec.window = 512;
    const double linears = layers * 2 * (4 * h * h + 3 * h * inner);
    struct cost_tokens t = tokens_of(10, 8192);
    struct cost c = cost_shared(&w, &t, 2);
    double pairs = 10 * (24 * (512 * (8192.0 - 512) + 512 * 256.0) + 8 * 8192.0 * 4096);
    assert_float_equal(c.flop[COST_FORWARD] / (linears * 81920 + 4 * h * pairs), 1, 1e-12);
    /* query by query */
    double seen = 0;
    for (int i = 0; i < 8192; i++) seen += i < 512 ? i + 1 : 512;
    assert_float_equal(seen / (512 * (8192.0 - 512) + 512 * 256.0), 1, 1e-3);
    t = tokens_of(10, 512);
    assert_float_equal(cost_shared(&w, &t, 2).flop[COST_FORWARD],
                       cost_shared(&m, &t, 2).flop[COST_FORWARD], 1);
}

static void variants_cost_their_calibration_and_sweep(void **state)
{
    (void)state;
    struct model_sizes m = sizes_of("OLMo-2-1124-7B");
    struct cost_tokens eval = tokens_of(10, 2048), cal = tokens_of(8, 512);
    char gptq[] = "gptq", rtn[] = "rtn";
    struct method_entry method = method_of(gptq);
    struct cost own = cost_variant(&m, &method, &eval, &cal);
    struct cost full = cost_shared(&m, &eval, 2), calibration = cost_shared(&m, &cal, 2);
    assert_float_equal(own.flop[COST_FORWARD] /
                           (full.flop[COST_FORWARD] + calibration.flop[COST_FORWARD]),
                       1, 1e-12);
    /* Hessians of the inputs of q, k, v, of o, of gate and up, and of down. */
    double squares = 3 * h * h + inner * inner, cubes = 3 * h * h * h + inner * inner * inner;
    assert_float_equal(own.flop[COST_HESSIAN] / (layers * squares * 4096), 1, 1e-12);
    assert_float_equal(own.flop[COST_FACTOR] / (layers * cubes / 3), 1, 1e-12);
    double sweep = layers * (4 * h * h * h + 2 * inner * h * h + h * inner * inner);
    assert_true(own.flop[COST_SWEEP] > sweep && own.flop[COST_SWEEP] < 1.02 * sweep);
    assert_true(own.bytes == 0);
    /* With the shared Hessian the variant has no calibration of its own. */
    method.options.hessian = HESSIAN_SHARED;
    struct cost shared = cost_variant(&m, &method, &eval, &cal);
    struct cost hessian = cost_shared_statistics(&m, &method, 1, &cal);
    assert_true(shared.flop[COST_HESSIAN] == 0 && shared.flop[COST_FACTOR] == 0);
    cost_add(&shared, &hessian, 1);
    for (int i = 0; i < COST_PHASE_N; i++)
        assert_float_equal(shared.flop[i], own.flop[i], 1e-9 * own.flop[i] + 1e-9);
    method = method_of(rtn);
    struct cost plain = cost_variant(&m, &method, &eval, &cal);
    assert_float_equal(plain.flop[COST_FORWARD], full.flop[COST_FORWARD], 1);
    assert_true(plain.flop[COST_HESSIAN] == 0 && plain.flop[COST_SWEEP] > 0);
}

/* AWQ judges the scales behind norms by 20 forward passes of the calibration text and two without
 * them; OLMo2 has no norm before its linears. */
static void awq_passes(void **state)
{
    (void)state;
    const char *const models[] = {"OLMo-2-1124-7B", "OLMo-7B-hf", "SmolLM3-3B-checkpoints",
                                  "pythia-1b-deduped"};
    char awq[] = "awq";
    struct method_entry method = method_of(awq);
    for (int i = 0; i < 4; i++) {
        struct model_sizes m = sizes_of(models[i]);
        struct cost_tokens eval = tokens_of(10, 2048), cal = tokens_of(8, 512);
        struct cost c = cost_variant(&m, &method, &eval, &cal), full = cost_shared(&m, &eval, 2),
                    calibration = cost_shared(&m, &cal, 2);
        double passes = c.flop[COST_FORWARD] - full.flop[COST_FORWARD];
        assert_float_equal(passes / calibration.flop[COST_FORWARD], i < 2 ? 0 : 22, 1e-9);
    }
}

/* A forward pass of the blocks' linears, of attention and of the head. */
struct work {
    double linears, attention, head;
};

static double work_of(struct work unit, double linears, double attention, double head_)
{
    return unit.linears * linears + unit.attention * attention + unit.head * head_;
}

/* Curvature in units of forward passes of its tokens (docs/math/hvp.md): of linears 4 for a
 * gradient, 11 for a product or 6 where activations are retained; of attention 4.5, 15.5 or 8.5; of
 * the head 3, 8 or 6, and 2, 4 or 2 if its matrix is not in the subset; 6 for critical sharpness.
 * OLMo2 has 7 linears per block. A product with the change of one linear goes through (32 + 1) / 64
 * of the layers, and the others have a forward pass. */
static void derivatives_cost_multiples_of_forward_passes(void **state)
{
    (void)state;
    const struct model_sizes m = sizes_of("OLMo-2-1124-7B");
    const struct cost_tokens t = tokens_of(4, 1024);
    const struct work one = {layers * 2 * (4 * h * h + 3 * h * inner) * 4096,
                             layers * 2 * h * 4 * 1024 * 1024, 2 * vocab * h * 4096};
    const double pass = work_of(one, 1, 1, 1), gradient = work_of(one, 4, 4.5, 2);
    const double product = work_of(one, 11, 15.5, 4), behind = 33. / 64;
    const double of_layer = work_of(one, 11 * behind + 1 - behind, 15.5 * behind + 1 - behind, 4);
    const struct {
        int depth;
        bool critical;
        double once, cell;
    } cases[] = {{SECOND_ORDER_NONE, true, 8 * pass, 7 * pass},
                 {SECOND_ORDER_TOTAL, false, pass + gradient, pass + product},
                 {SECOND_ORDER_TOTAL, true, 8 * pass + gradient, 7 * pass + product},
                 {SECOND_ORDER_LAYERS, false, pass + gradient, pass + product + 7 * 32 * of_layer}};
    struct cost c = cost_curvature(&m, &t, HVP_ALL, 20, false);
    assert_float_equal(c.flop[COST_CURVATURE] / work_of(one, 224, 314.5, 163), 1, 1e-9);
    c = cost_curvature(&m, &t, HVP_BLOCKS2D, 20, false);
    assert_float_equal(c.flop[COST_CURVATURE] / work_of(one, 224, 314.5, 82), 1, 1e-9);
    c = cost_curvature(&m, &t, HVP_ALL, 20, true);
    assert_float_equal(c.flop[COST_CURVATURE] / work_of(one, 123, 173.5, 123), 1, 1e-9);
    c = cost_second_order_cell(&m, &t, SECOND_ORDER_TOTAL, false, true);
    assert_float_equal(c.flop[COST_SECOND_ORDER] / work_of(one, 7, 9.5, 3), 1, 1e-9);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c = cost_second_order(&m, &t, cases[i].depth, cases[i].critical, false);
        assert_float_equal(cost_flop(&c) / cases[i].once, 1, 1e-9);
        c = cost_second_order_cell(&m, &t, cases[i].depth, cases[i].critical, false);
        assert_float_equal(c.flop[COST_SECOND_ORDER] / cases[i].cell, 1, 1e-9);
        assert_true(cost_flop(&c) == c.flop[COST_SECOND_ORDER]);
    }
}

/* Where norms come first, no adjoint needs the MLP's output: it is not computed again. */
static void not_computed_again(void **state)
{
    (void)state;
    const struct model_sizes m = sizes_of("SmolLM3-3B-checkpoints");
    const struct cost_tokens t = {.tokens = 1};
    const double C = 2048, I = 11008, qkv = C * (C + 2 * 512), all = qkv + C * C + 3 * C * I;
    assert_float_equal((double)m.linears, all, 0.5);
    const double flop = 2 * 36 * all, recomputed = 1 - C * I / all;
    const struct cost none = cost_curvature(&m, &t, HVP_QUANTIZED, 0, false),
                      one = cost_curvature(&m, &t, HVP_QUANTIZED, 1, false);
    const double head_ = 2 * (double)(m.shape.vocab * m.shape.hidden);
    assert_float_equal(cost_flop(&none), flop * (3 + recomputed) + 2 * head_, 1e-6 * flop);
    assert_float_equal(cost_flop(&one) - cost_flop(&none), flop * (8 + 3 * recomputed) + 4 * head_,
                       1e-6 * flop);
}

/* Forward products, the head and Gram sums at the rate of the chosen products; the rest in f32. */
static void rates_of_products(void **state)
{
    (void)state;
    const struct cost c = {.flop = {[COST_FORWARD] = 1e12,
                                    [COST_HEAD] = 1e12,
                                    [COST_HESSIAN] = 1e12,
                                    [COST_SWEEP] = 1e12,
                                    [COST_CURVATURE] = 1e12,
                                    [COST_SECOND_ORDER] = 1e12}};
    static const struct {
        enum products kind;
        double terms, sums; /* products of terms that one takes */
    } cases[] = {{PRODUCTS_BF16, 1, 1}, {PRODUCTS_BF16X2, 3, 3}, {PRODUCTS_BF16X3, 6, 6}};
    double plain[COST_PHASE_N], now[COST_PHASE_N];
    struct cost_rates r = cost_rates_of(1e11, 5e10, 3e11);
    cost_seconds(&c, &r, plain);
    cost_rates_choose(&r, PRODUCTS_F32);
    cost_seconds(&c, &r, now);
    assert_memory_equal(plain, now, sizeof now);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool f32 = products_of_sums(cases[i].kind) == PRODUCTS_F32;
        cost_rates_choose(&r, cases[i].kind);
        cost_seconds(&c, &r, now);
        assert_float_equal(now[COST_FORWARD] / plain[COST_FORWARD], cases[i].terms / 3, 1e-9);
        assert_float_equal(now[COST_HEAD] / plain[COST_HEAD], cases[i].terms / 3, 1e-9);
        assert_float_equal(now[COST_HESSIAN] / plain[COST_HESSIAN], f32 ? 1 : cases[i].sums / 3,
                           1e-9);
        assert_true(now[COST_SWEEP] == plain[COST_SWEEP]);
        const double with_weights = cases[i].terms / 3, others = f32 ? 1 : cases[i].sums / 3;
        assert_float_equal(now[COST_CURVATURE] / plain[COST_CURVATURE], (with_weights + others) / 2,
                           1e-9);
        assert_float_equal(now[COST_SECOND_ORDER] / plain[COST_SECOND_ORDER],
                           (with_weights + others) / 2, 1e-9);
    }
}

static void seconds_and_corrections(void **state)
{
    (void)state;
    struct model_sizes m = sizes_of("OLMo-2-0425-1B");
    struct cost_tokens t = tokens_of(10, 2048);
    struct cost c = cost_shared(&m, &t, 2);
    struct cost_rates slow = cost_rates_given(100), fast = cost_rates_given(200);
    double phases[COST_PHASE_N], one = cost_seconds(&c, &slow, phases);
    assert_float_equal(one, phases[COST_FORWARD] + phases[COST_HEAD], 1e-9 * one);
    assert_float_equal(cost_seconds(&c, &fast, NULL), one / 2, 1e-9 * one);
    fast.read = c.bytes / 1e6; /* reading takes longer than computing */
    assert_float_equal(cost_seconds(&c, &fast, NULL), 1e6, 1);
    /* Forward took three times the expected time in one record, once in another: factor two. */
    struct cost_measured sums = {0};
    for (int times = 1; times <= 3; times += 2) {
        json_t *record = json_pack("{s:{s:f, s:s}}", "values", "seconds_forward",
                                   times * phases[COST_FORWARD], "seconds_head", "nan");
        cost_learn(&sums, &c, &slow, record);
        json_decref(record);
    }
    cost_correct(&sums, &slow);
    assert_float_equal(slow.correction[COST_FORWARD], 2, 1e-9);
    assert_float_equal(slow.correction[COST_HEAD], 1, 1e-9);
    assert_float_equal(cost_seconds(&c, &slow, NULL), 2 * phases[COST_FORWARD] + phases[COST_HEAD],
                       1e-9 * one);
}

static void tokens_from_options(void **state)
{
    (void)state;
    char name[] = "/tmp/qtraj-cost-XXXXXX", absent[sizeof name + 7];
    int fd = mkstemp(name);
    snprintf(absent, sizeof absent, "%s.absent", name);
    assert_true(fd >= 0 && ftruncate(fd, 450000) == 0);
    close(fd);
    struct data_options d = {.text = name, .layout = LAYOUT_PACKED, .length = 100, .samples = 64};
    struct cost_tokens t = cost_tokens_of(&d);
    assert_int_equal(t.sequences, 64);
    assert_true(t.tokens == 6400 && t.squares == 640000 && !t.guessed);
    d.tokens = 5050;
    assert_int_equal(cost_tokens_of(&d).sequences, 50);
    d.tokens = d.samples = 0; /* the whole text of 450 kB: about 100,000 tokens */
    t = cost_tokens_of(&d);
    assert_true(t.guessed && t.sequences > 500 && t.sequences < 2000);
    d.skip = 10;
    assert_int_equal(cost_tokens_of(&d).sequences, t.sequences - 10);
    unlink(name);
    d = (struct data_options){
        .text = absent, .layout = LAYOUT_DOCUMENT, .length = 128, .samples = 1024};
    t = cost_tokens_of(&d);
    assert_int_equal(t.sequences, 1024);
    assert_true(t.guessed && t.tokens == 1024 * 128.0);
    d = (struct data_options){.text = absent, .layout = LAYOUT_DOCUMENT, .documents = 1024};
    t = cost_tokens_of(&d); /* from a preset whose text does not exist yet */
    assert_int_equal(t.sequences, 1024);
    d.padding = PADDING_COUNTED;
    d.batch = 1;
    assert_true(cost_tokens_of(&d).tokens == t.tokens);
    d.batch = 16;
    assert_true(cost_tokens_of(&d).tokens > 3 * t.tokens &&
                cost_tokens_of(&d).tokens < 4 * t.tokens);
    d.length = 512;
    assert_true(cost_tokens_of(&d).tokens == 1024 * 512.0);
    d = (struct data_options){0};
    assert_int_equal(cost_tokens_of(&d).sequences, 0);
}

/* Two rows of 3000 ids, or one of 6000. */
static void write_ids(const char *name, const char *shape)
{
    FILE *f = fopen(name, "wb");
    char header[128];
    const char ids[24000] = {0};
    assert_non_null(f);
    uint64_t n = (uint64_t)snprintf(
        header, sizeof header,
        "{\"x\":{\"dtype\":\"I32\",\"shape\":[%s],\"data_offsets\":[0,24000]}}", shape);
    assert_int_equal(fwrite(&n, sizeof n, 1, f), 1);
    assert_int_equal(fwrite(header, n, 1, f), 1);
    assert_int_equal(fwrite(ids, sizeof ids, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

/* Rows of a matrix are whole sequences for any `length`; a single row is cut. */
static void tokens_of_ids(void **state)
{
    (void)state;
    char name[] = "/tmp/qtraj-cost-XXXXXX", key[sizeof name + 2];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    snprintf(key, sizeof key, "%s:x", name);
    struct data_options d = {.ids = key, .length = 2048};
    write_ids(name, "2,3000");
    struct cost_tokens t = cost_tokens_of(&d);
    assert_true(t.tokens == 6000 && t.sequences == 2 && t.longest == 3000 && !t.guessed);
    write_ids(name, "6000");
    t = cost_tokens_of(&d);
    assert_true(t.tokens == 4096 && t.sequences == 2 && t.longest == 2048);
    unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forward_pass_costs_2_flops_a_weight),
        cmocka_unit_test(windows_cost_only_their_pairs),
        cmocka_unit_test(variants_cost_their_calibration_and_sweep),
        cmocka_unit_test(awq_passes),
        cmocka_unit_test(derivatives_cost_multiples_of_forward_passes),
        cmocka_unit_test(not_computed_again),
        cmocka_unit_test(rates_of_products),
        cmocka_unit_test(seconds_and_corrections),
        cmocka_unit_test(tokens_from_options),
        cmocka_unit_test(tokens_of_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
