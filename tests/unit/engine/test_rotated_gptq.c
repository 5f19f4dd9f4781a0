/* GPTQ of rotated models against QuaRot's code (tests/fixtures/activations): weights of the first
 * block, and losses, with inputs, keys and values as they come and in 4 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../model/rotations.h"

/* Calibration of one model: the hidden states behind the blocks so far. */
struct gptq {
    const struct model *rotated;
    struct sequences sequences;
    struct quant_options options;
    struct acts acts;
    float *x;
    const struct fixture *weights; /* of the first block are compared with it; NULL: not */
};

static void gptq_begin(struct gptq *g, const struct model *rotated, const struct fixture *f,
                       const char *family, const json_t *setting)
{
    struct err e = {0};
    char name[100];
    snprintf(name, sizeof name, "%s.calibration", family);
    *g = (struct gptq){.rotated = rotated, .sequences = sequences_of(f, name)};
    const int64_t T = g->sequences.offset[g->sequences.n];
    options_default(&quant_table, &g->options);
    g->options.group_size = (int64_t)number(setting, "w_groupsize", -1);
    g->options.narrow_range = true;
    g->options.range_search = flag(setting, "w_clip", false) ? 2.4 : 0;
    g->weights = number(setting, "a_bits", 16) == 16 ? f : NULL;
    g->x = malloc((size_t)(T * model_shape(rotated)->hidden) * sizeof *g->x);
    must(model_acts_init(rotated, T, &g->acts, &e), &e);
    must(model_embed(rotated, &g->sequences, g->x, &e), &e);
}

static void gptq_end(struct gptq *g)
{
    model_acts_free(&g->acts);
    sequences_free(&g->sequences);
    free(g->x);
}

/* (n, n): the sum of x xᵀ over the tokens. */
static double *gram_of(const float *x, int64_t tokens, int64_t n)
{
    double *h = calloc((size_t)(n * n), sizeof *h);
    for (int64_t t = 0; t < tokens; t++, x += n)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) h[i * n + j] += (double)x[i] * (double)x[j];
    return h;
}

/* At most 1 in 200 weights is another, where rounding alone decides a code. */
static void compare(const struct fixture *f, const struct linear *l)
{
    char part[80];
    int64_t n, other = 0;
    const char *dot = strstr(l->name, ".weight"), *name = dot;
    while (name[-1] != '.') name--;
    snprintf(part, sizeof part, "gptq.%.*s.W", (int)(dot - name), name);
    const float *w = copy_of(f, "llama", "quarot", part, &n);
    for (int64_t i = 0; i < n; i++) other += fabsf(w[i] - l->w[i]) > 1e-5f;
    print_message("%s: %d of %d weights differ\n", part, (int)other, (int)n);
    assert_true(200 * other <= n);
}

static void quantize(void *context, struct block *b)
{
    struct gptq *g = context;
    const struct sequences *s = &g->sequences;
    const int64_t T = s->offset[s->n];
    struct err e = {0};
    for (int stage = 0; stage < STAGE_N; stage++) {
        void *prepared = NULL;
        double *gram = NULL;
        model_stage_input(g->rotated, b, stage, s, 0, s->n, g->x, &g->acts);
        for (int i = 0; i < b->n_linears; i++) {
            const struct linear *l = &b->linear[i];
            const int64_t n = l->rows * l->cols;
            if (l->stage != stage) continue;
            if (!gram) gram = gram_of(g->acts.in, T, l->cols);
            const struct quant_input in = {.layer = b->layer,
                                           .cols = l->cols,
                                           .samples = s->n,
                                           .tokens = T,
                                           .statistic = {[STATISTIC_GRAM] = gram}};
            float *q = malloc((size_t)n * sizeof *q);
            struct quant_report report;
            if (!prepared) must(quant_gptq.prepare(&in, &g->options, &prepared, &e), &e);
            const struct quant_job job = {.bits = 4,
                                          .options = &g->options,
                                          .layer = b->layer,
                                          .linear = i,
                                          .rows = l->rows,
                                          .cols = l->cols,
                                          .w = l->w,
                                          .q = q,
                                          .input = &in,
                                          .prepared = prepared};
            must(quant_gptq.run(&job, &report, &e), &e);
            memcpy((float *)(uintptr_t)l->w, q, (size_t)n * sizeof *q);
            free(q);
            if (g->weights && b->layer == 0) compare(g->weights, l);
        }
        quant_gptq.release(prepared);
        free(gram);
        model_stage_output(g->rotated, b, stage, s, 0, s->n, g->x, &g->acts);
    }
}

static void check_setting(const struct fixture *f, const char *key, const json_t *setting)
{
    char family[80], name[100];
    struct gptq g;
    snprintf(family, sizeof family, "%.*s", (int)strcspn(key, "."), key);
    snprintf(name, sizeof name, "%s.ids", family);
    struct opened o = open_fixture(family);
    struct sequences s = sequences_of(f, name);
    struct model *r = rotate_as(f, family, json_object_get(setting, "arm"), o.model);
    gptq_begin(&g, r, f, family, setting);
    const struct setting how = {
        .rotated = r, .grids = grids_of(setting), .quantize = quantize, .context = &g};
    snprintf(name, sizeof name, "%s.nll", key);
    const struct fixture_tensor reference = fixture_get(f, name);
    const int64_t positions = reference.dim[0] * reference.dim[1];
    double *nll = malloc((size_t)positions * sizeof *nll);
    losses_of(o.model, &s, &how, nll);
    check_losses(key, setting, nll, reference.data, positions);
    free(nll);
    gptq_end(&g);
    model_close(r);
    sequences_free(&s);
    close_fixture(&o);
}

static void test_gptq_of_the_reference(void **state)
{
    (void)state;
    struct fixture f;
    const char *key;
    json_t *setting;
    int n = 0;
    assert_true(fixture_open(&f, FIXTURES "/activations", "rotated"));
    json_object_foreach(f.meta, key, setting)
    {
        if (flag(setting, "w_rtn", true)) continue;
        check_setting(&f, key, setting);
        n++;
    }
    assert_int_equal(n, 4);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gptq_of_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
