/* Keys and values as a cache of KIVI holds them while a text is generated: the reference's losses
 * and attention (tests/fixtures/activations), a cache that is filled token by token, and what does
 * not matter. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "activation/kivi.h"
#include "grids.h"

static const struct activation_grid nothing = {.bits = ACTIVATION_BITS_NONE};

static struct activation_grids cache_of(int64_t bits, int64_t group, int64_t residual,
                                        int64_t prefill)
{
    const struct activation_grid g = {
        .bits = bits, .clip = 1, .group_size = group, .residual = residual, .prefill = prefill};
    struct activation_grids all = {nothing, g, g};
    all.keys.kind = CACHE_CHANNEL;
    return all;
}

/* K, V of the reference, bit for bit: of all heads and sequences, 96 tokens each. */
static void test_groups_of_the_reference(void **state)
{
    (void)state;
    struct fixture f;
    assert_true(fixture_open(&f, FIXTURES "/activations", "kivi"));
    const float *k = fixture_get(&f, "K").f, *v = fixture_get(&f, "V").f;
    static float y[4 * 96 * 32];
    assert_int_equal(fixture_get(&f, "K").dim[0], 4 * 96);
    for (int i = 0; i < 4; i++) {
        char name[32];
        const struct activation_grid g = {.bits = i / 2 ? 4 : 2, .group_size = i % 2 ? 32 : 16};
        snprintf(name, sizeof name, "b%d_g%d.K", (int)g.bits, (int)g.group_size);
        kivi_keys(&g, k, 4 * 96, 32, y);
        assert_memory_equal(y, fixture_get(&f, name).f, sizeof y);
        name[strlen(name) - 1] = 'V';
        kivi_values(&g, v, 4 * 96, 32, y);
        assert_memory_equal(y, fixture_get(&f, name).f, sizeof y);
    }
    fixture_close(&f);
}

/* The first block's input of o, within 1e-5 of the largest number. */
static void check_attention(const struct model *m, const struct sequences *s,
                            const struct activation_grids *g, const struct fixture_tensor *r)
{
    const int64_t n = r->dim[0] * r->dim[1] * r->dim[2];
    double worst = 0, most = 0;
    struct block b;
    struct acts a;
    struct err e = {0};
    float *x = malloc((size_t)(s->offset[s->n] * model_shape(m)->hidden) * sizeof *x);
    must(model_embed(m, s, x, &e), &e);
    must(model_acts_init(m, s->offset[s->n], &a, &e), &e);
    must(model_block_load(m, 0, &b, &e), &e);
    b.grids = g;
    model_stage_input(m, &b, STAGE_QKV, s, 0, s->n, x, &a);
    model_stage_output(m, &b, STAGE_QKV, s, 0, s->n, x, &a);
    model_stage_input(m, &b, STAGE_O, s, 0, s->n, x, &a);
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a.in[i] - (double)r->f[i]));
        most = fmax(most, fabs((double)r->f[i]));
    }
    assert_true(worst < 1e-5 * most);
    free(x);
    model_acts_free(&a);
    model_block_free(&b);
}

static void test_losses_of_the_reference(void **state)
{
    (void)state;
    struct fixture f;
    int n = 0;
    struct opened o = open_fixture("llama");
    assert_true(fixture_open(&f, FIXTURES "/activations", "kivi"));
    struct sequences s = sequences_of(&f, "ids");
    double nll[2 * 47], float_nll[2 * 47];
    float *plain = forward(o.model, &s, s.offset[s.n]);
    losses(o.model, &s, plain, float_nll);
    free(plain);
    for (int k = 0; k < 8; k++) {
        static const char *const prefills[] = {"1", "20", "all"};
        const int64_t prefill[] = {1, 20, 48}, p = k % 4 % 3, R = k % 4 == 3 ? 32 : 16;
        char name[64];
        const struct activation_grids g = cache_of(k / 4 ? 4 : 2, 16, R, prefill[p]);
        float *x = run(o.model, &s, &g, 16, false);
        snprintf(name, sizeof name, "b%d_g16_r%d_prefill%s.nll", (int)g.keys.bits, (int)R,
                 prefills[p]);
        const double *reference = fixture_get(&f, name).data;
        losses(o.model, &s, x, nll);
        double worst = 0, sum = 0;
        for (int i = 0; i < 2 * 47; i++) {
            worst = fmax(worst, fabs(nll[i] - reference[i]));
            sum += (nll[i] - reference[i]) / (2 * 47);
        }
        print_message("%s: %.1e, at most %.1e\n", name, sum, worst);
        assert_true(fabs(sum) < 3e-6 && worst < 1e-4);
        if (p == 2) assert_memory_equal(nll, float_nll, sizeof nll);
        memcpy(strstr(name, "nll"), "attention", sizeof "attention");
        const struct fixture_tensor attention =
            p == 2 ? (struct fixture_tensor){0} : fixture_get(&f, name);
        if (p < 2) check_attention(o.model, &s, &g, &attention);
        free(x);
        n++;
    }
    assert_int_equal(n, 8);
    sequences_free(&s);
    fixture_close(&f);
    close_fixture(&o);
}

/* --- a cache that is filled token by token --- */

enum { T = 300, D_MAX = 64 };

struct stream {
    int64_t D, n, flushed, old; /* tokens so far; of them flushed keys, and values */
    double k[T * D_MAX], v[T * D_MAX];
};

static void quantize_group(double *x, int64_t n, int64_t pitch, int64_t bits)
{
    float least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        least = fminf(least, (float)x[i * pitch]);
        most = fmaxf(most, (float)x[i * pitch]);
    }
    const float scale = (most - least) / (float)((1 << bits) - 1);
    for (int64_t i = 0; i < n && scale > 0; i++)
        x[i * pitch] = rintf(((float)x[i * pitch] - least) / scale) * scale + least;
}

/* The token's key and value go into the cache, its query sees all that is there from `first` on;
 * then the cache is quantized. */
static void generate(struct stream *c, const struct activation_grids *g, const float *q,
                     const float *k, const float *v, int64_t window, double *out)
{
    const int64_t D = c->D, t = c->n++, first = window > 0 && t >= window ? t - window + 1 : 0;
    double p[T], sum = 0, most = -INFINITY;
    for (int64_t j = 0; j < D; j++) c->k[t * D + j] = k[j], c->v[t * D + j] = v[j];
    for (int64_t i = first; i <= t; i++) {
        p[i] = 0;
        for (int64_t j = 0; j < D; j++) p[i] += (double)q[j] * c->k[i * D + j];
        p[i] /= sqrt((double)D);
        most = fmax(most, p[i]);
    }
    for (int64_t i = first; i <= t; i++) sum += p[i] = exp(p[i] - most);
    for (int64_t j = 0; j < D; j++) out[j] = 0;
    for (int64_t i = first; i <= t; i++)
        for (int64_t j = 0; j < D; j++) out[j] += p[i] / sum * c->v[i * D + j];
    if (c->n < g->keys.prefill) return;
    for (; g->keys.residual && c->n - c->flushed >= g->keys.residual;
         c->flushed += g->keys.residual)
        for (int64_t a = 0; a < g->keys.residual; a += g->keys.group_size)
            for (int64_t j = 0; j < D; j++)
                quantize_group(c->k + (c->flushed + a) * D + j, g->keys.group_size, D,
                               g->keys.bits);
    for (; g->values.residual && c->n - c->old > g->values.residual; c->old++)
        for (int64_t a = 0; a < D; a += g->values.group_size)
            quantize_group(c->v + c->old * D + a, g->values.group_size, 1, g->values.bits);
}

/* The largest difference of attention in a block's forward pass from a cache's, over the largest
 * number. */
static double against_stream(const char *family, int64_t layer, const struct activation_grids *g)
{
    struct opened o = open_fixture(family);
    const struct model_shape *shape = model_shape(o.model);
    const int64_t D = shape->head_dim, width = qkv_width(&o.model->spec), ld = shape->heads * D;
    int64_t offset[] = {0, T};
    int32_t ids[T];
    const struct sequences s = {.n = 1, .offset = offset, .ids = ids};
    struct block b;
    struct acts a;
    struct err e = {0};
    struct stream *c = malloc(sizeof *c);
    float *x = malloc((size_t)(T * shape->hidden) * sizeof *x);
    double worst = 0, largest = 0, out[D_MAX];
    for (int i = 0; i < T; i++) ids[i] = (i * 37 + i / 7) % 190;
    must(model_check_grids(shape, g, &e), &e);
    must(model_embed(o.model, &s, x, &e), &e);
    must(model_acts_init(o.model, T, &a, &e), &e);
    must(model_block_load(o.model, layer, &b, &e), &e);
    b.grids = g;
    model_stage_input(o.model, &b, STAGE_QKV, &s, 0, 1, x, &a);
    model_stage_output(o.model, &b, STAGE_QKV, &s, 0, 1, x, &a);
    model_stage_input(o.model, &b, STAGE_O, &s, 0, 1, x, &a);
    for (int64_t head = 0; head < shape->heads; head++) {
        int64_t q, k, v;
        qkv_columns(&o.model->spec, head, &q, &k, &v);
        memset(c, 0, sizeof *c);
        c->D = D;
        for (int64_t t = 0; t < T; t++) {
            const float *row = a.inner + t * width;
            generate(c, g, row + q, row + k, row + v, spec_window(&o.model->spec, layer), out);
            for (int64_t j = 0; j < D; j++) {
                worst = fmax(worst, fabs(out[j] - (double)a.in[t * ld + head * D + j]));
                largest = fmax(largest, fabs(out[j]));
            }
        }
    }
    free(x);
    free(c);
    model_acts_free(&a);
    model_block_free(&b);
    close_fixture(&o);
    print_message("%s: keys %d bits, %d tokens; values %d bits, %d tokens: %.1e\n", family,
                  (int)g->keys.bits, (int)g->keys.residual, (int)g->values.bits,
                  (int)g->values.residual, worst / largest);
    return worst / largest;
}

static void test_one_pass_is_the_stream(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "gpt_neox_parallel", "olmo3", "smollm3",
                                           "apertus"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct activation_grids settings[] = {cache_of(2, 4, 12, 1), cache_of(2, 4, 64, 0),
                                                    cache_of(4, 4, 128, 150)};
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
            struct activation_grids g = settings[k];
            g.values.group_size = 4;
            assert_true(against_stream(families[i], 0, &g) < 1e-6);
            g.keys.group_size = g.keys.residual; /* not a divisor of the tiles */
            g.values = k == 1 ? nothing : g.values;
            assert_true(against_stream(families[i], 0, &g) < 1e-6);
        }
        struct activation_grids values = settings[0];
        values.keys = nothing;
        values.values.group_size = 4;
        assert_true(against_stream(families[i], 0, &values) < 1e-6);
    }
}

/* --- what does not matter --- */

static int64_t offsets[] = {0, 1, 601, 604, 904};
static int32_t ids[904];
static struct sequences four = {.n = 4, .offset = offsets, .ids = ids};

static void test_same_bits_however_it_is_cut(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "gpt_neox_parallel", "olmo3"};
    for (int k = 0; k < 3; k++) {
        struct opened o = open_fixture(families[k]);
        const size_t C = (size_t)model_shape(o.model)->hidden, all = 904 * C;
        struct activation_grids g = cache_of(2, 8, 40, 3);
        g.values.group_size = -1;
        float *x = run(o.model, &four, &g, 16, false);
        float *plain = forward(o.model, &four, 904);
        assert_memory_not_equal(x, plain, all * sizeof *x);
        for (int threads = 1; threads <= 3; threads += 2) {
            omp_set_num_threads(threads);
            float *y = run(o.model, &four, &g, 16, threads == 3);
            assert_memory_equal(x, y, all * sizeof *x);
            free(y);
        }
        int64_t alone[] = {0, 300};
        struct sequences one = {.n = 1, .offset = alone, .ids = ids + offsets[3]};
        float *y = run(o.model, &one, &g, 16, false);
        assert_memory_equal(x + (size_t)offsets[3] * C, y, 300 * C * sizeof *x);
        free(y);
        free(x);
        /* Nothing is older than the text is long: bit for bit full precision. */
        g = cache_of(2, 100, 600, 0);
        g.values.group_size = -1;
        x = run(o.model, &four, &g, 16, false);
        assert_memory_equal(x, plain, all * sizeof *x);
        free(x);
        free(plain);
        close_fixture(&o);
    }
}

/* Tokens of a common context, and of two continuations, see what a sequence of their own does. */
static void test_segments(void **state)
{
    (void)state;
    struct opened o = open_fixture("llama");
    const size_t C = (size_t)model_shape(o.model)->hidden;
    struct activation_grids g = cache_of(2, 16, 32, 0);
    struct segment segments[] = {{.parent = -1},
                                 {.row = 150, .pos = 150, .parent = 0},
                                 {.row = 180, .pos = 150, .parent = 0}};
    int64_t together[] = {0, 210}, alone[] = {0, 180}, first[] = {0, 3};
    int32_t own[180];
    const struct sequences s = {.n = 1,
                                .offset = together,
                                .ids = ids,
                                .segments = segments,
                                .first_segment = first},
                           one = {.n = 1, .offset = alone, .ids = own};
    float *x = run(o.model, &s, &g, 16, false);
    for (int k = 0; k < 2; k++) {
        memcpy(own, ids, sizeof own);
        memcpy(own + 150, ids + 150 + 30 * (size_t)k, 30 * sizeof *own);
        float *y = run(o.model, &one, &g, 16, false);
        double worst = 0;
        for (size_t i = 0; i < 30 * C; i++)
            worst = fmax(worst,
                         fabs((double)x[(150 + 30 * (size_t)k) * C + i] - (double)y[150 * C + i]));
        print_message("continuation %d: %.1e\n", k, worst);
        assert_true(worst < 1e-4);
        free(y);
    }
    free(x);
    close_fixture(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_the_reference),
        cmocka_unit_test(test_losses_of_the_reference),
        cmocka_unit_test(test_one_pass_is_the_stream),
        cmocka_unit_test(test_same_bits_however_it_is_cut),
        cmocka_unit_test(test_segments),
    };
    for (int i = 0; i < 904; i++) ids[i] = (i * 37 + i / 7) % 190;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
