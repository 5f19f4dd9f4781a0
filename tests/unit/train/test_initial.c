/* Folders of initial weights: every family opens, deviations are those of the schemes, the bits are
 * a function of the seed alone. */
#include "model/arch_table.h"
#include "model/model.h"
#include "model/sizes.h"
#include "scratch.h"
#include "train/initial.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

static char path[300];

/* A new folder of a model, opened. */
static struct checkpoint *make(const char *family, int init, uint64_t seed, const char *name)
{
    struct model_options o = {.hidden = 64, .layers = 4, .heads = 4, .vocab = 1000, .init = init};
    char word[32];
    json_t *config = NULL;
    struct checkpoint *c = NULL;
    snprintf(word, sizeof word, "%s", family);
    snprintf(path, sizeof path, "%s/%s", scratch_dir(), name);
    o.family = word;
    OK_OR_FAIL(model_config_make(&o, 7, 128, 3, &config, e));
    OK_OR_FAIL(initial_write(config, init, seed, NULL, path, e));
    OK_OR_FAIL(checkpoint_open(path, &c, e));
    json_decref(config);
    return c;
}

static float *read_all(const struct checkpoint *c, const char *name, int64_t *n)
{
    const struct tensor_entry *t = checkpoint_find(c, name);
    assert_non_null(t);
    *n = t->n_elements;
    float *w = calloc((size_t)*n, sizeof *w);
    assert_non_null(w);
    OK_OR_FAIL(checkpoint_read_range(c, t, 0, *n, w, e));
    return w;
}

static void test_families(void **state)
{
    (void)state;
    for (int i = 0; arch_at(i); i++) {
        struct model *m = NULL;
        struct checkpoint *c =
            make(arch_name(arch_at(i)), INITIAL_HUGGINGFACE, 1, arch_name(arch_at(i)));
        assert_non_null(json_object_get(checkpoint_config(c), "architectures"));
        OK_OR_FAIL(model_open(c, &m, e));
        model_close(m);
        checkpoint_close(c);
    }
}

/* Deviation of embedding (and q, k, v, head) and of the two matrices that write to the residual
 * stream, hidden 64, 4 layers: FACTS of the schemes' sources. */
static void test_deviations(void **state)
{
    static const double expected[][2] = {
        [INITIAL_HUGGINGFACE] = {0.02, 0.02},
        [INITIAL_PYTHIA] = {0.0790569415, 0.0625},
        [INITIAL_OLMO2] = {0.02 * 0.98658, 0.02 * 0.98658},
        [INITIAL_PLAINLM] = {0.02, 0.00707106781},
        [INITIAL_SCALED] = {0.125, 0.0441941738},
    };
    static const char *const names[2][3] = {
        {"gpt_neox.embed_in.weight", "gpt_neox.layers.1.attention.query_key_value.weight",
         "embed_out.weight"},
        {"gpt_neox.layers.3.attention.dense.weight", "gpt_neox.layers.0.mlp.dense_4h_to_h.weight",
         "gpt_neox.layers.2.mlp.dense_4h_to_h.weight"}};
    (void)state;
    for (int s = 0; s <= INITIAL_SCALED; s++) {
        char name[30];
        snprintf(name, sizeof name, "scheme%d", s);
        struct checkpoint *c = make("gpt_neox", s, 1, name);
        for (int out = 0; out < 2; out++)
            for (int k = 0; k < 3; k++) {
                int64_t n;
                float *w = read_all(c, names[out][k], &n);
                double sum = 0, squares = 0, largest = 0;
                for (int64_t i = 0; i < n; i++) {
                    sum += (double)w[i];
                    squares += (double)w[i] * (double)w[i];
                    largest = fmax(largest, fabs((double)w[i]));
                }
                const double std = sqrt(squares / (double)n), error = 1 / sqrt((double)n);
                assert_float_equal(std / expected[s][out], 1, 4 * error);
                assert_float_equal(sum / (double)n, 0, 4 * error * std);
                if (s == INITIAL_OLMO2) assert_true(largest <= 0.06 * (1 + 1e-6));
                if (s != INITIAL_OLMO2) assert_true(largest > 3 * std);
                free(w);
            }
        int64_t n;
        float *w = read_all(c, "gpt_neox.layers.0.input_layernorm.weight", &n);
        for (int64_t i = 0; i < n; i++) assert_true(w[i] == 1);
        free(w);
        w = read_all(c, "gpt_neox.layers.0.attention.dense.bias", &n);
        for (int64_t i = 0; i < n; i++) assert_true(w[i] == 0);
        free(w);
        checkpoint_close(c);
    }
}

static void test_bits(void **state)
{
    (void)state;
    const int threads = omp_get_max_threads();
    struct checkpoint *a = make("llama", INITIAL_OLMO2, 5, "five");
    omp_set_num_threads(threads + 2);
    struct checkpoint *b = make("llama", INITIAL_OLMO2, 5, "five-again");
    struct checkpoint *other = make("llama", INITIAL_OLMO2, 6, "six");
    omp_set_num_threads(threads);
    for (int64_t i = 0; i < checkpoint_n_tensors(a); i++) {
        const char *name = checkpoint_tensor(a, i)->name;
        int64_t n;
        float *x = read_all(a, name, &n), *y = read_all(b, name, &n),
              *z = read_all(other, name, &n);
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
        assert_true(!strstr(name, "proj") == !memcmp(x, z, (size_t)n * sizeof *x) ||
                    strstr(name, "embed") || strstr(name, "lm_head"));
        free(x);
        free(y);
        free(z);
    }
    int64_t n;
    float *q = read_all(a, "model.layers.0.self_attn.q_proj.weight", &n);
    float *k = read_all(a, "model.layers.0.self_attn.k_proj.weight", &n);
    assert_memory_not_equal(q, k, (size_t)n * sizeof *q);
    free(q);
    free(k);
    checkpoint_close(a);
    checkpoint_close(b);
    checkpoint_close(other);
}

static void test_refusals(void **state)
{
    char word[] = "gpt_neox";
    struct model_options o = {.family = word, .hidden = 64, .layers = 2, .heads = 5};
    struct err e = {0};
    json_t *config = NULL;
    (void)state;
    assert_int_equal(model_config_make(&o, 100, 64, -1, &config, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "num_attention_heads"));
}

/* The default that the listing gives the key of a family: "config's, else NUMBER, of FAMILY NUMBER,
 * FAMILY NUMBER"; otherwise: where NUMBER is none. */
static double listed(const char *key, const char *family, double otherwise)
{
    size_t base;
    char own[40], *end;
    const struct option *o = options_find(&model_options_table, key, &base);
    assert_non_null(o);
    const char *all = strstr(o->otherwise, "else "), *of = strstr(o->otherwise, ", of ");
    assert_true(all && of);
    snprintf(own, sizeof own, " %s ", family);
    const char *found = strstr(of, own);
    if (found) return strtod(found + strlen(own), NULL);
    const double every = strtod(all + strlen("else "), &end);
    return end == of ? every : otherwise;
}

static void the_listing_tells_each_familys_defaults(void **state)
{
    (void)state;
    for (int i = 0; arch_at(i); i++) {
        char family[32];
        struct model_options o = {
            .family = family, .hidden = 64, .layers = 4, .heads = 4, .vocab = 1000};
        struct model_sizes sizes;
        json_t *config = NULL;
        snprintf(family, sizeof family, "%s", arch_name(arch_at(i)));
        OK_OR_FAIL(model_config_make(&o, 7, 128, 3, &config, e));
        OK_OR_FAIL(model_sizes_read(config, family, &sizes, e));
        if (sizes.shape.head_dim != (int64_t)listed("head_dim", family, 16) ||
            sizes.spec.rope[0].info.theta != listed("theta", family, NAN))
            fail_msg("%s: head_dim %lld, theta %g", family, (long long)sizes.shape.head_dim,
                     sizes.spec.rope[0].info.theta);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_deviations),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(the_listing_tells_each_familys_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
