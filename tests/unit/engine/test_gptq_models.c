/* GPTQ of models against other programs (tests/fixtures/activations): QuaRot's of rotated models,
 * weights of the first block, and losses, with inputs, keys and values as they come and in 4 bits;
 * QUIK's with outlier columns, and Atom's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../model/rotations.h"

/* Calibration of one model: the hidden states behind the blocks so far. */
struct gptq {
    const struct model *model;
    struct sequences sequences;
    int64_t bits, down_bits;
    struct quant_options options;
    struct acts acts;
    float *x;
    const struct fixture *weights; /* of the first block are compared with it; NULL: not */
    struct scores *scores;         /* of inputs, for outlier columns; NULL: none */
    const struct quant_method *method;
    /* Inputs, keys and values are so in the calibration too, of which a block sees none of its own
     * linears quantized (Atom); NULL: as they come, and stages see those before (QuaRot, QUIK). */
    const struct activation_grids *grids;
};

static void gptq_begin(struct gptq *g, const struct model *m, const struct fixture *f,
                       const char *calibration, const json_t *setting)
{
    struct err e = {0};
    *g = (struct gptq){.model = m,
                       .method = &quant_gptq,
                       .sequences = sequences_of(f, calibration),
                       .bits = (int64_t)number(setting, "w_bits", 4)};
    const int64_t T = g->sequences.offset[g->sequences.n];
    options_default(&quant_table, &g->options);
    g->options.group_size = (int64_t)number(setting, "w_groupsize", -1);
    g->options.narrow_range = true;
    g->options.range_search = flag(setting, "w_clip", false) ? 2.4 : 0;
    g->weights = number(setting, "a_bits", 16) == 16 ? f : NULL;
    g->x = malloc((size_t)(T * model_shape(m)->hidden) * sizeof *g->x);
    must(model_acts_init(m, T, &g->acts, &e), &e);
    must(model_embed(m, &g->sequences, g->x, &e), &e);
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

/* Heads that share their values have equal inputs of o at the first token, so that largest inputs
 * are equal: those channels that torch.sort puts before a lower one come first. */
static void break_ties(int64_t layer, int stage, double *largest)
{
    static const int first[][3] = {{23, 26, 48}, {28, 26, 57}, {16, 20, 20}};
    for (int k = 0; stage == STAGE_O && k < 3; k++) largest[first[layer][k]] *= 1 - 1e-9;
}

/* to (rows, cols) = the rows of w in that order, or back. */
static void rows_move(float *to, const float *w, const struct linear *l, const int32_t *order,
                      bool back)
{
    for (int64_t i = 0; i < l->rows; i++)
        memcpy(to + (back ? order[i] : i) * l->cols, w + (back ? i : order[i]) * l->cols,
               (size_t)l->cols * sizeof *w);
}

static void quantize_linear(const struct gptq *g, const struct block *b, int i,
                            const struct quant_input *in, void *prepared)
{
    const struct linear *l = &b->linear[i];
    const size_t n = (size_t)(l->rows * l->cols);
    float *w = (float *)(uintptr_t)l->w, *q = malloc(2 * n * sizeof *q), *moved = q + n;
    const bool moves = g->options.scale_rows > 1 && l->stage == STAGE_UP;
    int32_t order[96];
    struct quant_report report;
    struct err e = {0};
    if (moves) { /* Atom: in the order in which the last linear has its columns */
        char score[64];
        snprintf(score, sizeof score, "model.%s.%d.3.score", g->scores->name, (int)b->layer);
        must(activation_order(fixture_get(g->scores->f, score).data, l->rows, order, &e), &e);
        rows_move(moved, w, l, order, false);
    }
    const struct quant_job job = {.bits = l->stage == STAGE_DOWN && g->down_bits ? g->down_bits
                                                                                 : g->bits,
                                  .options = &g->options,
                                  .layer = b->layer,
                                  .linear = i,
                                  .rows = l->rows,
                                  .cols = l->cols,
                                  .w = moves ? moved : w,
                                  .q = q,
                                  .input = in,
                                  .prepared = prepared};
    must(g->method->run(&job, &report, &e), &e);
    if (moves)
        rows_move(w, q, l, order, true);
    else
        memcpy(w, q, n * sizeof *q);
    free(q);
    if (g->weights && b->layer == 0) compare(g->weights, l);
}

static void quantize_stage(const struct gptq *g, const struct block *b, int stage, double *gram)
{
    struct quant_input in = {.layer = b->layer,
                             .samples = g->sequences.n,
                             .tokens = g->sequences.offset[g->sequences.n],
                             .statistic = {[STATISTIC_GRAM] = gram}};
    void *prepared = NULL;
    double own[96];
    struct err e = {0};
    for (int i = 0; i < b->n_linears; i++) {
        if (b->linear[i].stage != stage) continue;
        in.cols = b->linear[i].cols;
        if (g->scores) {
            char score[64];
            snprintf(score, sizeof score, "model.%s.%d.%d.score", g->scores->name, (int)b->layer,
                     stage);
            memcpy(own, fixture_get(g->scores->f, score).data, (size_t)in.cols * sizeof *own);
            if (g->options.outlier_score == OUTLIER_LARGEST) break_ties(b->layer, stage, own);
            in.statistic[outlier_statistic(g->options.outlier_score)] = own;
        }
        if (!prepared && g->method->prepare)
            must(g->method->prepare(&in, &g->options, &prepared, &e), &e);
        quantize_linear(g, b, i, &in, prepared);
    }
    if (prepared) g->method->release(prepared);
}

static void quantize(void *context, struct block *b)
{
    struct gptq *g = context;
    const struct sequences *s = &g->sequences;
    const int64_t T = s->offset[s->n];
    const size_t size = (size_t)(T * model_shape(g->model)->hidden) * sizeof(float);
    double *gram[STAGE_N];
    float *before = malloc(size);
    memcpy(before, g->x, size);
    b->grids = g->grids;
    if (g->grids) give_order(g->scores, b);
    for (int stage = 0; stage < STAGE_N; stage++) {
        int64_t cols = 0;
        for (int i = 0; i < b->n_linears; i++)
            if (b->linear[i].stage == stage) cols = b->linear[i].cols;
        model_stage_input(g->model, b, stage, s, 0, s->n, g->x, &g->acts);
        gram[stage] = gram_of(g->acts.in, T, cols);
        if (!g->grids) quantize_stage(g, b, stage, gram[stage]);
        model_stage_output(g->model, b, stage, s, 0, s->n, g->x, &g->acts);
    }
    for (int stage = 0; stage < STAGE_N; stage++) {
        if (g->grids) quantize_stage(g, b, stage, gram[stage]);
        free(gram[stage]);
    }
    if (g->grids) {
        memcpy(g->x, before, size);
        model_block_forward(g->model, b, s, g->x, &g->acts);
    }
    free(before);
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
    snprintf(name, sizeof name, "%s.calibration", family);
    gptq_begin(&g, r, f, name, setting);
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
    json_object_foreach(f.meta, key, setting) {
        if (flag(setting, "w_rtn", true)) continue;
        check_setting(&f, key, setting);
        n++;
    }
    assert_int_equal(n, 4);
    fixture_close(&f);
}

static void give_scores(void *context, struct block *b)
{
    give_order(((struct gptq *)context)->scores, b);
}

/* The largest inputs of all layers are those of the model in full precision. */
static void test_outlier_columns_of_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t bits, input_bits, down_bits;
        double search;
    } settings[] = {{"quik.W4A4", 4, 4, 0, 2.4},
                    {"quik.W4A4_int8down", 4, 4, 8, 2.4},
                    {"quik.W4A16", 4, 16, 0, 2.4},
                    {"quik.W8A8", 8, 8, 0, 0}};
    struct fixture f;
    struct opened o = open_fixture("llama");
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    struct sequences s = sequences_of(&f, "ids");
    json_t *exact = json_pack("{s:i}", "agree", 1);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        char key[64];
        double nll[2 * 47];
        struct gptq g;
        struct scores scores = {.f = &f, .name = "quik"};
        const struct activation_grid none = {.bits = ACTIVATION_BITS_NONE};
        const struct activation_grid inputs = {.bits = settings[k].input_bits,
                                               .clip = 1,
                                               .group_size = -1,
                                               .outliers = 8,
                                               .outlier_bits = ACTIVATION_BITS_NONE,
                                               .down_bits = settings[k].down_bits};
        gptq_begin(&g, o.model, &f, "calibration_ids", NULL);
        g.bits = settings[k].bits;
        g.down_bits = settings[k].down_bits;
        g.weights = NULL;
        g.scores = &scores;
        g.options.range_search = settings[k].search;
        g.options.outlier_columns = 8;
        const struct setting how = {.grids = {inputs, none, none},
                                    .quantize = quantize,
                                    .context = &g,
                                    .prepare = give_scores};
        losses_of(o.model, &s, &how, nll);
        snprintf(key, sizeof key, "model.%s.nll", settings[k].name);
        check_losses(key, exact, nll, fixture_get(&f, key).data, 2 * 47);
        gptq_end(&g);
    }
    json_decref(exact);
    sequences_free(&s);
    fixture_close(&f);
    close_fixture(&o);
}

/* Atom, to nearest and by GPTQ, whose grid is another. */
static void test_atom(void **state)
{
    (void)state;
    static const struct {
        const char *name, *scores;
        int64_t weight_bits, outlier_bits, scale_rows;
        bool cache, gptq;
    } settings[] = {{"W4A4KV4", "atom", 4, 8, 2, true, false},
                    {"W4A4KV4_rows1", "atom", 4, 8, 1, true, false},
                    {"W4A4KV4_absmean", "abs_mean", 4, 8, 2, true, false},
                    {"W4A4KV4_gptq", "atom", 4, 8, 2, true, true},
                    {"W4A4KV16", "atom", 4, 8, 2, false, false},
                    {"W4A4KV16_fpkeeper", "atom", 4, 16, 2, false, false},
                    {"W16A4KV16", "atom", 16, 8, 2, false, false}};
    struct fixture f;
    struct opened o = open_fixture("llama");
    double nll[2 * 47];
    assert_true(fixture_open(&f, FIXTURES "/activations", "outliers"));
    struct sequences s = sequences_of(&f, "ids");
    /* GPTQ's codes at near ties: changes of the weights by 2^-24 move this loss by 0.03. */
    json_t *flips = json_pack("{s:i}", "agree", 0);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        char key[64];
        struct gptq g;
        struct scores scores = {.f = &f, .name = settings[k].scores};
        const struct activation_grid none = {.bits = ACTIVATION_BITS_NONE},
                                     /* a group: its range need not hold 0 */
            head = {.bits = 4, .clip = 1, .clamp_zero = true, .group_size = 16},
                                     inputs = {.bits = 4,
                                               .symmetric = true,
                                               .clip = 0.9,
                                               .group_size = 16,
                                               .outliers = 16,
                                               .outlier_bits = settings[k].outlier_bits};
        gptq_begin(&g, o.model, &f, "calibration_ids", NULL);
        g.method = settings[k].gptq ? &quant_gptq : &quant_rtn;
        g.weights = NULL;
        g.scores = &scores;
        g.options.group_size = g.options.outlier_columns = 16;
        g.options.narrow_range = !settings[k].gptq;
        g.options.range_factor = 0.85;
        g.options.outlier_bits = settings[k].outlier_bits;
        g.options.outlier_score = OUTLIER_SQUARES;
        g.options.scale_rows = settings[k].scale_rows;
        struct setting how = {
            .grids = {inputs, settings[k].cache ? head : none, settings[k].cache ? head : none},
            .weight_bits = 16,
            .quantize = settings[k].weight_bits == 4 ? quantize : NULL,
            .context = &g,
            .prepare = give_scores};
        how.grids.keys.before_rope = true;
        g.grids = &how.grids;
        losses_of(o.model, &s, &how, nll);
        snprintf(key, sizeof key, "model.atom.%s", settings[k].name);
        const json_t *agree = settings[k].gptq ? flips : json_object_get(f.meta, key);
        strcat(key, ".nll");
        check_losses(key, agree, nll, fixture_get(&f, key).data, 2 * 47);
        gptq_end(&g);
    }
    json_decref(flips);
    sequences_free(&s);
    fixture_close(&f);
    close_fixture(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gptq_of_the_reference),
                                       cmocka_unit_test(test_outlier_columns_of_the_reference),
                                       cmocka_unit_test(test_atom)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
