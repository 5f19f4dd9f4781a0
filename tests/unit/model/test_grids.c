/* Models whose inputs of linears, keys and values are quantized, against the losses of QuaRot's
 * code (tests/fixtures/activations); what these must not depend on. */
#include "model/model_internal.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blocks.h"
#include "fixture.h"

struct opened {
    struct checkpoint *checkpoint;
    struct model *model;
};

static struct opened open_fixture(const char *name)
{
    struct opened o;
    struct err e = {0};
    char dir[512];
    snprintf(dir, sizeof dir, "%s/models/%s", FIXTURES, name);
    must(checkpoint_open(dir, &o.checkpoint, &e), &e);
    must(model_open(o.checkpoint, &o.model, &e), &e);
    return o;
}

static void close_fixture(struct opened *o)
{
    model_close(o->model);
    checkpoint_close(o->checkpoint);
}

/* Weights of a row in so many bits: absmax / (2^(bits-1) - 1), which is an input's own grid. */
static void quantize_weights(struct block *b, int64_t bits)
{
    const struct activation_grid g = {.bits = bits, .symmetric = true, .clip = 1, .group_size = -1};
    for (int k = 0; bits < 16 && k < b->n_linears; k++)
        for (int64_t i = 0; i < b->linear[k].rows; i++)
            activation_row(&g, -1, (float *)(uintptr_t)b->linear[k].w + i * b->linear[k].cols,
                           b->linear[k].cols);
}

/* The hidden states behind all blocks, which the caller frees. rows: of the last block only these,
 * all of them. */
static float *run(const struct model *m, const struct sequences *s,
                  const struct activation_grids *g, int64_t weight_bits, bool rows)
{
    struct acts a;
    struct block b;
    struct err e = {0};
    const int64_t tokens = s->offset[s->n], layers = model_shape(m)->layers;
    float *x = malloc((size_t)(tokens * model_shape(m)->hidden) * sizeof *x);
    bool *wanted = malloc((size_t)tokens);
    memset(wanted, true, (size_t)tokens);
    must(model_check_grids(model_shape(m), g, &e), &e);
    must(model_acts_init(m, tokens, &a, &e), &e);
    must(model_embed(m, s, x, &e), &e);
    for (int64_t layer = 0; layer < layers; layer++) {
        must(model_block_load(m, layer, &b, &e), &e);
        quantize_weights(&b, weight_bits);
        b.grids = g;
        if (rows && layer + 1 == layers)
            model_block_forward_rows(m, &b, s, wanted, s, x, &a);
        else
            model_block_forward(m, &b, s, x, &a);
        model_block_free(&b);
    }
    model_acts_free(&a);
    free(wanted);
    return x;
}

/* nll (sequences, T - 1) of the hidden states. */
static void losses(const struct model *m, const struct sequences *s, float *x, double *nll)
{
    const int64_t C = model_shape(m)->hidden, V = model_shape(m)->vocab;
    double *logit = malloc((size_t)V * sizeof *logit);
    model_final_norm(m, x, s->offset[s->n], x);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offset[i]; t + 1 < s->offset[i + 1]; t++) {
            double most = -INFINITY, sum = 0;
            for (int64_t v = 0; v < V; v++) {
                logit[v] = 0;
                for (int64_t c = 0; c < C; c++)
                    logit[v] += (double)x[t * C + c] * (double)model_head(m)[v * C + c];
                most = fmax(most, logit[v]);
            }
            for (int64_t v = 0; v < V; v++) sum += exp(logit[v] - most);
            *nll++ = log(sum) + most - logit[s->ids[t + 1]];
        }
    free(logit);
}

static double number(const json_t *setting, const char *key, double fallback)
{
    const json_t *x = json_object_get(setting, key);
    return x ? json_number_value(x) : fallback;
}

static struct activation_grids grids_of(const json_t *s)
{
    return (struct activation_grids){.inputs = {.bits = (int64_t)number(s, "a_bits", 16),
                                                .symmetric = true,
                                                .clip = number(s, "a_clip_ratio", 1),
                                                .group_size = -1},
                                     .keys = {.bits = (int64_t)number(s, "k_bits", 16),
                                              .clip = number(s, "k_clip_ratio", 1),
                                              .group_size = -1,
                                              .rotation = KEY_ROTATION_HADAMARD},
                                     .values = {.bits = (int64_t)number(s, "v_bits", 16),
                                                .clip = number(s, "v_clip_ratio", 1),
                                                .group_size = -1}};
}

/* The reference's own loss moves where rounding alone makes a code flip, which every later position
 * of its row sees: `agree` is how many positions of it stay. */
static void check_losses(const char *name, const json_t *setting, const double *nll,
                         const double *reference, int64_t n)
{
    const bool exact = number(setting, "agree", 0) >= 1, eight = number(setting, "a_bits", 16) == 8;
    int64_t near = 0;
    double difference = 0;
    for (int64_t i = 0; i < n; i++) {
        near += fabs(nll[i] - reference[i]) < 1e-4;
        difference += (nll[i] - reference[i]) / (double)n;
    }
    print_message("%s: %+.1e, %d of %d positions\n", name, difference, (int)near, (int)n);
    if (exact)
        assert_true(fabs(difference) < 3e-6 && near == n);
    else
        assert_true(10 * near >= 4 * n || (eight && fabs(difference) < 1e-2));
}

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
        const struct fixture_tensor t = fixture_get(&f, family);
        struct sequences s;
        struct err e = {0};
        must(sequences_init(&s, t.dim[0], t.dim[0] * t.dim[1], false, &e), &e);
        for (int64_t i = 0; i <= s.n; i++) s.offset[i] = i * t.dim[1];
        memcpy(s.ids, t.data, (size_t)s.offset[s.n] * sizeof *s.ids);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_of_the_reference),
        cmocka_unit_test(test_same_bits_however_it_is_cut),
        cmocka_unit_test(test_each_has_an_effect),
        cmocka_unit_test(test_groups_that_do_not_divide),
    };
    for (int i = 0; i < LONGEST + 304; i++) ids[i] = (i * 37 + i / 7) % 190;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
