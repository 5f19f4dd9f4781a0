/* The runs file: grid, names, branches, checkpoints, and messages for mistakes. */
#include "scratch.h"
#include "train/runs.h"
#include "train/train_plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char usual[] =
    "name: small\n"
    "output: out\n"
    "model: {family: llama, hidden: 64, layers: 2, heads: 4}\n"
    "tokenizer: " FIXTURES "/tokenizers/gpt2/tokenizer.json\n"
    "data: {text: text.jsonl, field: text, validation: 2000, seed: 96, separator: eos}\n"
    "batch: {sequences: 8, length: 512}\n"
    "optimizer: {betas: [0.9, 0.99], decay_on: no_embeddings}\n"
    "schedule: {kind: wsd, peak: 3e-3, warmup: 1%, decay: 20%}\n"
    "steps: 400\n"
    "checkpoints: {every: 100, at: [30], dtype: bfloat16}\n";
static const char branches[] =
    "branches:\n"
    "  - {name: 'cooldown-{from}', from: [100, 300], steps: 50, schedule: {kind: decay}}\n"
    "  - {name: longer, of: cooldown-300, from: [350], steps: 10, schedule: {kind: constant, peak: "
    "1}}\n";
static const char grid[] = "grid: {schedule.peak: [1e-3, 3e-3], seed: [1, 2, 3]}\n";

static enum status read_runs(struct runs *r, struct err *e, const char *more)
{
    char path[300];
    snprintf(path, sizeof path, "%s/runs.yaml", scratch_dir());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s%s", usual, more);
    fclose(f);
    return runs_read(path, NULL, 0, r, e);
}

static void test_simulated(void **state)
{
    static const struct {
        int64_t groups;
        double seconds[4], expected;
    } cases[] = {
        {1, {400, 50, 50, 10}, 510}, {2, {400, 50, 50, 10}, 400}, {9, {400, 50, 50, 10}, 400},
        {2, {100, 50, 50, 10}, 135}, /* the last waits for its parent's last step, at 125 */
        {2, {0, 0, 50, 10}, 60},     /* two have ended */
    };
    bool wanted[4] = {true, true, true, true};
    struct runs r;
    struct err e = {0};
    double found;
    (void)state;
    if (read_runs(&r, &e, branches) != OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(train_simulate(&r, wanted, cases[i].seconds, cases[i].groups, &found, &e),
                         OK);
        assert_float_equal(found, cases[i].expected, 1e-9);
    }
    wanted[2] = wanted[3] = false;
    assert_int_equal(train_simulate(&r, wanted, cases[0].seconds, 1, &found, &e), OK);
    assert_float_equal(found, 450, 1e-9);
    runs_free(&r);
}

static void test_one(void **state)
{
    struct runs r;
    struct err e = {0};
    (void)state;
    if (read_runs(&r, &e, branches) != OK) fail_msg("%s", e.text);
    assert_int_equal(r.n, 4);
    const struct run *own = &r.runs[0], *cool = &r.runs[2], *longer = &r.runs[3];
    assert_string_equal(own->name, "small");
    assert_string_equal(cool->name, "small-cooldown-300");
    assert_string_equal(longer->name, "small-longer");
    assert_int_equal(cool->parent, 0);
    assert_int_equal(longer->parent, 2);
    assert_int_equal(cool->last, 350);
    assert_float_equal(schedule_rate_of_step(&cool->schedule, 301), 3e-3, 0);
    assert_float_equal(schedule_rate_of_step(&cool->schedule, 326), 1.5e-3, 1e-15);
    assert_float_equal(schedule_rate_of_step(&longer->schedule, 355), 1, 0);
    assert_float_equal(own->recipe->optimizer.betas[1], 0.99, 0);
    assert_int_equal(own->recipe->batch.micro, 2);
    assert_int_equal(run_step_tokens(own), 4096);
    static const int64_t at[] = {30, 100, 200, 300, 400};
    int found = 0;
    for (int64_t k = 0; k <= 500; k++)
        if (run_has_checkpoint(own, k)) assert_int_equal(k, at[found++]);
    assert_int_equal(found, 5);
    assert_int_equal(run_checkpoints(own, own->first), 5);
    assert_int_equal(run_checkpoints(own, 30), 4);
    assert_int_equal(run_checkpoints(own, 250), 2);
    assert_int_equal(run_checkpoints(own, 400), 0);
    assert_int_equal(run_checkpoints(cool, cool->first), 1);
    assert_true(run_has_checkpoint(cool, 350) && !run_has_checkpoint(cool, 300));
    assert_true(run_is_left_at(&r, 0, 100) && run_is_left_at(&r, 2, 350));
    assert_false(run_is_left_at(&r, 0, 350) || run_is_left_at(&r, 1, 150));
    assert_float_equal(own->recipe->run.save_seconds, 600, 0);
    runs_free(&r);
    /* of a section that is not written too */
    struct err other = {0};
    const char *set[] = {"optimizer=", "run.save=30s"};
    char path[300];
    snprintf(path, sizeof path, "%s/runs.yaml", scratch_dir());
    if (runs_read(path, set, 2, &r, &other) != OK) fail_msg("%s", other.text);
    assert_float_equal(r.recipes[0].optimizer.betas[0], 0.9, 0);
    assert_float_equal(r.recipes[0].optimizer.betas[1], 0.95, 0);
    assert_float_equal(r.recipes[0].run.save_seconds, 30, 0);
    runs_free(&r);
}

static void test_grid(void **state)
{
    struct runs r;
    struct err e = {0};
    char more[2000];
    (void)state;
    snprintf(more, sizeof more, "%s%s", branches, grid);
    if (read_runs(&r, &e, more) != OK) fail_msg("%s", e.text);
    assert_int_equal(r.n, 24);
    assert_string_equal(r.runs[0].name, "peak1e-3-seed1");
    assert_string_equal(r.runs[4].name, "peak1e-3-seed2");
    assert_string_equal(r.runs[23].name, "peak3e-3-seed3-longer");
    assert_int_equal(r.runs[23].parent, 22);
    assert_float_equal(r.runs[2].schedule.peak, 1e-3, 0);
    assert_float_equal(r.runs[14].schedule.peak, 3e-3, 0);
    assert_int_equal(r.runs[20].recipe->seed, 3);
    runs_free(&r);
}

static void test_mistakes(void **state)
{
    static const char *const wrong[][2] = {
        {"stebs: 3\n", "did you mean steps"},
        {"branches: [{name: a, from: [401], steps: 2}]\n", "401 is no step of small, which has 1"},
        {"branches: [{name: a, from: [4, 5], steps: 2}]\n", "expected {from}"},
        {"branches: [{name: a, from: [4], steps: 2}, {name: a, from: [5], steps: 2}]\n",
         "two runs are called small-a"},
        {"branches: [{name: a, of: b, from: [4], steps: 2}]\n", "no branch before it is called b"},
        {"grid: {seed: 3}\n", ":11:8: grid.seed: expected a list"},
        {"grid: {sed: [3]}\n", "did you mean seed"},
        {"grid: {schedule.peak: [fast]}\n", "schedule.peak: expected a"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct runs r;
        struct err e = {0};
        assert_int_equal(read_runs(&r, &e, wrong[i][0]), ERR_USAGE);
        if (!strstr(e.text, wrong[i][1])) fail_msg("%s: lacks %s", e.text, wrong[i][1]);
    }
}

/* A sweep is no file of runs; test_bad.c has the reverse. */
static void test_a_sweep(void **state)
{
    struct runs r;
    struct err e = {0};
    (void)state;
    assert_int_equal(runs_read(FIXTURES "/config/minimal.yaml", NULL, 0, &r, &e), ERR_USAGE);
    if (!strstr(e.text, "minimal.yaml: it has the key models: a sweep, which qtraj plan and"))
        fail_msg("%s", e.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated), cmocka_unit_test(test_one),
        cmocka_unit_test(test_grid),      cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_a_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
