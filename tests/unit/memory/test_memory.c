/* The memory plan: its choices, their order, and its message when nothing fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory/memory.h"
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* OLMo2-1B's shape, 128 x 2048 calibration and 0.6 M evaluation tokens, 8 threads. */
static struct memory_need large_need(void)
{
    struct memory_need need = {.sizes = {.shape = {.vocab = 100352,
                                                   .hidden = 2048,
                                                   .layers = 16,
                                                   .heads = 16,
                                                   .kv_heads = 16,
                                                   .head_dim = 128,
                                                   .intermediate = 8192},
                                         .outside = 2 * 100352 * 2048,
                                         .block = 67117056,
                                         .linears = 67108864,
                                         .cols = {2048, 2048, 2048, 8192},
                                         .rows = {2048, 2048, 8192, 2048},
                                         .in_width = 8192,
                                         .inner_width = 16384,
                                         .rope = 128},
                               .threads = 8,
                               .base = 64 << 20,
                               .evaluation = {293, 600064, 2048},
                               .calibration = {128, 262144, 2048},
                               .type = DTYPE_F32};
    return need;
}

static void add(struct memory_need *need, const char *method, int hessian, bool sequential, int n)
{
    const struct quant_options o = {
        .group_size = 128, .block_size = 128, .hessian = hessian, .true_sequential = sequential};
    for (int i = 0; i < n; i++) memory_need_add(need, quant_find(method), &o);
}

static const int64_t gib = 1 << 30;

static struct memory_plan plan(const struct memory_need *need, int64_t memory, int64_t scratch)
{
    const struct memory_limits limits = {memory, scratch, scratch ? "/scratch" : NULL};
    struct memory_plan p;
    struct err e = {0};
    if (memory_plan_make(need, &limits, &p, &e) != OK) fail_msg("%s", e.text);
    if (memory) assert_true(p.peak <= memory);
    assert_true(p.scratch <= scratch);
    int64_t sum = 0;
    for (int i = 0; i < MEMORY_PART_N; i++) sum += p.part[i];
    assert_int_equal(sum, p.blocks);
    assert_true(p.peak == p.blocks || p.peak == p.head);
    return p;
}

static void steps_in_order(void **state)
{
    (void)state;
    struct memory_need need = large_need();
    add(&need, "gptq", HESSIAN_OWN, true, 4);
    add(&need, "rtn", HESSIAN_OWN, true, 2);
    struct memory_plan all = plan(&need, 0, 0);
    assert_int_equal(all.retained_tokens, 262144);
    assert_null(all.place.scratch);
    assert_int_equal(all.waves, 1);
    /* 7 streams of evaluation, 4 of calibration; 8 KiB per token. */
    assert_int_equal(all.part[MEMORY_STATES], (7 * 600064 + 4 * 262144) * INT64_C(8192));
    assert_int_equal(all.part[MEMORY_RETAINED], 262144 * INT64_C(8192) * 4);

    struct memory_plan fewer = plan(&need, all.peak - 4 * gib, 1000 * gib);
    assert_null(fewer.place.scratch);
    assert_true(fewer.retained_tokens < 262144 && fewer.retained_tokens > 0);

    struct memory_plan disk = plan(&need, 24 * gib, 1000 * gib);
    assert_string_equal(disk.place.scratch, "/scratch");
    assert_int_equal(disk.waves, 1);
    assert_int_equal(disk.part[MEMORY_STATES], 0);
    assert_int_equal(disk.scratch, all.part[MEMORY_STATES]);

    struct memory_plan waves = plan(&need, 24 * gib, 0);
    assert_null(waves.place.scratch);
    assert_true(waves.waves > 1);
    assert_true(waves.wave * waves.waves >= 6);
    /* With some scratch: fewer waves than without, because the states of a wave must fit scratch or
     * memory. */
    struct memory_plan some = plan(&need, 10 * gib, 30 * gib);
    assert_true(some.waves > 1 && some.place.scratch);
}

static void shared_needs_one_calibration_stream(void **state)
{
    (void)state;
    struct memory_need own = large_need(), shared = large_need();
    add(&own, "gptq", HESSIAN_OWN, true, 8);
    add(&shared, "gptq", HESSIAN_SHARED, true, 8);
    struct memory_plan a = plan(&own, 0, 0), b = plan(&shared, 0, 0);
    assert_int_equal(a.part[MEMORY_STATES] - b.part[MEMORY_STATES], 7 * 262144 * INT64_C(8192));
    assert_int_equal(b.part[MEMORY_RETAINED], 0);
    assert_int_equal(a.part[MEMORY_HESSIANS] / (8192 * 8192), 8); /* one at a time */
    assert_true(b.part[MEMORY_HESSIANS] > a.part[MEMORY_HESSIANS]);
}

static void bf16_halves_the_states(void **state)
{
    (void)state;
    struct memory_need need = large_need();
    add(&need, "gptq", HESSIAN_OWN, false, 3);
    struct memory_plan f32 = plan(&need, 0, 0);
    need.type = DTYPE_BF16;
    struct memory_plan bf16 = plan(&need, 0, 0);
    assert_int_equal(f32.part[MEMORY_STATES], 2 * bf16.part[MEMORY_STATES]);
}

static void depth_changes_nothing(void **state)
{
    (void)state;
    struct memory_need a = large_need(), b = large_need();
    add(&a, "gptq", HESSIAN_OWN, true, 2);
    b.sizes.shape.layers = 64;
    add(&b, "gptq", HESSIAN_OWN, true, 2);
    struct memory_plan p = plan(&a, 0, 0), q = plan(&b, 0, 0);
    assert_int_equal(p.peak, q.peak);
}

static void unrounded_takes_a_block_more(void **state)
{
    (void)state;
    struct quant_options o = {
        .group_size = 128, .block_size = 128, .true_sequential = true, .scale_dtype = SCALE_F16};
    struct memory_need stored = large_need(), packed = large_need(), shared = large_need();
    memory_need_add(&stored, quant_find("gptq"), &o);
    o.scale_dtype = SCALE_F16_PACKED;
    memory_need_add(&packed, quant_find("gptq"), &o);
    o.hessian = HESSIAN_SHARED;
    memory_need_add(&shared, quant_find("gptq"), &o);
    int64_t weights = plan(&stored, 0, 0).part[MEMORY_WEIGHTS];
    /* Where they are prepared for products, once more. */
    assert_int_equal(plan(&packed, 0, 0).part[MEMORY_WEIGHTS] - weights,
                     packed.sizes.linears * INT64_C(4) * (1 + products_prepare(PRODUCTS_F32)));
    assert_int_equal(plan(&shared, 0, 0).part[MEMORY_WEIGHTS], weights);
}

/* Weights prepared for products in f32: where oneDNN multiplies, for many tokens, and given up
 * first; two blocks more, one of them quantized, and at the head its matrix. */
static void prepared_weights(void **state)
{
    (void)state;
    const bool here = products_prepare(PRODUCTS_F32);
    struct memory_need need = large_need();
    add(&need, "gptq", HESSIAN_OWN, true, 4);
    const struct memory_plan all = plan(&need, 0, 0), less = plan(&need, all.peak - here, 0);
    assert_int_equal(all.prepared, here);
    assert_false(less.prepared && here);
    assert_int_equal(less.retained_tokens, all.retained_tokens);
    assert_int_equal(less.ahead, all.ahead);
    assert_int_equal(all.part[MEMORY_WEIGHTS] - less.part[MEMORY_WEIGHTS],
                     here * 2 * need.sizes.linears * INT64_C(4));
    assert_int_equal(all.head - less.head,
                     here * need.sizes.shape.vocab * need.sizes.shape.hidden * INT64_C(4));
    need.evaluation = need.calibration = (struct memory_sequences){1, 512, 512};
    assert_false(plan(&need, 0, 0).prepared);
}

static void too_little(void **state)
{
    (void)state;
    struct memory_need need = large_need();
    add(&need, "gptq", HESSIAN_OWN, true, 4);
    struct memory_limits limits = {memory_usable(1 * gib), 0, NULL};
    struct memory_plan p;
    struct err e = {0};
    long long mib = 0;
    assert_int_equal(memory_plan_make(&need, &limits, &p, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "memory_per_rank of 1024 MiB is too little"));
    assert_non_null(strstr(e.text, "scratch folder"));
    assert_int_equal(sscanf(strstr(e.text, "it takes"), "it takes %lld MiB", &mib), 1);
    /* The reported minimum is exact: that much is enough, less is not. */
    limits.memory = memory_usable((mib + 1) << 20);
    assert_int_equal(memory_plan_make(&need, &limits, &p, NULL), OK);
    assert_int_equal(p.wave, 1);
    assert_int_equal(p.retained_tokens < 300, 1);
    limits.memory = memory_usable((mib - 1) << 20);
    assert_int_equal(memory_plan_make(&need, &limits, &p, NULL), ERR_NOMEM);
}

static void no_variants(void **state)
{
    (void)state;
    struct memory_need need = large_need();
    need.calibration = (struct memory_sequences){0};
    struct memory_plan p = plan(&need, 0, 0);
    assert_int_equal(p.part[MEMORY_HESSIANS] + p.part[MEMORY_QUANTIZER] + p.part[MEMORY_RETAINED],
                     0);
    assert_int_equal(p.part[MEMORY_STATES], 600064 * INT64_C(8192));
}

/* Memory that cannot be mapped is not available, nor is what BLAS and threads map. */
static void address_space(void **state)
{
    (void)state;
    const int64_t mib = 1 << 20, bound = INT64_C(64) << 30;
    long long pages;
    struct rlimit was;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld", &pages), 1);
    fclose(f);
    getrlimit(RLIMIT_AS, &was);
    int64_t free = memory_usable_now(bound, NULL, 2);
    assert_true(free > bound / 2 && free < bound);
    for (int64_t more = 512; more <= 8192; more *= 4) {
        struct rlimit low = was;
        low.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + more * mib);
        assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
        int64_t room = memory_usable_now(bound, NULL, 2);
        setrlimit(RLIMIT_AS, &was);
        assert_true(room < (more - 500) * mib && room > (more - 1500) * mib);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_in_order),
        cmocka_unit_test(shared_needs_one_calibration_stream),
        cmocka_unit_test(bf16_halves_the_states),
        cmocka_unit_test(depth_changes_nothing),
        cmocka_unit_test(unrounded_takes_a_block_more),
        cmocka_unit_test(prepared_weights),
        cmocka_unit_test(too_little),
        cmocka_unit_test(no_variants),
        cmocka_unit_test(address_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
