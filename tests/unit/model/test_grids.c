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

#include "../model_fixtures.h"
#include "grids.h"

static void test_losses_of_the_reference(void **state)
{
    (void)state;
    struct fixture f;
    const char *key;
    json_t *setting;
    int n = 0;
    assert_true(fixture_open(&f, FIXTURES "/activations", "losses"));
    json_object_foreach(f.meta, key, setting) {
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
    const int usual = omp_get_max_threads();
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
        omp_set_num_threads(usual);
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

/* |x - y| / |y| */
static double distance(const float *x, const float *y, size_t n)
{
    double change = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        change += pow((double)x[i] - (double)y[i], 2);
        size += pow((double)y[i], 2);
    }
    return sqrt(change / size);
}

/* In every family each grid by itself changes the result, and fewer bits change it more. */
static void test_each_has_an_effect(void **state)
{
    (void)state;
    int64_t short_offsets[] = {0, 40, 80};
    const struct sequences two = {.n = 2, .offset = short_offsets, .ids = ids};
    for (int k = 0; k < FIXTURES_N + BITNETS_N; k += FIXTURES_STEP) {
        const char *family = k < FIXTURES_N ? model_fixtures[k] : bitnet_fixtures[k - FIXTURES_N];
        struct opened o = open_fixture(family);
        const size_t all = (size_t)(80 * model_shape(o.model)->hidden);
        float *plain = forward(o.model, &two, 80);
        for (int i = 0; i < 3; i++) {
            double before = 0;
            for (int64_t bits = 8; bits >= 2; bits /= 2) {
                struct activation_grids g = {nothing, nothing, nothing};
                struct activation_grid *one = i == 0 ? &g.inputs : i == 1 ? &g.keys : &g.values;
                *one = (struct activation_grid){.bits = bits, .clip = 1, .group_size = -1};
                float *x = run(o.model, &two, &g, 16, false);
                const double change = distance(x, plain, all);
                if (!(change > before && change < 2))
                    fail_msg("%s, %d: %g with %d bits, %g with more", family, i, change, (int)bits,
                             before);
                before = change;
                free(x);
            }
        }
        free(plain);
        close_fixture(&o);
    }
}

static void test_outliers_of_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *name, *scores;
        struct activation_grid grid;
    } settings[] = {
        {"atom.W16A4KV16",
         "atom",
         {.bits = 4,
          .symmetric = true,
          .clip = 0.9,
          .group_size = 16,
          .outliers = 16,
          .outlier_bits = 8}},
        {"quik.W16A4",
         "quik",
         {.bits = 4, .clip = 1, .group_size = -1, .outliers = 8, .outlier_bits = 16}},
        {"quik.W16A4_none", NULL, {.bits = 4, .clip = 1, .group_size = -1}},
        {"atom.W16A16_reordered", "atom", {.bits = ACTIVATION_BITS_NONE}},
    };
    struct fixture f;
    struct opened o = open_fixture("llama");
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    struct sequences s = sequences_of(&f, "ids");
    for (int k = 0; k < 4; k++) {
        char key[64];
        double nll[2 * 47];
        struct scores scores = {.f = &f, .name = settings[k].scores};
        const struct setting how = {.grids = {settings[k].grid, nothing, nothing},
                                    .weight_bits = 16,
                                    .context = &scores,
                                    .prepare = scores.name ? give_order : NULL};
        float *x = run_setting(o.model, &s, &how, false);
        losses(o.model, &s, x, nll);
        snprintf(key, sizeof key, "model.%s", settings[k].name);
        const json_t *agree = json_object_get(f.meta, key);
        strcat(key, ".nll");
        check_losses(key, agree, nll, fixture_get(&f, key).data, 2 * 47);
        free(x);
    }
    sequences_free(&s);
    fixture_close(&f);
    close_fixture(&o);
}

/* A range that the text itself gives is that of its tensors. */
struct ranges {
    const struct model *m;
    const struct sequences *s;
    float *x; /* the block's input */
    struct activation_grids grids;
};

static void give_ranges(void *context, struct block *b)
{
    struct ranges *r = context;
    struct acts a;
    struct err e = {0};
    const struct activation_grids *own = b->grids;
    const int64_t T = r->s->offset[1];
    must(model_acts_init(r->m, T, &a, &e), &e);
    b->grids = &r->grids;
    for (int stage = 0; stage < STAGE_N; stage++) {
        int64_t cols = 0;
        const struct activation_grids *grids = b->grids;
        b->grids = NULL;
        model_stage_input(r->m, b, stage, r->s, 0, 1, r->x, &a);
        for (int i = 0; i < b->n_linears; i++)
            if (b->linear[i].stage == stage) cols = b->linear[i].cols;
        for (int64_t i = 0; i < T * cols; i++)
            b->inputs[stage].largest = fmaxf(b->inputs[stage].largest, fabsf(a.in[i]));
        b->grids = grids;
        model_stage_input(r->m, b, stage, r->s, 0, 1, r->x, &a);
        model_stage_output(r->m, b, stage, r->s, 0, 1, r->x, &a);
    }
    model_acts_free(&a);
    b->grids = own;
}

static void test_static_ranges(void **state)
{
    (void)state;
    struct opened o = open_fixture("gpt_neox_sequential");
    int64_t offset[] = {0, 300};
    const struct sequences s = {.n = 1, .offset = offset, .ids = ids};
    const size_t n = (size_t)(300 * model_shape(o.model)->hidden);
    struct activation_grid g = {.bits = 8,
                                .symmetric = true,
                                .clip = 0.7,
                                .group_size = -1,
                                .granularity = GRANULARITY_TENSOR};
    for (int codes = 0; codes < 2; codes++) {
        g.codes = codes;
        const struct activation_grids tensor = {g, nothing, nothing};
        struct activation_grids fixed = tensor;
        fixed.inputs.granularity = GRANULARITY_STATIC;
        float *x = run(o.model, &s, &tensor, 16, false);
        struct ranges r = {.m = o.model, .s = &s, .x = malloc(n * sizeof *x), .grids = tensor};
        struct err e = {0};
        must(model_embed(o.model, &s, r.x, &e), &e);
        const struct setting how = {
            .grids = fixed, .weight_bits = 16, .context = &r, .prepare = give_ranges};
        float *y = run_setting(o.model, &s, &how, false);
        assert_memory_equal(x, y, n * sizeof *x);
        free(r.x);
        free(x);
        free(y);
    }
    close_fixture(&o);
}

/* Linears whose weights are codes, in groups, symmetric or not. without: the linear that has none,
 * so that its stage is simulated; -1: all have. */
struct coded {
    int64_t bits, group;
    bool symmetric, integers;
    int without;
    struct product_weights *own[LINEARS_MAX];
};

static void forget_codes(struct coded *c)
{
    for (int k = 0; k < LINEARS_MAX; k++) product_weights_free(c->own[k]);
    memset(c->own, 0, sizeof c->own);
}

static void code_weights(void *context, struct block *b)
{
    struct coded *c = context;
    struct err e = {0};
    forget_codes(c);
    const struct activation_grid g = {.bits = c->bits, .symmetric = c->symmetric, .clip = 1};
    for (int k = 0; k < b->n_linears; k++) {
        struct linear *l = &b->linear[k];
        const int64_t group = c->group < 0 ? l->cols : c->group;
        const int64_t groups = (l->cols + group - 1) / group;
        double *grid = malloc((size_t)(l->rows * groups * 2) * sizeof *grid);
        for (int64_t i = 0; i < l->rows * groups; i++) {
            float *w = (float *)(uintptr_t)l->w + i / groups * l->cols + i % groups * group;
            const int64_t left = l->cols - i % groups * group, n = left < group ? left : group;
            const struct activation_scale s = activation_scale_of(&g, w, n, true);
            activation_round(&s, w, n);
            grid[2 * i] = (double)s.scale;
            grid[2 * i + 1] = (double)(s.zero - s.least);
        }
        const struct integer_grids of = {c->bits, group, grid};
        if (c->integers && k != c->without) {
            must(product_weights_integers(&of, l->rows, l->cols, linear_piece(l->rows), &c->own[k],
                                          &e),
                 &e);
            must(product_weights_fill_own(c->own[k], l->w, 1, &e), &e);
            l->integers = c->own[k];
        }
        free(grid);
    }
}

/* The outputs of the first block's first stage from the same inputs, as codes and simulated, differ
 * by the rounding of scales and of sums in f32. */
static void check_stage(const struct model *m, const struct activation_grids *g,
                        const struct coded *how)
{
    const struct sequences two = {.n = 2, .offset = offsets, .ids = ids};
    struct err e = {0};
    float *out[2];
    size_t n = 0;
    for (int integers = 0; integers < 2; integers++) {
        struct coded c = *how;
        struct block b;
        struct acts a;
        float *x = malloc((size_t)(offsets[2] * model_shape(m)->hidden) * sizeof *x);
        c.integers = integers;
        must(model_acts_init(m, offsets[2], &a, &e), &e);
        must(model_acts_codes(&a, &e), &e);
        must(model_embed(m, &two, x, &e), &e);
        must(model_block_load(m, 0, &b, &e), &e);
        code_weights(&c, &b);
        b.grids = g;
        model_stage_input(m, &b, STAGE_QKV, &two, 0, 2, x, &a);
        model_stage_output(m, &b, STAGE_QKV, &two, 0, 2, x, &a);
        n = (size_t)(offsets[2] * qkv_width(&m->spec));
        out[integers] = malloc(n * sizeof *out[0]);
        memcpy(out[integers], a.inner, n * sizeof *out[0]);
        forget_codes(&c);
        model_block_free(&b);
        model_acts_free(&a);
        free(x);
    }
    double size = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        size = fmax(size, fabs((double)out[0][i]));
        worst = fmax(worst, fabs((double)out[0][i] - (double)out[1][i]));
    }
    assert_true(worst < 2e-6 * size);
    if (how->without < 0) assert_true(worst > 0); /* they were computed in two ways */
    free(out[0]);
    free(out[1]);
}

/* A block of whose output every third row is wanted: these have the bits of all rows together. */
static void test_some_rows_of_integers(void **state)
{
    (void)state;
    const struct activation_grid g = {.bits = 8, .clip = 1, .group_size = -1};
    const struct activation_grids grids = {g, nothing, nothing};
    struct opened o = open_fixture("llama");
    const size_t C = (size_t)model_shape(o.model)->hidden, all = (size_t)offsets[4] * C;
    struct coded c = {.bits = 4, .group = 32, .integers = true, .without = -1};
    struct err e = {0};
    struct block b;
    struct acts a;
    bool wanted[LONGEST + 304];
    int64_t before[5] = {0};
    const struct sequences some = {.n = 4, .offset = before};
    float *x = malloc(all * sizeof *x), *y = malloc(all * sizeof *x);
    for (int64_t t = 0, i = 0; t < offsets[4]; t++) {
        wanted[t] = t % 3 == 2;
        while (t == offsets[i + 1]) i++, before[i + 1] = before[i];
        before[i + 1] += wanted[t];
    }
    if (!integers_run()) c.integers = false;
    must(model_acts_init(o.model, offsets[4], &a, &e), &e);
    must(model_acts_codes(&a, &e), &e);
    must(model_embed(o.model, &four, x, &e), &e);
    memcpy(y, x, all * sizeof *x);
    must(model_block_load(o.model, 0, &b, &e), &e);
    code_weights(&c, &b);
    b.grids = &grids;
    model_block_forward(o.model, &b, &four, x, &a);
    model_block_forward_rows(o.model, &b, &four, wanted, &some, y, &a);
    for (int64_t t = 0; t < offsets[4]; t++)
        if (wanted[t]) assert_memory_equal(x + (size_t)t * C, y + (size_t)t * C, C * sizeof *x);
    forget_codes(&c);
    model_block_free(&b);
    model_acts_free(&a);
    free(x);
    free(y);
    close_fixture(&o);
}

static void test_integers_as_simulated(void **state)
{
    (void)state;
    static const struct coded ways[] = {{4, 32, true, true, -1, {NULL}},
                                        {8, -1, true, true, -1, {NULL}},
                                        {8, -1, false, true, -1, {NULL}},
                                        {3, 64, false, true, 1, {NULL}}};
    static const char *const families[] = {"llama", "gpt_neox_parallel", "olmo3", "apertus"};
    struct activation_grids g = {nothing, nothing, nothing};
    const int usual = omp_get_max_threads();
    if (!integers_run()) skip();
    for (int k = 0; k < 4; k++) {
        struct opened o = open_fixture(families[k]);
        const size_t all = (size_t)(offsets[4] * model_shape(o.model)->hidden);
        struct coded c = ways[k];
        g.inputs = (struct activation_grid){.bits = k == 1 ? 4 : 8,
                                            .symmetric = k != 1,
                                            .clip = 0.9,
                                            .group_size = -1,
                                            .granularity = k == 2,
                                            .down_bits = k == 3 ? 6 : 0};
        check_stage(o.model, &g, &c);
        struct setting how = {.grids = g, .context = &c, .quantize = code_weights};
        float *y = run_setting(o.model, &four, &how, false);
        for (int threads = 1; threads <= 3; threads += 2) {
            omp_set_num_threads(threads);
            float *z = run_setting(o.model, &four, &how, threads == 3);
            assert_memory_equal(y, z, all * sizeof *y);
            free(z);
        }
        omp_set_num_threads(usual);
        c.integers = false;
        float *simulated = run_setting(o.model, &four, &how, false);
        assert_memory_not_equal(y, simulated, all * sizeof *y);
        double nll[2][LONGEST + 304], sum[2] = {0};
        losses(o.model, &four, y, nll[0]);
        losses(o.model, &four, simulated, nll[1]);
        for (int64_t i = 0; i < offsets[4] - 4; i++)
            for (int j = 0; j < 2; j++) sum[j] += nll[j][i];
        assert_true(fabs(sum[0] / sum[1] - 1) < 1e-3); /* codes flip where inputs are at a tie */
        forget_codes(&c);
        free(y);
        free(simulated);
        close_fixture(&o);
    }
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
    g.inputs = (struct activation_grid){.bits = 4, .group_size = -1, .outliers = 96};
    g.values = nothing;
    refused(&s, &g, "activations.outliers: 96 of 96 columns: expected fewer");
    g.inputs = nothing;
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
        cmocka_unit_test(test_outliers_of_the_reference),
        cmocka_unit_test(test_static_ranges),
        cmocka_unit_test(test_some_rows_of_integers),
        cmocka_unit_test(test_integers_as_simulated),
        cmocka_unit_test(test_groups_that_do_not_divide),
        cmocka_unit_test(test_the_stage_of_a_number_that_is_not_finite),
    };
    for (int i = 0; i < LONGEST + 304; i++) ids[i] = (i * 37 + i / 7) % 190;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
