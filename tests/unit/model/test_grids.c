/* Models whose inputs of linears, keys and values are quantized, against the losses of QuaRot's
 * code (tests/fixtures/activations); what these must not depend on. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grids.h"

static void test_losses_of_the_reference(void **state)
{
    (void)state;
    struct fixture f;
    const char *key;
    json_t *setting;
    int n = 0;
    assert_true(fixture_open(&f, FIXTURES "/activations", "losses"));
    json_object_foreach(f.meta, key, setting)
    {
        char family[80], name[100];
        snprintf(family, sizeof family, "%.*s", (int)strcspn(key, "."), key);
        snprintf(name, sizeof name, "%s.nll", key);
        struct opened o = open_fixture(family);
        const struct fixture_tensor r = fixture_get(&f, name);
        strcat(family, ".ids");
        struct sequences s = sequences_of(&f, family);
        const int64_t positions = r.dim[0] * r.dim[1];
        double *nll = malloc((size_t)positions * sizeof *nll);
        const struct activation_grids g = grids_of(setting);
        float *x = run(o.model, &s, &g, (int64_t)number(setting, "w_bits", 16), false);
        losses(o.model, &s, x, nll);
        check_losses(key, setting, nll, r.data, positions);
        free(x);
        free(nll);
        sequences_free(&s);
        close_fixture(&o);
        n++;
    }
    assert_int_equal(n, 28);
    fixture_close(&f);
}

/* Sequences of a fixture's model, of unequal lengths; one is longer than a tile of tokens. */
enum { LONGEST = 600 };
static int64_t offsets[] = {0, 1, 1 + LONGEST, LONGEST + 4, LONGEST + 304};
static int32_t ids[LONGEST + 304];
static struct sequences four = {.n = 4, .offset = offsets, .ids = ids};

static const struct activation_grid nothing = {.bits = ACTIVATION_BITS_NONE};

/* Grids of all kinds. */
static const struct activation_grids kinds[] = {
    {.inputs = {.bits = 4, .symmetric = true, .clip = 0.9, .group_size = 16},
     .keys = {.bits = 4, .clip = 0.95, .group_size = -1, .before_rope = true},
     .values = {.bits = 3, .clip = 1, .group_size = 8}},
    {.inputs = {.bits = 8, .clip = 1, .group_size = -1, .granularity = GRANULARITY_TENSOR},
     .keys = {.bits = 2, .symmetric = true, .clip = 1, .group_size = 4, .rotation = 1},
     .values = {.bits = ACTIVATION_BITS_NONE}},
};

/* Bit for bit the same for any number of threads, with only the wanted rows of the last block, and
 * whatever the neighbours are; other than without grids, and than with other ones. */
static void check_cuts(const char *family)
{
    struct opened o = open_fixture(family);
    const size_t C = (size_t)model_shape(o.model)->hidden, all = (size_t)offsets[4] * C;
    const struct activation_grids none = {nothing, nothing, nothing};
    float *plain = forward(o.model, &four, offsets[4]);
    float *x = run(o.model, &four, &none, 16, false), *last = plain;
    assert_memory_equal(x, plain, all * sizeof *x);
    for (int k = 0; k < 2; k++) {
        float *y = run(o.model, &four, &kinds[k], 16, false);
        assert_memory_not_equal(y, last, all * sizeof *x);
        for (int threads = 1; threads <= 3; threads += 2) {
            omp_set_num_threads(threads);
            float *z = run(o.model, &four, &kinds[k], 16, threads == 3);
            assert_memory_equal(y, z, all * sizeof *x);
            free(z);
        }
        int64_t alone[] = {0, 300};
        struct sequences one = {.n = 1, .offset = alone, .ids = ids + offsets[3]};
        float *z = run(o.model, &one, &kinds[k], 16, false);
        assert_memory_equal(y + (size_t)offsets[3] * C, z, 300 * C * sizeof *x);
        free(z);
        if (last != plain) free(last);
        last = y;
    }
    free(last);
    free(x);
    free(plain);
    close_fixture(&o);
}

static void test_same_bits_however_it_is_cut(void **state)
{
    (void)state;
    check_cuts("llama");
    check_cuts("gpt_neox_parallel"); /* q, k and v are one linear */
    check_cuts("olmo3");             /* with windows, norms behind the sublayers */
    check_cuts("apertus");           /* no gate */
}

/* Each grid by itself changes the result. */
static void test_each_has_an_effect(void **state)
{
    (void)state;
    struct opened o = open_fixture("qwen3");
    const size_t all = (size_t)(offsets[4] * model_shape(o.model)->hidden);
    float *plain = forward(o.model, &four, offsets[4]);
    for (int i = 0; i < 3; i++) {
        struct activation_grids g = {nothing, nothing, nothing};
        struct activation_grid *one = i == 0 ? &g.inputs : i == 1 ? &g.keys : &g.values;
        *one = (struct activation_grid){.bits = 8, .clip = 1, .group_size = -1};
        float *x = run(o.model, &four, &g, 16, false);
        assert_memory_not_equal(x, plain, all * sizeof *x);
        free(x);
    }
    free(plain);
    close_fixture(&o);
}

static void refused(const struct model_shape *s, const struct activation_grids *g, const char *text)
{
    struct err e = {0};
    assert_int_equal(model_check_grids(s, g, &e), ERR_USAGE);
    assert_string_equal(e.text, text);
}

static void test_groups_that_do_not_divide(void **state)
{
    (void)state;
    const struct model_shape s = {.hidden = 96, .heads = 4, .head_dim = 24, .intermediate = 260};
    struct activation_grids g = {nothing, nothing, nothing};
    struct err e = {0};
    g.inputs = (struct activation_grid){.bits = 4, .group_size = 24};
    must(model_check_grids(&s, &g, &e), &e); /* 4 groups, and 4 of 65 */
    g.inputs.group_size = 32;
    refused(&s, &g,
            "activations.group_size: 32 divides neither 260 columns nor the hidden size, 96");
    g.inputs = nothing;
    g.values = (struct activation_grid){.bits = 4, .group_size = 16};
    refused(&s, &g, "values.group: 16 does not divide a head of 24 channels");
    g.values = nothing;
    g.keys = (struct activation_grid){.bits = 4, .group_size = -1, .rotation = 1};
    refused(&s, &g, "keys.rotation: heads of 24 channels; expected a power of two up to 1024");
}

/* The first stage that meets a number which is not finite, of a block in which a linear's outputs
 * overflow. */
static int broken_stage(int linear, const struct activation_grids *g)
{
    struct opened o = open_fixture("llama");
    const int64_t offset[] = {0, 40};
    const struct sequences s = {.n = 1, .offset = (int64_t *)(uintptr_t)offset, .ids = ids};
    struct block b;
    struct acts a;
    struct err e = {0};
    float *x = malloc((size_t)(40 * model_shape(o.model)->hidden) * sizeof *x);
    must(model_embed(o.model, &s, x, &e), &e);
    must(model_acts_init(o.model, 40, &a, &e), &e);
    must(model_block_load(o.model, 0, &b, &e), &e);
    float *w = (float *)(uintptr_t)b.linear[linear].w;
    for (int64_t i = 0; linear >= 0 && i < b.linear[linear].cols; i++) w[i] = 3e38f;
    b.grids = g;
    model_block_forward(o.model, &b, &s, x, &a);
    const int stage = a.broken - 1;
    free(x);
    model_acts_free(&a);
    model_block_free(&b);
    close_fixture(&o);
    return stage;
}

static void test_the_stage_of_a_number_that_is_not_finite(void **state)
{
    (void)state;
    const struct activation_grid g = {.bits = 4, .clip = 1, .group_size = -1};
    const struct activation_grids inputs = {g, nothing, nothing}, values = {nothing, nothing, g};
    assert_int_equal(broken_stage(5, &inputs), STAGE_DOWN); /* up */
    assert_int_equal(broken_stage(2, &inputs), STAGE_O);    /* v */
    assert_int_equal(broken_stage(2, &values), STAGE_O);
    assert_int_equal(broken_stage(5, &values), -1); /* nothing behind it is quantized */
    for (int i = 0; i < 2; i++) {
        struct activation_grids tensor = inputs;
        tensor.inputs.granularity = i;
        assert_int_equal(broken_stage(i ? 5 : 0, &tensor), i ? STAGE_DOWN : STAGE_O);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_of_the_reference),
        cmocka_unit_test(test_same_bits_however_it_is_cut),
        cmocka_unit_test(test_each_has_an_effect),
        cmocka_unit_test(test_groups_that_do_not_divide),
        cmocka_unit_test(test_the_stage_of_a_number_that_is_not_finite),
    };
    for (int i = 0; i < LONGEST + 304; i++) ids[i] = (i * 37 + i / 7) % 190;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
