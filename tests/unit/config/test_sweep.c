/* Good sweep files: every value is read; defaults, overrides, JSON round trip. */
#include "config/sweep.h"
#include "measures/curvature.h"
#include "quant/quant.h"
#include "scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char file[] = FIXTURES "/config/sweep.yaml";
static const char minimal[] = FIXTURES "/config/minimal.yaml";

static void read_ok(const char *path, const char *const *set, int64_t n, struct sweep *s)
{
    struct err e = {0};
    enum status st = sweep_read(path, set, n, s, &e);
    if (st != OK) print_error("%s\n", e.text);
    assert_int_equal(st, OK);
}

static void models_are_read_as_written(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(file, NULL, 0, &s);
    assert_string_equal(s.name, "smollm3-3b");
    assert_string_equal(s.results, FIXTURES "/config/results/smollm3-3b.h5");
    assert_int_equal(s.seed, 7);
    assert_int_equal(s.n_models, 2);
    assert_string_equal(s.models[0].name, "SmolLM3-3B");
    assert_string_equal(s.models[0].path, "/scratch/smollm3-3b/{checkpoint}");
    assert_string_equal(s.models[0].tokenizer, "/scratch/smollm3-3b/tokenizer.json");
    assert_int_equal(s.models[0].n_rows, 3);
    assert_string_equal(s.models[0].rows[1].checkpoint, "stage1/step-200");
    assert_int_equal(s.models[0].rows[1].step, 200);
    assert_true(s.models[0].rows[1].learning_rate == 4e-3);
    assert_true(s.models[0].rows[2].tokens == 2457600.5);
    assert_string_equal(s.models[0].rows[2].phase, "decay");
    /* one row needs no {checkpoint}; values that the table lacks are marked as missing */
    assert_string_equal(s.models[1].path, "/models/main");
    assert_null(s.models[1].tokenizer);
    assert_int_equal(s.models[1].n_rows, 1);
    assert_int_equal(s.models[1].rows[0].step, -1);
    assert_true(isnan(s.models[1].rows[0].tokens));
    assert_true(isnan(s.models[1].rows[0].learning_rate));
    assert_string_equal(s.models[1].rows[0].phase, "");
    sweep_free(&s);
}

static void methods_are_read_as_written(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(file, NULL, 0, &s);
    assert_int_equal(s.n_bits, 2);
    assert_int_equal(s.n_methods, 3);
    const struct method_entry *m = s.methods;
    assert_string_equal(m[0].name, "gptq");
    assert_string_equal(m[0].method, "gptq");
    assert_int_equal(m[0].n_bits, 2);
    assert_int_equal(m[0].bits[0], 3);
    assert_int_equal(m[0].bits[1], 4);
    assert_int_equal(m[0].options.group_size, 128);
    assert_int_equal(m[0].options.order, ORDER_ACTIVATION);
    assert_true(m[0].options.damping == 0.05);
    assert_true(m[0].options.symmetric && m[0].options.true_sequential);
    assert_false(m[0].options.static_groups);
    assert_int_equal(m[0].options.block_size, 128);
    assert_string_equal(m[1].name, "gptq-g64");
    assert_int_equal(m[1].n_bits, 1);
    assert_int_equal(m[1].bits[0], 3);
    assert_int_equal(m[1].options.order, ORDER_NONE);
    assert_true(m[1].options.damping == 0.01);
    assert_int_equal(m[2].options.group_size, -1);
    assert_false(m[2].options.symmetric);
    sweep_free(&s);
}

/* One entry is every combination of widths but that in which nothing is quantized; what is written
 * of grids and methods goes to those that have them. */
static void widths_become_entries(void **state)
{
    (void)state;
    static const char *const names[] = {"gptq",      "gptq-kv4", "gptq-a8",     "gptq-a8-kv4",
                                        "none-kv4",  "none-a8",  "none-a8-kv4", "rtn",
                                        "rtn-a8-k4", "own"};
    const char *set[] = {
        "bits=null",
        "methods=[{method: gptq, group_size: 64, W: [3, 16, 2], A: [16, 8], KV: [16, 4], "
        "activations: "
        "{clip: 0.9}, keys: {rotation: hadamard}}, {method: rtn, bits: [4], A: [16]}, {method: "
        "rtn, bits: [4], A: [8], keys: {bits: 4}}, {method: rtn, W: [4], A: [8], name: own}]",
        "calibration={text: a.txt, length: 8}"};
    struct sweep s;
    read_ok(minimal, set, 3, &s);
    assert_int_equal(s.n_methods, 10);
    for (int i = 0; i < 10; i++) {
        const struct method_entry *m = &s.methods[i];
        assert_string_equal(m->name, names[i]);
        assert_int_equal(m->n_bits, i < 4 ? 2 : 1);
        assert_int_equal(m->bits[0], i < 4 ? 3 : i < 7 ? 16 : 4);
        assert_true(i >= 4 || m->bits[1] == 2);
        assert_true(m->options.group_size == (i < 4 ? 64 : 128));
        if (i < 7 && activation_quantizes(&m->grids.inputs))
            assert_true(m->grids.inputs.clip == 0.9);
        if (i < 7 && activation_quantizes(&m->grids.keys))
            assert_true(m->grids.keys.rotation == RUN_ROTATION_HADAMARD &&
                        m->grids.values.bits == 4);
    }
    sweep_free(&s);
}

/* Statistics of inputs are a method's need: with none too. */
static void grids_calibrate(void **state)
{
    (void)state;
    struct sweep s;
    const char *set[] = {
        "methods=[{method: none, activations: {bits: 8, granularity: static}}, {method: rtn, "
        "activations: {bits: 4, outliers: 4, outlier_score: squares}}, {method: rtn, name: plain, "
        "activations: {bits: 4}}, {method: gptq, outlier_columns: 4, activations: {bits: 4, "
        "outliers: 4, outlier_score: mean, calibrated: true}}, {method: gptq, name: shared, "
        "hessian: shared, outlier_columns: 4}]",
        "calibration={text: a.txt, length: 8}"};
    read_ok(minimal, set, 2, &s);
    const unsigned gram = WANTS(STATISTIC_GRAM), largest = WANTS(STATISTIC_LARGEST_FULL),
                   squares = WANTS(STATISTIC_SQUARES_FULL), mean = WANTS(STATISTIC_MEAN_FULL);
    const struct quant_needs expected[] = {
        {.statistics = WANTS(STATISTIC_LARGEST), .own = true},
        {.scores = squares},
        {0},
        {.statistics = gram, .scores = largest | mean, .own = true},
        {.statistics = gram, .scores = largest, .shared = true}};
    struct quant_needs full = {0};
    for (int i = 0; i < 5; i++) {
        const struct quant_method *m = quant_find(s.methods[i].method);
        const struct quant_needs needs = quant_needs_of(m, &s.methods[i].options),
                                 *e = &expected[i];
        assert_true(needs.statistics == e->statistics && needs.scores == e->scores);
        assert_true(needs.own == e->own && needs.shared == e->shared);
        assert_true(quant_calibrates(m, &s.methods[i].options) == (i != 2));
        quant_needs_share(&full, &needs);
        assert_true(full.shared == (i > 0));                      /* the second has scores alone */
        assert_true(((full.statistics & gram) != 0) == (i == 4)); /* the fourth's is of its own */
    }
    assert_int_equal(full.statistics, gram | largest | squares | mean);
    sweep_free(&s);
}

/* What is done to inputs beside their own quantization needs no width of theirs. */
static void grids_without_a_width(void **state)
{
    (void)state;
    struct sweep s;
    const char *set[] = {
        "methods=[{method: smoothquant, bits: [8], activations: {qkv_bits: 8}}, {method: gptq, "
        "bits: [4], activations: {rotation: hadamard}}]",
        "calibration={text: a.txt, length: 8}"};
    read_ok(minimal, set, 2, &s);
    assert_int_equal(s.methods[0].grids.inputs.qkv_bits, 8);
    assert_int_equal(s.methods[1].grids.inputs.rotation, RUN_ROTATION_HADAMARD);
    for (int i = 0; i < 2; i++)
        assert_int_equal(s.methods[i].grids.inputs.bits, ACTIVATION_BITS_NONE);
    sweep_free(&s);
}

static void texts_are_read_as_written(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(file, NULL, 0, &s);
    const struct data_options *c = &s.calibration, *d = s.evaluations;
    assert_string_equal(c->text, FIXTURES "/config/data/c4.jsonl");
    assert_string_equal(c->field, "text");
    assert_string_equal(c->name, "c4");
    assert_int_equal(c->samples, 128);
    assert_int_equal(c->length, 512);
    assert_int_equal(c->layout, LAYOUT_DOCUMENT);
    assert_true(c->special_tokens);
    assert_int_equal(c->documents, 1024);
    assert_int_equal(c->min_length, 11);
    assert_null(c->separator);
    assert_int_equal(s.n_evaluations, 4);
    assert_string_equal(d[0].name, "refinedweb");
    assert_int_equal(d[0].tokens, 600000);
    assert_null(d[0].ids);
    assert_string_equal(d[1].name, "wiki.en");
    assert_int_equal(d[1].skip, 4);
    assert_int_equal(d[1].length, LENGTH_AUTO);
    assert_int_equal(d[1].layout, LAYOUT_PACKED);
    assert_null(d[1].field);
    assert_string_equal(d[2].name, "ids");
    assert_string_equal(d[2].ids, FIXTURES "/config/ids.safetensors:held_out");
    assert_null(d[2].text);
    assert_false(d[2].special_tokens);
    assert_string_equal(d[3].text, FIXTURES "/config/data/part-*.jsonl.zst\n/data/more.jsonl");
    assert_string_equal(d[3].name, "part-*");
    assert_string_equal(d[3].separator, "<|endoftext|>");
    assert_int_equal(s.run.ranks_per_group, 0);
    assert_int_equal(s.run.threads, 2);
    sweep_free(&s);
}

static void what_is_not_written_has_its_default(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(minimal, NULL, 0, &s);
    assert_int_equal(s.seed, 0);
    assert_null(s.calibration.text);
    assert_null(s.calibration.ids);
    assert_int_equal(s.calibration.length, LENGTH_AUTO);
    assert_int_equal(s.run.ranks_per_group, 0);
    assert_int_equal(s.run.threads, 0);
    struct quant_options q;
    options_default(&quant_table, &q);
    for (int64_t i = 0; quant_options_key(i); i++)
        assert_false(quant_options_changed(&s.methods[0].options, quant_options_key(i)));
    q.damping = 0.5;
    assert_true(quant_options_changed(&q, "damping"));
    assert_false(quant_options_changed(&q, "order"));
    json_t *json = sweep_to_json(&s);
    assert_null(json_object_get(json, "calibration"));
    assert_null(json_object_get(json, "curvature"));
    json_decref(json);
    sweep_free(&s);
}

static void the_quickstart_is_read(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(CONFIGS "/quickstart/quickstart.yaml", NULL, 0, &s);
    assert_int_equal(s.n_models, 2);
    assert_int_equal(s.models[0].n_rows, 8 + 2); /* two averages */
    assert_int_equal(s.models[1].n_rows, 3);
    assert_int_equal(s.methods[1].n_bits, 4);
    sweep_free(&s);
}

/* Copies the index-th YAML block of the page to out. */
static void doc_block(int index, FILE *out)
{
    char line[512];
    FILE *in = fopen(CONFIGS "/../docs/sweep-file.md", "r");
    bool inside = false;
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        bool fence = strncmp(line, "```", 3) == 0;
        if (strcmp(line, "```yaml\n") == 0)
            inside = index-- == 0;
        else if (fence)
            inside = false;
        else if (inside)
            fputs(line, out);
    }
    fclose(in);
}

/* Reads a sweep file of the keys in `head` and the page's index-th YAML block. */
static void read_block(const char *head, int index, struct sweep *s)
{
    const char *path = scratch_path("sweep.yaml");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(head, f);
    doc_block(index, f);
    fclose(f);
    setenv("SCRATCH", "/scratch", 1);
    read_ok(path, NULL, 0, s);
}

static const char doc_table[] = "checkpoint,step,phase\n"
                                "stage1-step-40000,40000,stable\n"
                                "stage1-step-80000,80000,stable\n"
                                "stage1-step-120000,120000,stable\n"
                                "stage1-step-160000,160000,stable\n"
                                "stage3-step-200000,200000,decay\n";

/* The examples of docs/sweep-file.md are read as the page says. */
static void examples_of_the_docs_are_read(void **state)
{
    (void)state;
    struct sweep s;
    scratch_put("smollm3-3b.csv", doc_table, strlen(doc_table));
    read_block("", 0, &s);
    assert_int_equal(s.n_methods, 3);
    assert_string_equal(s.models[0].path, "/scratch/smollm3-3b/{checkpoint}");
    assert_string_equal(s.evaluations[1].separator, "eos");
    sweep_free(&s);
    read_block("", 3, &s);
    assert_int_equal(s.calibration.layout, LAYOUT_DOCUMENT);
    assert_int_equal(s.calibration.length, 0);
    assert_int_equal(s.calibration.min_length, 11);
    assert_true(s.calibration.special_tokens && !s.evaluations[0].special_tokens);
    assert_int_equal(s.calibration.batch, 16);
    assert_int_equal(s.methods[0].options.order, ORDER_ACTIVATION);
    sweep_free(&s);
}

static void check_average(const struct model_entry *m, int64_t row, const char *name,
                          int64_t n_members, int64_t last, double first_weight)
{
    const struct trajectory_row *r = &m->rows[row];
    assert_string_equal(r->checkpoint, name);
    assert_int_equal(r->n_members, n_members);
    assert_int_equal(r->members[n_members - 1].row, last);
    assert_true(fabs(r->members[0].weight - first_weight) < 1e-15);
}

/* The example of averages: which rows it adds behind those of the table, with which members. */
static void averages_add_rows_with_their_members(void **state)
{
    (void)state;
    static const char head[] = "name: x\nresults: x.h5\nbits: [3]\nmethods: [{method: rtn}]\n"
                               "evaluation: [{name: t, text: t.txt}]\n",
                      cooldown[] = "checkpoint,step\nlast,90000\n";
    struct sweep s;
    scratch_put("smollm3-3b.csv", doc_table, strlen(doc_table));
    scratch_put("cooldown.csv", cooldown, strlen(cooldown));
    read_block(head, 2, &s);
    const struct model_entry *m = &s.models[0];
    assert_int_equal(m->n_stored, 5);
    assert_int_equal(m->n_rows, 10);
    check_average(m, 5, "lawa-4@stage1-step-160000", 4, 3, 1);
    check_average(m, 6, "ema@stage3-step-200000", 5, 4, 0.8 * 0.8 * 0.8 * 0.8);
    check_average(m, 7, "soup", 2, 1, 1);
    check_average(m, 8, "pair", 2, 0, 3);
    const struct average_entry *greedy = &m->averages[m->rows[9].average - 1];
    check_average(m, 9, "greedy", 4, 3, 1);
    assert_true(average_is_greedy(greedy) && !average_is_greedy(&m->averages[2]));
    assert_non_null(strstr(greedy->greedy.text.text, "/heldout.jsonl"));
    assert_int_equal(greedy->greedy.text.tokens, 200000);
    assert_int_equal(m->rows[6].step, 200000);
    assert_string_equal(m->rows[6].phase, "decay");
    assert_int_equal(m->rows[8].step, 90000);
    assert_int_equal(m->rows[8].members[1].model, 1);
    assert_int_equal(m->averages[3].dtype, AVERAGE_F32);
    assert_int_equal(m->averages[m->rows[8].average - 1].dtype, AVERAGE_F32);
    double sum = 0;
    for (int64_t i = 0; i < 5; i++) sum += m->rows[6].members[i].weight;
    assert_true(fabs(sum - 1) < 1e-15);
    assert_false(trajectory_follows(m, 5)); /* an average, after the table's last */
    assert_true(trajectory_follows(m, 4));
    sweep_free(&s);
}

/* SGD on curvature / 2 w² from 1 in STEPS steps that sum to 1, or as the decay has them, with a
 * push of its own between two checkpoints, which are not equally far apart. Keeps the checkpoints.
 */
enum { CHECKPOINTS = 5, STEPS = 12000 };
static const int kept_at[CHECKPOINTS] = {0, 2000, 6000, 8000, STEPS};
static double descend(int decay, double curvature, double noise, double *kept)
{
    static const double pushes[CHECKPOINTS] = {0.3, -1.1, 0.7, 2};
    double w = 1;
    for (int k = 0, next = 0; k <= STEPS; k++) {
        const double x = (k + 0.5) / STEPS, rate = decay == IMITATES_LINEAR           ? 1 - x
                                                   : decay == IMITATES_ONE_MINUS_SQRT ? 1 - sqrt(x)
                                                   : decay == IMITATES_COSINE
                                                       ? (1 + cos(acos(-1) * x)) / 2
                                                       : 1;
        if (k == kept_at[next]) kept[next++] = w;
        if (k < STEPS) w -= rate / STEPS * (curvature * w + noise * pushes[next - 1]);
    }
    return w;
}

static double weight_at(int decay, int i)
{
    const int before = kept_at[i > 0 ? i - 1 : 0],
              after = kept_at[i + 1 < CHECKPOINTS ? i + 1 : CHECKPOINTS - 1];
    return average_imitating(decay, before / (double)STEPS, kept_at[i] / (double)STEPS,
                             after / (double)STEPS);
}

/* The average of a run at a constant rate minus the end of the decay. */
static double off_by(int decay, double curvature, double noise)
{
    double kept[CHECKPOINTS], other[CHECKPOINTS], sum = 0;
    descend(IMITATES_NONE, curvature, noise, kept);
    for (int i = 0; i < CHECKPOINTS; i++) sum += weight_at(decay, i) * kept[i];
    return sum - descend(decay, curvature, noise, other);
}

/* Exact for any noise without curvature; with it, what is left is of second order. */
static void averages_imitate_decays(void **state)
{
    (void)state;
    for (int decay = IMITATES_LINEAR; decay <= IMITATES_COSINE; decay++) {
        const double ratio = off_by(decay, 0.02, 0) / off_by(decay, 0.01, 0);
        double sum = 0;
        for (int i = 0; i < CHECKPOINTS; i++) {
            sum += weight_at(decay, i);
            assert_true(weight_at(decay, i) > 0);
        }
        assert_true(fabs(sum - 1) < 1e-15);
        assert_true(fabs(off_by(decay, 0, 1)) < (decay == IMITATES_LINEAR ? 1e-12 : 1e-6));
        assert_true(fabs(ratio - 4) < 0.1);
    }
}

/* On any curvature a decay of one step is the average of the points before and after it. One of
 * more steps is, without noise, the average with the coefficients of the product of 1 - r + r q. */
static void averages_that_are_exact_on_a_quadratic(void **state)
{
    (void)state;
    const double rates[] = {0.9, 0.5, 0.2}, z = 1.7, q = 1 - z,
                 half = average_imitating(IMITATES_LINEAR, 0, 1, 1), push = 0.6;
    double c[4] = {1}, decayed = 1, mean = 0;
    assert_true(fabs(half - 0.5) < 1e-15);
    assert_true(fabs((1 - half) + half * (q - push) - (1 - half * (z + push))) < 1e-15);
    for (int i = 0; i < 3; i++) {
        decayed -= rates[i] * z * decayed;
        for (int j = i + 1; j >= 0; j--)
            c[j] = (1 - rates[i]) * c[j] + (j > 0 ? rates[i] * c[j - 1] : 0);
    }
    for (int j = 3; j >= 0; j--) mean = mean * q + c[j];
    assert_true(fabs(mean - decayed) < 1e-15);
}

/* Weights follow the steps of the table, else its tokens. */
static void imitations_follow_the_table(void **state)
{
    (void)state;
    static const char yaml[] = "name: x\nresults: x.h5\nbits: [3]\nmethods: [{method: rtn}]\n"
                               "evaluation: [{name: t, text: t.txt}]\n"
                               "models: [{name: m, trajectory: t.csv, path: 'm/{checkpoint}', "
                               "averages: [{name: a, window: 3, imitates: linear}]}]\n";
    static const char *const tables[] = {"checkpoint,step,tokens\na,100,1\nb,300,2\nc,400,3\n",
                                         "checkpoint,tokens\na,1e9\nb,3e9\nc,4e9\n",
                                         "checkpoint\na\nb\nc\n"};
    struct err e = {0};
    struct sweep s;
    scratch_put("imitates.yaml", yaml, strlen(yaml));
    for (int i = 0; i < 2; i++) {
        scratch_put("t.csv", tables[i], strlen(tables[i]));
        read_ok(scratch_path("imitates.yaml"), NULL, 0, &s);
        const struct average_member *members = s.models[0].rows[3].members;
        assert_true(fabs(members[0].weight - 1 / 3.0) < 1e-15);
        assert_true(fabs(members[1].weight - 1 / 2.0) < 1e-15);
        assert_true(fabs(members[2].weight - 1 / 6.0) < 1e-15);
        sweep_free(&s);
    }
    scratch_put("t.csv", tables[2], strlen(tables[2]));
    assert_int_equal(sweep_read(scratch_path("imitates.yaml"), NULL, 0, &s, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "imitates: b has no more steps or tokens than"));
}

static void overrides_change_what_they_name(void **state)
{
    (void)state;
    static const char *const set[] = {"bits=[2, 8]",
                                      "models[0].name=x",
                                      "run.threads=3",
                                      "methods[1].bits=[5]",
                                      "methods[2]={method: rtn, name: flat}",
                                      "calibration=",
                                      "evaluation[0].tokens=null",
                                      "evaluation[1].text=/data/a=b.txt",
                                      "run.threads=4"};
    struct sweep s;
    read_ok(file, set, sizeof set / sizeof *set, &s);
    assert_int_equal(s.bits[1], 8);
    assert_int_equal(s.methods[0].bits[0], 2);
    assert_int_equal(s.methods[1].bits[0], 5);
    assert_string_equal(s.models[0].name, "x");
    assert_string_equal(s.methods[2].name, "flat");
    assert_int_equal(s.methods[2].options.group_size, 128);
    assert_null(s.calibration.text);
    assert_int_equal(s.evaluations[0].tokens, 0);
    assert_string_equal(s.evaluations[1].text, "/data/a=b.txt");
    assert_string_equal(s.evaluations[1].name, "a=b");
    assert_int_equal(s.run.threads, 4); /* the last one wins */
    sweep_free(&s);
    /* --set may take the methods that a section goes with */
    static const char *const taken[] = {"methods=[{method: rtn}]", "calibration.tokens=16"};
    read_ok(file, taken, 2, &s);
    sweep_free(&s);
    /* a section that the file lacks, and an empty section */
    static const char *const grow[] = {"run.threads=5", "calibration.text=c.txt",
                                       "calibration.length=16", "methods[0].method=gptq"};
    read_ok(minimal, grow, 4, &s);
    assert_int_equal(s.run.threads, 5);
    assert_int_equal(s.calibration.length, 16);
    assert_string_equal(s.calibration.text, FIXTURES "/config/c.txt");
    sweep_free(&s);
}

/* --set may take from keys of the file what they go with. */
static void test_overrides_of_others(void **state)
{
    (void)state;
    static const char *const set[] = {"calibration.text=", "calibration.ids=a.safetensors:b",
                                      "evaluation[3].layout=document"};
    struct sweep s;
    read_ok(file, set, sizeof set / sizeof *set, &s);
    assert_string_equal(s.calibration.ids, FIXTURES "/config/a.safetensors:b");
    assert_int_equal(s.evaluations[3].layout, LAYOUT_DOCUMENT);
    sweep_free(&s);
}

struct bad_set {
    const char *set, *expected;
};

static void test_bad_overrides(void **state)
{
    (void)state;
    static const struct bad_set bad[] = {
        {"run.thread=2", "--set run.thread=2: run.thread: unknown key, did you mean threads?"},
        {"run.thread=null", "run.thread: unknown key, did you mean threads?"},
        {"rum.x=1", "--set rum.x=1: rum: unknown key, did you mean run?"},
        {"bits=[9]", "--set bits=[9]: bits[0]: expected an integer from 1 to 8, found 9"},
        {"bits=[3", "--set bits=[3: not readable as YAML"},
        {"bits=&a [3]", "--set bits=&a [3]: an anchor"},
        {"models[2].name=x", "[2] is beyond the list's 2 entries"},
        {"models[-1].name=x", "--set models[-1].name=x: expected [number] at [-1].name"},
        {"models[x].name=x", "expected [number]"},
        {"models.name=x", "no mapping to look up name in"},
        {"name[0]=x", "no list to take [0] of"},
        {"name.x=x", "no mapping to look up x in"},
        {"models[0]name=x", "expected . or [ or ="},
        {"run.=x", "expected a key after the last dot"},
        {"run..threads=1", "expected a key"},
        {"=x", "expected key=value"},
        {"name", "--set name: expected key=value"},
        {"", "expected key=value"},
        {"name=", "name: missing, expected a text of one line"},
        {"models[0].path=p", "--set models[0].path=p: models[0].path: expected {checkpoint}"},
        {"methods[1].name=gptq", "methods[1].name: the name gptq is already that of methods[0]"},
        {"methods[0]=null", "--set methods[0]=null: methods[0]: expected a mapping"},
        {"evaluation[2].length=8", "evaluation[2].length: has no effect here: it goes with text"},
        {"calibration.separator=eos", "has no effect here: it goes with layout: packed"},
        {"calibration.text=null", "calibration: text or ids is missing"},
        {"models[a\nb].name=x", "expected [number] at [a?b].name"},
        {"results=${QTRAJ_TEST_BYTES}/x", "results: expected a path, found text that is not UTF-8"},
        {"results=${QTRAJ_TEST_UNSET}", "the environment variable QTRAJ_TEST_UNSET is not set"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sweep s;
        struct err e = {0};
        assert_int_equal(sweep_read(file, &bad[i].set, 1, &s, &e), ERR_USAGE);
        if (!strstr(e.text, bad[i].expected))
            fail_msg("--set %s\n gave     %s\n expected %s", bad[i].set, e.text, bad[i].expected);
        assert_null(s.models);
        sweep_free(&s);
    }
}

static void test_override_depth(void **state)
{
    (void)state;
    enum { LEVELS = 100000 };
    char *text = malloc(2 * LEVELS + 8);
    assert_non_null(text);
    for (int i = 0; i < LEVELS; i++) memcpy(text + 2 * i, "a.", 2);
    memcpy(text + 2 * LEVELS, "a=1", 4);
    const char *set = text;
    struct sweep s;
    struct err e = {0};
    assert_int_equal(sweep_read(file, &set, 1, &s, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "more than 64 levels"));
    free(text);
}

/* JSON is YAML: the JSON form, read as a sweep file, gives the same JSON again. */
static void test_round_trip(void **state)
{
    (void)state;
    struct sweep s, again;
    char path[] = "/tmp/qtraj_sweep_XXXXXX";
    read_ok(file, NULL, 0, &s);
    json_t *json = sweep_to_json(&s), *back;
    assert_null(json_object_get(json_array_get(json_object_get(json, "models"), 0), "rows"));
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    assert_int_equal(json_dumpf(json, out, JSON_INDENT(1)), 0);
    fclose(out);
    /* its paths were resolved relative to this test's folder; absolute paths are unchanged */
    read_ok(path, NULL, 0, &again);
    remove(path);
    back = sweep_to_json(&again);
    assert_true(json_equal(json, back));
    json_decref(json);
    json_decref(back);
    sweep_free(&s);
    sweep_free(&again);
}

/* The copy that the cube stores contains the curvature options, whatever they are. */
static void test_curvature_is_kept(void **state)
{
    (void)state;
    static const char *const asked[] = {"sharpness: lanczos", "trace: 2", "density: 3",
                                        "second_order: total", "critical: true"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char text[64];
        const char *set = text;
        struct sweep s;
        snprintf(text, sizeof text, "curvature={%s}", asked[i]);
        read_ok(minimal, &set, 1, &s);
        json_t *json = sweep_to_json(&s);
        assert_non_null(json_object_get(json, "curvature"));
        json_decref(json);
        sweep_free(&s);
    }
}

/* Curvature uses the first tokens of the evaluated sequences, whatever their source. */
static void test_curvature_data(void **state)
{
    (void)state;
    const char *set[] = {"evaluation=[{ids: \"a.safetensors:x\", skip: 3, samples: 9}]",
                         "curvature={trace: 2, sequences: 5, length: 64}"};
    struct sweep s;
    struct err e = {0};
    struct plan_lengths unknown = {0};
    read_ok(minimal, set, 2, &s);
    const struct plan p = {.sweep = &s, .lengths = &unknown};
    const struct data_options d = curvature_text(&p, 0);
    assert_true(d.skip == 3 && d.samples == 5 && d.cut == 64);
    assert_int_equal(d.length, data_options_length(&s.evaluations[0], 0));
    sweep_free(&s);
    set[0] = "evaluation=[{text: a.txt, length: 63}]";
    assert_int_equal(sweep_read(minimal, set, 2, &s, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "curvature.length: the sequences of a have 63 tokens"));
    set[1] = "curvature={trace: 2, length: 64, data: {text: b.txt, length: 64}}";
    read_ok(minimal, set, 2, &s);
    sweep_free(&s);
}

static void test_method_json(void **state)
{
    (void)state;
    struct sweep s;
    read_ok(file, NULL, 0, &s);
    s.methods[0].options.damping = nextafter(0.1, 1); /* all bits must survive */
    for (int64_t i = 0; i < s.n_methods; i++) {
        struct method_entry m;
        struct err e = {0};
        json_t *json = method_entry_to_json(&s.methods[i]);
        char *text = json_dumps(json, 0);
        json_t *read = json_loads(text, 0, NULL);
        assert_int_equal(options_from_json(&method_table, read, &m, &e), OK);
        assert_string_equal(m.name, s.methods[i].name);
        assert_string_equal(m.method, s.methods[i].method);
        assert_int_equal(m.n_bits, s.methods[i].n_bits);
        assert_memory_equal(m.bits, s.methods[i].bits, (size_t)m.n_bits * sizeof *m.bits);
        assert_memory_equal(&m.options.damping, &s.methods[i].options.damping, sizeof(double));
        json_t *back = method_entry_to_json(&m);
        assert_true(json_equal(json, back));
        options_free(&method_table, &m);
        json_decref(json);
        json_decref(read);
        json_decref(back);
        free(text);
    }
    sweep_free(&s);
}

static void test_data_json(void **state)
{
    (void)state;
    struct sweep s;
    struct data_options d;
    struct err e = {0};
    read_ok(file, NULL, 0, &s);
    s.evaluations[0].tokens = INT64_MAX;
    s.evaluations[1].layout = LAYOUT_DOCUMENT;
    s.evaluations[1].length = 0;
    for (int64_t i = 0; i < s.n_evaluations; i++) {
        json_t *json = data_options_to_json(&s.evaluations[i]);
        assert_int_equal(options_from_json(&data_table, json, &d, &e), OK);
        assert_true(d.tokens == s.evaluations[i].tokens);
        assert_true(d.length == s.evaluations[i].length);
        if (d.text) assert_string_equal(d.text, s.evaluations[i].text);
        json_t *back = data_options_to_json(&d);
        assert_true(json_equal(json, back));
        json_decref(json);
        json_decref(back);
        options_free(&data_table, &d);
    }
    sweep_free(&s);
    read_ok(minimal, NULL, 0, &s); /* no calibration */
    json_t *json = data_options_to_json(&s.calibration);
    assert_true(json_is_null(json));
    json_decref(json);
    sweep_free(&s);
}

static void bad_json(bool method, const char *text, const char *expected)
{
    struct err e = {0};
    struct method_entry m;
    struct data_options d;
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    assert_int_equal(method ? options_from_json(&method_table, json, &m, &e)
                            : options_from_json(&data_table, json, &d, &e),
                     ERR_FORMAT);
    if (!strstr(e.text, expected)) fail_msg("gave %s, expected %s", e.text, expected);
    json_decref(json);
}

static void test_strict_json(void **state)
{
    (void)state;
    bad_json(true, "{\"method\": \"rtn\", \"group_sise\": 3}",
             "group_sise: unknown key, did you mean group_size?");
    bad_json(true, "{\"group_size\": 3}", "method: missing");
    bad_json(true, "{\"method\": \"rtn\", \"group_size\": 3.0}",
             "group_size: expected an integer >= 1 or -1, found 3.0");
    bad_json(true, "{\"method\": \"rtn\", \"group_size\": \"3\"}", "found the text \"3\"");
    bad_json(true, "{\"method\": \"rtn\", \"symmetric\": \"true\"}", "expected true or false");
    bad_json(true, "{\"method\": \"rtn\", \"bits\": [17]}", "bits[0]: expected an integer");
    bad_json(true, "{\"method\": \"rtn\", \"damping\": null}", "found nothing");
    bad_json(true, "{\"method\": \"a\\u0000b\"}", "text with a NUL character");
    bad_json(true, "[1]", "expected a mapping");
    bad_json(true, NULL, "no value");
    bad_json(false, "{\"length\": 64}", "text or ids is missing");
    bad_json(false, "{\"text\": \"a\", \"layout\": \"packd\"}", "did you mean packed?");
    bad_json(false, "{\"text\": \"a\", \"unknown\": {\"a\": [[1]]}}", "unknown: unknown key");
}

static void the_listing_names_types_and_defaults(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    sweep_print_options(out);
    fclose(out);
    static const char *const expected[] = {
        "top level\n",
        "  results           a path; required\n",
        "methods[] (each entry)\n",
        "  group_size        an integer >= 1 or -1 (columns); default 128\n",
        "  order             one of none, activation, group; default none\n",
        "calibration\n",
        "  threads           an integer from 1 to 512 or auto (threads); default auto\n",
        "  learning_rate     a finite number >= 0; default: unknown\n"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(text, expected[i])) fail_msg("no line %s in\n%s", expected[i], text);
    free(text);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("QTRAJ_TEST_UNSET");
    setenv("QTRAJ_TEST_BYTES", "\xE9t\xE9", 1);
    return setenv("QTRAJ_TEST_SCRATCH", "/scratch", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_read_as_written),
        cmocka_unit_test(methods_are_read_as_written),
        cmocka_unit_test(widths_become_entries),
        cmocka_unit_test(grids_calibrate),
        cmocka_unit_test(grids_without_a_width),
        cmocka_unit_test(texts_are_read_as_written),
        cmocka_unit_test(what_is_not_written_has_its_default),
        cmocka_unit_test(examples_of_the_docs_are_read),
        cmocka_unit_test(averages_add_rows_with_their_members),
        cmocka_unit_test(averages_imitate_decays),
        cmocka_unit_test(averages_that_are_exact_on_a_quadratic),
        cmocka_unit_test(imitations_follow_the_table),
        cmocka_unit_test(the_quickstart_is_read),
        cmocka_unit_test(overrides_change_what_they_name),
        cmocka_unit_test(test_overrides_of_others),
        cmocka_unit_test(test_bad_overrides),
        cmocka_unit_test(test_override_depth),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_curvature_is_kept),
        cmocka_unit_test(test_curvature_data),
        cmocka_unit_test(test_method_json),
        cmocka_unit_test(test_data_json),
        cmocka_unit_test(test_strict_json),
        cmocka_unit_test(the_listing_names_types_and_defaults),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
