/* The forward pass: what its results must not depend on, and checkpoints that do not match their
 * config. */
#include "math/isa.h"
#include "math/linalg.h"
#include "model/model_internal.h"
#include "model/sizes.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "blocks.h"
#include "prepared.h"

enum { LONGEST = 600 };
static int64_t offsets[] = {0, 1, 1 + LONGEST, LONGEST + 4, LONGEST + 304, LONGEST + 304};
static int32_t ids[LONGEST + 304];
static struct sequences five = {.n = 5, .offset = offsets, .ids = ids};

static float *forward_on(int threads, const struct model *m, const struct sequences *s,
                         int64_t room)
{
    const int usual = omp_get_max_threads();
    omp_set_num_threads(threads);
    float *y = forward(m, s, room);
    omp_set_num_threads(usual);
    return y;
}

/* Bit for bit the same for any number of threads, size of the acts, and neighbours. */
static void same_bits_however_it_is_cut(void **state)
{
    struct opened o = open_fixture(*state);
    size_t C = (size_t)model_shape(o.model)->hidden, all = (size_t)offsets[5];
    float *x = forward_on(1, o.model, &five, offsets[5]);
    for (int threads = 1; threads <= 3; threads++)
        for (int whole = 0; whole < 2; whole++) {
            float *y = forward_on(threads, o.model, &five, whole ? offsets[5] : LONGEST);
            assert_memory_equal(x, y, all * C * sizeof *x);
            free(y);
        }
    int64_t alone[] = {0, 300};
    struct sequences one = {.n = 1, .offset = alone, .ids = ids + offsets[3]};
    float *y = forward_on(2, o.model, &one, 300);
    assert_memory_equal(x + (size_t)offsets[3] * C, y, 300 * C * sizeof *x);
    free(y);
    free(x);
    close_fixture(&o);
}

/* Later tokens do not affect earlier ones. */
static void later_tokens_do_not_affect_earlier_ones(void **state)
{
    (void)state;
    struct opened o = open_fixture("llama");
    size_t C = (size_t)model_shape(o.model)->hidden;
    float *x = forward_on(2, o.model, &five, offsets[5]);
    int32_t kept = ids[1 + 500];
    ids[1 + 500] = (kept + 1) % 256;
    float *y = forward_on(2, o.model, &five, offsets[5]);
    ids[1 + 500] = kept;
    assert_memory_equal(x, y, 501 * C * sizeof *x);
    for (size_t t = 501; t < 601; t++) assert_memory_not_equal(x + t * C, y + t * C, C * sizeof *x);
    assert_memory_equal(x + 601 * C, y + 601 * C, (size_t)(offsets[5] - 601) * C * sizeof *x);
    free(y);
    free(x);
    close_fixture(&o);
}

/* A shallow copy with other weights is a variant; the block itself is unchanged. */
static void variant_by_shallow_copy(void **state)
{
    (void)state;
    struct opened o = open_fixture("gpt_neox_parallel");
    struct err e = {0};
    struct block b;
    must(model_block_load(o.model, 1, &b, &e), &e);
    struct block copy = b;
    copy.storage = NULL;
    float *zeros = calloc((size_t)(b.linear[3].rows * b.linear[3].cols), sizeof *zeros);
    copy.linear[3].w = zeros;
    struct acts a;
    must(model_acts_init(o.model, offsets[5], &a, &e), &e);
    size_t n = (size_t)(offsets[5] * model_shape(o.model)->hidden);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    must(model_embed(o.model, &five, x, &e), &e);
    must(model_embed(o.model, &five, y, &e), &e);
    model_block_forward(o.model, &b, &five, x, &a);
    model_block_forward(o.model, &copy, &five, y, &a);
    assert_memory_not_equal(x, y, n * sizeof *x);
    model_block_free(&copy);
    assert_non_null(b.linear[3].name);
    assert_string_equal(b.linear[3].name, "gpt_neox.layers.1.mlp.dense_4h_to_h.weight");
    free(zeros);
    free(x);
    free(y);
    model_acts_free(&a);
    model_block_free(&b);
    close_fixture(&o);
}

/* x = the hidden states behind all blocks, the last one for the wanted rows alone if there are
 * some.
 */
static float *forward_rows(const struct model *m, enum products kind, const bool *wanted,
                           const struct sequences *some)
{
    struct acts a;
    struct err e = {0};
    const int64_t layers = model_shape(m)->layers;
    float *x = malloc((size_t)(offsets[5] * model_shape(m)->hidden) * sizeof *x);
    must(model_acts_init(m, offsets[5], &a, &e), &e);
    assert_int_equal(a.products, kind);
    must(model_embed(m, &five, x, &e), &e);
    for (int64_t layer = 0; layer < layers; layer++) {
        struct block b;
        struct prepared prepared;
        must(model_block_load(m, layer, &b, &e), &e);
        must(prepare_block(m, &b, &prepared, &e), &e);
        if (wanted && layer + 1 == layers)
            model_block_forward_rows(m, &b, &five, wanted, some, x, &a);
        else
            model_block_forward(m, &b, &five, x, &a);
        prepared_free(&prepared);
        model_block_free(&b);
    }
    model_acts_free(&a);
    return x;
}

/* Rows of the last block computed alone are what they are in the whole block, bit for bit, in
 * sequences of which all rows, some, one or none are wanted. */
static void wanted_rows_alone(void **state)
{
    struct opened o = open_fixture(*state);
    const int64_t C = model_shape(o.model)->hidden, n = offsets[5];
    bool *wanted = calloc((size_t)n, sizeof *wanted);
    int64_t before[6] = {0}, found = 0;
    struct sequences some = {.n = 5, .offset = before};
    for (int64_t t = 1; t < n; t++)
        wanted[t] =
            t <= LONGEST ? t % 7 == 3 || (t > 100 && t < 250) : t > LONGEST + 3 || t == n - 2;
    for (int i = 0; i < 5; i++) {
        before[i + 1] = before[i];
        for (int64_t t = offsets[i]; t < offsets[i + 1]; t++) before[i + 1] += wanted[t];
    }
    const enum isa before_all = isa_active();
    const int sets = strstr(products_unit(PRODUCTS_F32), "oneDNN") ? 1 : ISA_N;
    for (int i = 0; i < sets * PRODUCTS_AUTO; i++) {
        const enum products kind = (enum products)(i / sets);
        const int isa = before_all - i % sets;
        if (isa < 0) continue;
        isa_use((enum isa)isa);
        model_set_products(o.model, kind);
        float *x = forward_rows(o.model, kind, NULL, NULL);
        float *y = forward_rows(o.model, kind, wanted, &some);
        for (int64_t t = 0; t < n; t++) {
            found += wanted[t];
            if (wanted[t]) assert_memory_equal(x + t * C, y + t * C, (size_t)C * sizeof *x);
        }
        free(x);
        free(y);
    }
    isa_use(before_all);
    assert_int_equal(found % (4 * before[5]), 0);
    assert_true(found > 0);
    assert_true(before[1] == 0 && before[5] > 400 && before[5] < n - 300);
    free(wanted);
    close_fixture(&o);
}

/* Stage inputs have the pitch of the stage's columns and follow the formula of the first norm. */
static void stage_input_is_the_normed_stream(void **state)
{
    (void)state;
    struct opened o = open_fixture("qwen3");
    struct err e = {0};
    struct block b;
    struct acts a;
    int64_t C = model_shape(o.model)->hidden;
    must(model_block_load(o.model, 0, &b, &e), &e);
    must(model_acts_init(o.model, offsets[5], &a, &e), &e);
    struct model_sizes sizes;
    model_sizes(o.model, &sizes);
    assert_true(model_sizes_acts(&sizes, offsets[5], 1) < 1 << 24);
    float *x = malloc((size_t)(offsets[5] * C) * sizeof *x);
    must(model_embed(o.model, &five, x, &e), &e);
    model_stage_input(o.model, &b, STAGE_QKV, &five, 3, 4, x, &a);
    for (int64_t t = 0; t < 300; t++) {
        const float *row = x + (offsets[3] + t) * C;
        double squares = 0;
        for (int64_t i = 0; i < C; i++) squares += (double)row[i] * row[i];
        for (int64_t i = 0; i < C; i++) {
            double want =
                b.extra->p[EXTRA_ATTN_NORM][i] * row[i] / sqrt(squares / (double)C + 1e-6);
            assert_true(fabs(a.in[t * C + i] - want) < 1e-5);
        }
    }
    free(x);
    model_acts_free(&a);
    model_block_free(&b);
    close_fixture(&o);
}

static void ids_outside_the_vocabulary(void **state)
{
    (void)state;
    struct opened o = open_fixture("llama");
    struct err e = {0};
    float *x = malloc((size_t)(offsets[5] * model_shape(o.model)->hidden) * sizeof *x);
    ids[offsets[2] + 2] = 256;
    assert_int_equal(model_embed(o.model, &five, x, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "sequence 2, token 2: id 256"));
    ids[offsets[2] + 2] = -1;
    assert_int_equal(model_embed(o.model, &five, x, NULL), ERR_FORMAT);
    ids[offsets[2] + 2] = 5;
    free(x);
    close_fixture(&o);
}

/* The fixture's weights with one changed key of the config. */
static enum status open_changed(const char *fixture, const char *key, json_t *value, struct err *e)
{
    char dir[] = "/tmp/qtraj_model_XXXXXX", from[600], path[600];
    struct checkpoint *c = NULL;
    struct model *m = NULL;
    json_t *config = NULL;
    assert_non_null(mkdtemp(dir));
    snprintf(from, sizeof from, "%s/models/%s/config.json", FIXTURES, fixture);
    must(json_read_file(from, 0, &config, e), e);
    json_object_set_new(config, key, value);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    snprintf(from, sizeof from, "%s/models/%s/model.safetensors", FIXTURES, fixture);
    char weights[600];
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    assert_int_equal(symlink(from, weights), 0);
    must(checkpoint_open(dir, &c, e), e);
    enum status st = model_open(c, &m, e);
    model_close(m);
    checkpoint_close(c);
    assert_int_equal(unlink(path) | unlink(weights) | rmdir(dir), 0);
    return st;
}

static void tensors_that_do_not_fit(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(open_changed("llama", "num_hidden_layers", json_integer(4), &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "tensor model.layers.3.self_attn.q_proj.weight is missing"));
    err_clear(&e);
    assert_int_equal(open_changed("llama", "intermediate_size", json_integer(97), &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, "mlp.gate_proj.weight has shape [96, 64]"));
    assert_non_null(strstr(e.text, "asks for [97, 64]"));
    err_clear(&e);
    assert_int_equal(open_changed("llama", "attention_bias", json_true(), &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "self_attn.q_proj.bias is missing"));
    err_clear(&e);
    assert_int_equal(open_changed("qwen2", "tie_word_embeddings", json_false(), &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "lm_head.weight is missing"));
    err_clear(&e);
    assert_int_equal(open_changed("llama", "vocab_size", json_integer(255), &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, "model.embed_tokens.weight has shape [256, 64]"));
    err_clear(&e);
    assert_int_equal(open_changed("llama", "model_type", json_string("gptj"), &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "config.json: model_type \"gptj\" is not supported"));
    err_clear(&e);
    /* Nothing missing under a changed eps. */
    must(open_changed("llama", "rms_norm_eps", json_real(1e-3), &e), &e);
}

/* Tensors that the config excludes are not skipped silently. */
static void tensors_left_over(void **state)
{
    (void)state;
    struct err e = {0};
    static const struct {
        const char *fixture, *key, *message;
        int64_t value; /* below 0: false */
    } bad[] = {
        {"llama", "num_hidden_layers", "is of layer 2, but config.json has 2 layers", 2},
        {"opensci", "attention_bias", "self_attn.k_proj.bias is stored, but by config.json", -1},
        {"opensci", "mlp_bias", "mlp.down_proj.bias is stored", -1},
        {"opensci", "qk_layernorm", "self_attn.k_layernorm.weight is stored", -1},
        {"gpt_neox_parallel", "attention_bias", "attention.dense.bias is stored", -1},
        {"bitnet_packed", "num_hidden_layers", "is of layer 2, but config.json has 2 layers", 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *value = bad[i].value < 0 ? json_false() : json_integer(bad[i].value);
        err_clear(&e);
        assert_int_equal(open_changed(bad[i].fixture, bad[i].key, value, &e), ERR_FORMAT);
        if (!strstr(e.text, bad[i].message)) fail_msg("%s", e.text);
    }
    err_clear(&e);
    /* a head that is stored although it is tied */
    must(open_changed("llama", "tie_word_embeddings", json_true(), &e), &e);
}

int main(void)
{
    static const char *const cut[] = {"llama", "olmo2", "olmo3_yarn", "gpt_neox_parallel",
                                      "apertus"};
    enum { CUTS = sizeof cut / sizeof *cut };
    struct CMUnitTest tests[2 * CUTS + 6] = {
        cmocka_unit_test(later_tokens_do_not_affect_earlier_ones),
        cmocka_unit_test(variant_by_shallow_copy),
        cmocka_unit_test(stage_input_is_the_normed_stream),
        cmocka_unit_test(ids_outside_the_vocabulary),
        cmocka_unit_test(tensors_that_do_not_fit),
        cmocka_unit_test(tensors_left_over),
    };
    for (int i = 0; i < 2 * CUTS; i++)
        tests[6 + i] = (struct CMUnitTest){.name = cut[i % CUTS],
                                           .test_func = i < CUTS ? same_bits_however_it_is_cut
                                                                 : wanted_rows_alone,
                                           .initial_state = (void *)(size_t)cut[i % CUTS]};
    for (int i = 0; i < LONGEST + 304; i++) ids[i] = (i * 37 + i / 7) % 198;
    linalg_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
