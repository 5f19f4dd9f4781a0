/* Tables for people and rows for machines: the output shows what the records hold. */
#include "cube/results_report.h"
#include "sample.h"

static struct report_about about;
static enum report_verdict verdict;

/* Output of report_show, or of report_status if o is NULL; the caller frees. */
static char *printed(const struct results_view *v, const struct show_options *o, bool json)
{
    char *text = NULL;
    size_t n = 0;
    struct err e = {0};
    FILE *f = open_memstream(&text, &n);
    enum status st = o ? report_show(v, o, f, &e) : report_status(v, &about, json, f, &verdict, &e);
    fclose(f);
    if (st != OK) fail_msg("%s%s", e.text, e.trail);
    return text;
}

/* The members that say which results are wanted. */
#define ONLY(...)                                                                                  \
    .only = (const char *[]){__VA_ARGS__},                                                         \
    .n_only = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)

static bool has(const char *text, const char *part)
{
    bool there = strstr(text, part) != NULL;
    if (!there) print_message("no \"%s\" in:\n%s", part, text);
    return there;
}

static void tables_show_values_with_errors(void **state)
{
    const struct results_view *v = *state;
    char *text = printed(v, &(struct show_options){0}, false);
    assert_true(has(text, "small, faq: loss_relative: relative error CE(quantized) / CE(full "
                          "precision) - 1, in percent, ± standard error\n\n"));
    assert_true(has(text, "größer, c4: loss_relative: relative error"));
    assert_true(has(text, "checkpoint  step  tokens     lr  phase     loss        rtn 2"));
    assert_true(has(text, "\nstep100      100    819k  0.004  stable  1.0000  5.00 ± 0.10  "
                          "10.00 ± 0.20\n"));
    assert_true(has(text, "\nstep100      100    819k  0.004  stable  1.0000  15.00 ± 0.30 A  "
                          "20.00 ± 0.40\n"));
    assert_true(has(text, "         inf  10.00 ± 0.20\n"));
    assert_true(has(text, "               B  20.00 ± 0.40\n"));
    assert_true(has(text, "2.5T  3e-5  decay     C"));
    assert_true(has(text, "A  scored, but not measured in full: second_order: no room\n"));
    assert_true(has(text, "B  failed: layers.1.q: not finite\n"));
    assert_true(has(text, "C  failed: model.safetensors: truncated\n"));
    assert_true(has(text, "…  pending\n"));
    assert_null(strstr(text, "gptq-g64 2")); /* that method has no such width */
    assert_null(strchr(text, '\033'));
    free(text);
}

/* All lines of a block have the same width, so columns are aligned. */
static void columns_align(void **state)
{
    const struct results_view *v = *state;
    const struct show_options o = {ONLY("model=small", "dataset=faq", "quantizer=rtn")};
    char *text = printed(v, &o, false), *save = NULL;
    int64_t first = -1, rows = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "checkpoint", 10) != 0 && strncmp(line, "step", 4) != 0 &&
            strncmp(line, "lawa", 4) != 0)
            continue;
        int64_t width = 0;
        for (const char *p = line; *p; p++) width += (*p & 0xC0) != 0x80;
        if (first < 0) first = width;
        assert_int_equal(width, first);
        rows++;
    }
    assert_int_equal(rows, 4);
    assert_true(first <= 120);
    free(text);
}

static void csv_has_all_digits(void **state)
{
    const struct results_view *v = *state;
    const struct show_options o = {.csv = true, ONLY("bits=3", "dataset=c?")};
    char *text = printed(v, &o, false), number[64];
    int lines = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 1 + 4 * 3); /* header; checkpoints by quantizers */
    assert_true(has(text, "model,checkpoint,step,tokens,learning_rate,phase,kind,recipe,average,"
                          "branch_of,bits,quantizer,dataset,status,message,loss,"));
    snprintf(number, sizeof number, ",3,rtn,c4,done,,%.17g,", sample_value(11));
    assert_true(has(text, number));
    assert_true(has(text, ",\"broken, \"\"one\"\"\",7,2500000000000,"));
    assert_true(has(text, "small,lawa,,,,,average,step100 step200,,,3,rtn,c4,pending,,,,"));
    free(text);
    text = printed(v, &(struct show_options){.csv = true, ONLY("bits=2", "quantizer=gptq-g64")},
                   false);
    assert_int_equal(strncmp(text, "model,", 6), 0); /* no rows, only column names */
    assert_ptr_equal(strchr(text, '\n') + 1, text + strlen(text));
    free(text);
}

static void json_rows(void **state)
{
    const struct results_view *v = *state;
    char *text = printed(v, &(struct show_options){.json = true}, false);
    json_t *rows = sample_parse(text), *row;
    size_t i;
    int done = 0, quoted = 0;
    assert_int_equal(json_array_size(rows), 4 * 5 * 2);
    json_array_foreach(rows, i, row) {
        bool is_done = strcmp(json_text(row, "status", ""), "done") == 0;
        done += is_done;
        assert_true(json_is_real(json_object_get(row, "loss")) == is_done);
        quoted += strcmp(json_text(row, "checkpoint", ""), "broken, \"one\"") == 0;
        assert_true(json_is_null(json_object_get(row, "kl_divergence")));
    }
    assert_int_equal(done, 9 * 2);
    assert_int_equal(quoted, 5 * 2);
    json_decref(rows);
    free(text);
    text = printed(
        v, &(struct show_options){.json = true, ONLY("model=small", "bits=2", "quantizer=rtn")},
        false);
    rows = sample_parse(text);
    assert_int_equal(json_array_size(rows), 3 * 2);
    row = json_array_get(rows, 2);
    assert_string_equal(json_text(row, "checkpoint", ""), "step200");
    assert_string_equal(json_text(row, "loss_relative", ""), "inf");
    assert_true(json_number_get(json_object_get(row, "baseline_loss")) == sample_value(10));
    json_decref(rows);
    free(text);
}

/* Rows of every kind have its labels, its numbers, and those of others along its axes. */
static void rows_of_every_kind(void **state)
{
    const struct results_view *v = *state;
    static const struct {
        const char *kind, *name;
        int rows, filled; /* how many have a number of that name */
    } expected[] = {{"checkpoint", "baseline_loss", 8, 6}, {"checkpoint", "sharpness", 8, 2},
                    {"cell", "sharpness", 40, 10},         {"curvature", "sharpness", 3, 1},
                    {"curvature", "weight_norm", 3, 3},    {"point", "loss", 9, 7},
                    {"movement", "movement", 4, 2},        {"movement", "movement_in_steps", 4, 2}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct show_options o = {.json = true, .kind = expected[i].kind};
        char *text = printed(v, &o, false);
        json_t *rows = sample_parse(text), *row;
        size_t k;
        int filled = 0;
        assert_int_equal(json_array_size(rows), expected[i].rows);
        json_array_foreach(rows, k, row) {
            const json_t *value = json_object_get(row, expected[i].name);
            filled += !isnan(json_number_get(value));
            assert_non_null(value);
            assert_non_null(json_object_get(row, "status"));
            assert_int_equal(json_object_get(row, "kl_divergence") != NULL,
                             strcmp(expected[i].kind, "cell") == 0);
        }
        assert_int_equal(filled, expected[i].filled);
        json_decref(rows);
        free(text);
    }
    struct err e = {0};
    assert_int_equal(report_show(v, &(struct show_options){.kind = "x"}, stdout, &e), ERR_USAGE);
    assert_true(
        has(e.text, "checkpoint, cell, replicate, curvature, gradient, movement, outliers, point"));
}

static void bad_choices(void **state)
{
    const struct results_view *v = *state;
    static const struct {
        const char *only;
        const char *metric, *kind, *message;
    } cases[] = {
        {"model=x", NULL, NULL, "no model x in these results; there are: small, größer"},
        {"quantizer=rtm", NULL, NULL, "no quantizer rtm in these results, did you mean rtn?"},
        {"quantizer=q*", NULL, NULL, "there are: rtn, gptq, gptq-g64"},
        {"checkpoint=step3??", NULL, NULL, "there are: step100, step200, lawa, broken"},
        {"dataset=wiki", NULL, NULL, "there are: faq, c4"},
        {"bits=5", NULL, NULL, "there are: 2, 3"},
        {"colour=red", NULL, NULL, "--only colour=red: expected model=, checkpoint=, bits="},
        {"surface=plane", NULL, NULL, "--only surface=plane: results of kind cell have no surface"},
        {"bits=3", NULL, "curvature", "results of kind curvature have no bits"},
        {"model=small", "los", NULL, "no metric los in these results, did you mean loss?"},
        {"model=small", "loss,x", NULL, "no metric x in these results; there are: weight_dist"},
        {"model=small", "x", NULL, " more"}, /* that the message has no room for is counted */
        {"model=small", "kl", NULL, "no metric kl in these results, did you mean kl_divergence?"},
        {"model=small", "loss_relative", "curvature", "there are: curvature_loss, curvature_to"},
        {"model=small", NULL, "cells", "no kind of result cells, did you mean cell?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        const struct show_options o = {ONLY(cases[i].only), .metric = cases[i].metric,
                                       .kind = cases[i].kind};
        assert_int_equal(report_show(v, &o, stdout, &e), ERR_USAGE);
        assert_true(has(e.text, cases[i].message));
    }
}

/* Other numbers than the relative error, and which results: by patterns. */
static void metrics_and_patterns(void **state)
{
    const struct results_view *v = *state;
    const struct show_options o = {.metric = "loss,peak_memory,weight_distance",
                                   ONLY("model=small", "checkpoint=step*", "quantizer=r??")};
    char *text = printed(v, &o, false);
    assert_true(has(text, "small, faq: loss: cross-entropy per token of the quantized model "
                          "(nat)\n"));
    assert_true(has(text, "small, c4: loss: "));
    assert_true(has(text, "small: weight_distance: Euclidean")); /* the same for all datasets */
    assert_true(has(text, "step200"));
    assert_null(strstr(text, "lawa"));
    assert_null(strstr(text, "gptq"));
    assert_null(strstr(text, "größer"));
    assert_null(strstr(text, "loss_relative"));
    free(text);
    const struct show_options rows = {
        .csv = true, .metric = "loss,sharpness", ONLY("checkpoint=step100", "bits=[2]")};
    text = printed(v, &rows, false);
    assert_true(has(text, ",status,message,loss,sharpness,key,fingerprint\n"));
    assert_true(has(text, "small,step100,"));
    assert_null(strstr(text, "step200"));
    free(text);
    const struct show_options points = {
        .json = true, .kind = "point", .metric = "loss", ONLY("surface=pl*", "bits=3")};
    text = printed(v, &points, false);
    json_t *list = sample_parse(text);
    assert_int_equal(json_array_size(list), 9);
    assert_non_null(json_object_get(json_array_get(list, 0), "loss"));
    assert_null(json_object_get(json_array_get(list, 0), "alpha"));
    json_decref(list);
    free(text);
}

/* Of one width, all quantizers are in one table. */
static void one_width_is_one_table(void **state)
{
    const struct show_options o = {ONLY("bits=3", "model=small", "dataset=faq")};
    char *text = printed(*state, &o, false);
    assert_true(has(text, "  rtn 3"));
    const char *head = strstr(text, "checkpoint  step"), *end = strchr(head, '\n');
    const char *last = strstr(head, "gptq-g64 3");
    assert_true(last && last < end);
    assert_null(strstr(end, "checkpoint  step"));
    free(text);
}

/* Where the columns that blocks repeat take more than half of the page, blocks repeat the first. */
static void narrow_pages(void **state)
{
    const struct results_view *v = *state;
    const struct show_options o = {ONLY("model=small", "dataset=faq", "quantizer=rtn")};
    setenv("COLUMNS", "60", 1);
    char *text = printed(v, &o, false);
    assert_true(has(text, "\ncheckpoint  step  tokens     lr  phase     loss        rtn 2\n"));
    assert_true(has(text, "\ncheckpoint         rtn 3\nstep100     10.00 ± 0.20\n"));
    free(text);
    setenv("COLUMNS", "200", 1);
    text = printed(v, &o, false);
    assert_true(has(text, "rtn 2         rtn 3\n"));
    free(text);
    unsetenv("COLUMNS");
}

/* Metrics of one other kind choose that kind; its verdict counts the rows that are shown. */
static void metrics_choose_the_kind(void **state)
{
    const struct results_view *v = *state;
    char *kind =
        printed(v, &(struct show_options){.kind = "curvature", .metric = "sharpness"}, false);
    char *text = printed(v, &(struct show_options){.metric = "sharpness"}, false);
    assert_string_equal(text, kind);
    assert_true(has(text, "\n1 of 1 sharpnesses"));
    free(text);
    text = printed(v, &(struct show_options){.csv = true, .metric = "loss,sharpness"}, false);
    assert_true(has(text, ",quantizer,")); /* of two kinds: cells */
    free(text);
    text = printed(v, &(struct show_options){.metric = "sharpness", ONLY("checkpoint=step200")},
                   false);
    assert_true(has(text, "step200"));
    assert_null(strstr(text, "sharpnesses"));
    free(text);
    free(kind);
}

/* Numbers no further than their error lets them be known, and a verdict in words. */
static void other_kinds(void **state)
{
    const struct results_view *v = *state;
    char *text = printed(v, &(struct show_options){.kind = "curvature"}, false);
    assert_true(has(text, "sharpness  sharpness_residual  sharpness_converged"));
    assert_true(has(text, "-1.000                0.05                   no"));
    assert_true(has(text, "1234 ± 56"));
    assert_true(has(text, "step200     small  failed"));
    assert_true(has(text, "lawa        small  pending"));
    assert_true(has(text, "\n1 of 1 sharpnesses not converged (residual up to 5 % of the value: "));
    assert_null(strstr(text, "trace_stderr")); /* it stands beside the trace */
    free(text);
    text = printed(v, &(struct show_options){.kind = "checkpoint"}, false);
    assert_true(has(text, "baseline_loss"));
    assert_null(strstr(text, "converged"));
    free(text);
    text = printed(v, &(struct show_options){.kind = "movement"}, false);
    assert_true(has(text, "step200     small  2"));
    assert_true(has(text, "step200     small  3"));
    free(text);
    text = printed(v, &(struct show_options){.metric = "movement_relative"}, false);
    assert_true(has(text, "step200     small                       0.25\n")); /* one row, no bits */
    assert_null(strstr(text, "bits"));
    free(text);
    text = printed(v, &(struct show_options){.kind = "point"}, false);
    assert_true(has(text, "plane"));
    free(text);
}

static void status_text_form(void **state)
{
    const struct results_view *v = *state;
    char *text = printed(v, NULL, false);
    assert_true(has(text, "\nsmall             3     15     9       1        5               3\n"));
    assert_true(has(text, "\ngrößer            1      5     0       5        0               1\n"));
    assert_true(has(text, "\nall               4     20     9       6        5               4\n"));
    assert_true(has(text, "  small step200 (gptq 2): layers.1.q: not finite\n"));
    assert_true(has(text, "  größer broken, \"one\" (rtn 2, rtn 3, gptq 2, gptq 3, gptq-g64 3): "
                          "model.safetensors: truncated\n"));
    assert_true(has(text, "\ncurvature of checkpoints: 1 done, 1 failed, 1 pending\n"
                          "  1 of 1 sharpnesses not converged (residual up to 5 % of the value: "
                          "more products or a looser tolerance)\n"));
    assert_true(has(text, "  small step200 (curvature): product 3 of Lanczos is not finite\n"));
    assert_true(
        has(text, "\ndone, but in part:\n  small step100 (gptq 2): second_order: no room\n"));
    assert_true(has(text, "last run: done at 2026-01-02T04:00:00Z, exit code 1\nstopped; "));
    assert_int_equal(verdict, VERDICT_OPEN);
    free(text);
}

/* Where its lock is held a run goes on, whatever the last one's end was. */
static void status_of_a_run(void **state)
{
    const struct results_view *v = *state;
    about.holder = (struct lock_holder){
        .held = true, .certain = true, .host = "n1", .pid = 12, .utc = "2026-01-02T05:00:00Z"};
    char *text = printed(v, NULL, false);
    assert_true(has(text, "\nrunning on n1, pid 12, since 2026-01-02T05:00:00Z\n"));
    assert_null(strstr(text, "last run"));
    assert_int_equal(verdict, VERDICT_OPEN);
    free(text);
    about.holder.certain = false;
    text = printed(v, NULL, false);
    assert_true(has(text, "since 2026-01-02T05:00:00Z, as far as its lock says\n"));
    free(text);
    text = printed(v, NULL, true);
    json_t *json = sample_parse(text), *run = json_object_get(json, "run");
    assert_string_equal(json_text(run, "state", ""), "running");
    assert_string_equal(json_text(run, "host", ""), "n1");
    assert_int_equal(json_integer_value(json_object_get(run, "pid")), 12);
    json_decref(json);
    free(text);
    about.holder = (struct lock_holder){0};
    text = printed(v, NULL, true);
    json = sample_parse(text);
    assert_string_equal(json_text(json_object_get(json, "run"), "state", ""), "stopped");
    json_decref(json);
    free(text);
}

static void status_json(void **state)
{
    const struct results_view *v = *state;
    char *text = printed(v, NULL, true);
    json_t *json = sample_parse(text), *all = json_object_get(json, "all");
    assert_int_equal(json_integer_value(json_object_get(all, "done")), 9);
    assert_int_equal(json_integer_value(json_object_get(all, "failed")), 6);
    assert_int_equal(json_integer_value(json_object_get(all, "pending")), 5);
    assert_int_equal(json_integer_value(json_object_get(all, "not_applicable")), 4);
    assert_int_equal(json_array_size(json_object_get(json, "failures")), 9);
    assert_int_equal(json_array_size(json_object_get(json, "in_part")), 1);
    const json_t *curvature = json_object_get(json, "curvature");
    assert_int_equal(json_integer_value(json_object_get(curvature, "done")), 1);
    assert_int_equal(json_integer_value(json_object_get(curvature, "failed")), 1);
    assert_int_equal(json_integer_value(json_object_get(curvature, "pending")), 1);
    assert_int_equal(json_integer_value(json_object_get(curvature, "not_converged")), 1);
    assert_true(fabs(json_number_get(json_object_get(curvature, "residual")) - 0.05) < 1e-12);
    assert_string_equal(json_text(json_object_get(json, "end"), "status", ""), "done");
    json_decref(json);
    free(text);
}

/* A sweep wider than the page is split into blocks; each repeats the checkpoints' columns. */
static void wide_tables_are_split(void **state)
{
    (void)state;
    char *folder = sample_folder(), *path = sample_path(folder, "wide.journal"), label[32];
    struct journal *j;
    struct results_view *v;
    json_t *plan = sample_plan(), *quantizers = json_array(), *variants = json_array();
    for (int i = 0; i < 20; i++) {
        snprintf(label, sizeof label, "quantizer-%d", i);
        json_array_append_new(quantizers, json_string(label));
        json_array_append_new(variants, json_pack("{s:i, s:s, s:s, s:b}", "bits", 2, "quantizer",
                                                  label, "key", label, "applicable", 1));
    }
    json_object_set_new(plan, "quantizers", quantizers);
    json_object_set_new(plan, "variants", variants);
    assert_int_equal(journal_open(path, &j, NULL), OK);
    assert_int_equal(journal_append(j, plan, NULL), OK);
    assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, NULL), OK);
    char *text = printed(v, &(struct show_options){ONLY("model=small", "dataset=faq")}, false);
    int heads = 0;
    for (const char *p = text; (p = strstr(p, "checkpoint ")); p++) heads++;
    assert_true(heads >= 3);
    for (int i = 0; i < 20; i++) {
        snprintf(label, sizeof label, "quantizer-%d 2", i);
        assert_true(has(text, label));
    }
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
        assert_true(strcspn(p, "\n") <= 120 + 40); /* bytes; a line is at most 120 characters */
    free(text);
    results_view_close(v);
    json_decref(plan);
    journal_close(j);
    free(path);
    sample_remove(folder);
}

static void malformed_plans(void **state)
{
    (void)state;
    static const char *const keys[] = {"models",   "bits",     "quantizers",
                                       "datasets", "variants", NULL};
    for (int i = 0; keys[i]; i++) {
        char *folder = sample_folder(), *path = sample_path(folder, "bad.journal"),
             *cube = sample_path(folder, "x.h5");
        struct journal *j;
        struct results_view *v;
        struct err e = {0};
        json_t *plan = sample_plan();
        json_object_set_new(plan, keys[i], json_string("no list"));
        assert_int_equal(journal_open(path, &j, NULL), OK);
        assert_int_equal(journal_append(j, plan, NULL), OK);
        assert_int_equal(results_view_of_journal(j, VIEW_ALL, &v, NULL), OK);
        assert_int_equal(report_status(v, &about, false, stdout, &verdict, &e), ERR_FORMAT);
        assert_true(has(e.text, keys[i]));
        err_clear(&e);
        assert_int_equal(cube_write(cube, v, NULL, &e), ERR_FORMAT);
        free(cube);
        results_view_close(v);
        json_decref(plan);
        journal_close(j);
        free(path);
        sample_remove(folder);
    }
}

static char *shared_folder;

static int setup(void **state)
{
    unsetenv("COLUMNS");
    shared_folder = sample_folder();
    *state = sample_view(shared_folder, true);
    return 0;
}

static int teardown(void **state)
{
    results_view_close(*state);
    sample_remove(shared_folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_show_values_with_errors),
        cmocka_unit_test(columns_align),
        cmocka_unit_test(csv_has_all_digits),
        cmocka_unit_test(json_rows),
        cmocka_unit_test(rows_of_every_kind),
        cmocka_unit_test(bad_choices),
        cmocka_unit_test(metrics_and_patterns),
        cmocka_unit_test(metrics_choose_the_kind),
        cmocka_unit_test(one_width_is_one_table),
        cmocka_unit_test(narrow_pages),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(status_text_form),
        cmocka_unit_test(status_of_a_run),
        cmocka_unit_test(status_json),
        cmocka_unit_test(wide_tables_are_split),
        cmocka_unit_test(malformed_plans),
    };
    return cmocka_run_group_tests_name("show", tests, setup, teardown);
}
