/* The table of kinds: properties of every kind, and what a cube is made of by it. */
#include "cube/cube_build.h"
#include "cube/cube_variables.h"
#include "cube/results_report.h"
#include "sample.h"
#include "util/quantity.h"
#include <math.h>

static const struct field *field_of(const struct measure *k, const char *name)
{
    for (const struct field *f = k->fields; f->name; f++)
        if (strcmp(f->name, name) == 0 && f->place != IN_VALUES && f->place != IN_INNER) return f;
    fail_msg("%s: no field %s", k->name, name);
    return NULL;
}

static void every_kind_is_whole(void **state)
{
    (void)state;
    for (int i = 0; recorded_measures[i]; i++) {
        const struct measure *k = recorded_measures[i];
        assert_ptr_equal(measure_find(k->name), k);
        assert_true(k->group && k->noun && !!k->plan_key + !!k->add_rows + !!k->cell_key == 1);
        assert_int_equal(field_of(k, "status")->type, FIELD_STATUS);
        assert_int_equal(field_of(k, "message")->place, IN_RECORD);
        assert_int_equal(field_of(k, "key")->place, FRAME_KEY);
        assert_int_equal(field_of(k, "fingerprint")->place, FRAME_TEXT);
        assert_int_equal(field_of(k, "provenance")->rerun, VOLATILE);
        assert_true(k->axes[0] || k->identity);
        assert_true(!k->axes[0] || (k->axes[0] == &axis_model && k->axes[1] == &axis_checkpoint));
        assert_true((!k->inner && !k->tables) || (k->number && k->number_long_name));
        assert_true(!k->inner || k->inner->plan);
        assert_true(!k->means || k->means_of);
        assert_true((k->report != REPORT_ALL && k->report != REPORT_PARTS) ||
                    (k->prefix && k->json && (k->report == REPORT_ALL || k->part)));
        for (int a = 0; k->axes[a]; a++) {
            assert_true(axis_place_of(k->axes[a]) < AXES_MAX && k->axes[a]->long_name[0]);
            assert_true((!k->list && !k->tables) || k->axis_long_names[a]);
        }
    }
    assert_null(measure_find("plan"));
    static const char *const axes[] = {"model",     "checkpoint", "bits", "quantizer",
                                       "replicate", "dataset",    "task"};
    for (int i = 0; i <= AXIS_TASK; i++) assert_string_equal(results_axes[i]->name, axes[i]);
}

/* Names in records and in the cube are unique within their place. */
static void names_are_unique(void **state)
{
    const struct cube *c = *state;
    for (int64_t i = 0; i < c->n; i++) {
        const struct cube_variable *x = c->variables[i];
        bool number = x->type == FIELD_REAL || x->type == FIELD_INTEGER;
        assert_true(x->name[0] && x->long_name[0] && (!number || x->units[0]));
        for (int64_t j = 0; j < i; j++)
            assert_true(strcmp(x->group, c->variables[j]->group) != 0 ||
                        strcmp(x->name, c->variables[j]->name) != 0);
    }
    for (int i = 0; recorded_measures[i]; i++)
        for (const struct field *f = recorded_measures[i]->fields; f->name; f++)
            for (const struct field *g = recorded_measures[i]->fields; g < f; g++)
                assert_true(f->place != g->place || strcmp(f->name, g->name) != 0);
}

/* --- the list of variables --- */

/* The variables that `qtraj variables` lists are those of a cube with all axes, each once, and
 * docs/cube.md says what each group is. */
static void the_list_is_whole(void **state)
{
    const struct cube *c = *state;
    int64_t n = 0;
    char *page, name[80];
    json_t *list;
    assert_int_equal(cube_variables(&list, NULL), OK);
    assert_int_equal(fsx_read(FIXTURES "/../../docs/cube.md", 0, &page, NULL, NULL), OK);
    for (int64_t i = 0; i < c->n; i++) {
        const struct cube_variable *x = c->variables[i];
        if (x->from) continue;
        const json_t *listed = json_array_get(list, (size_t)n++);
        assert_string_equal(json_text(listed, "group", ""), x->group);
        assert_string_equal(json_text(listed, "name", ""), x->name);
        assert_string_equal(json_text(listed, "long_name", ""), x->long_name);
        assert_int_equal(json_array_size(json_object_get(listed, "axes")), x->rank);
        snprintf(name, sizeof name, "`%s/`", x->group);
        if (x->group[0] && !strstr(page, name)) fail_msg("docs/cube.md lacks %s", name);
    }
    assert_int_equal(json_array_size(list), n);
    json_decref(list);
    free(page);
}

/* --- counts --- */

static void states_are_counted_by_kind(void **state)
{
    const struct cube *c = *state;
    static const struct {
        const struct measure *kind;
        int64_t by_state[STATE_N];
    } expected[] = {{&measure_checkpoint, {0, 3, 1, 0}}, {&measure_cell, {5, 9, 6, 4}},
                    {&measure_replicate, {6, 1, 1, 0}},  {&measure_curvature, {1, 1, 1, 1}},
                    {&measure_movement, {0, 1, 1, 2}},   {&measure_point, {1, 7, 1, 0}}};
    struct inventory bare;
    for (int k = 0; k < 6; k++) {
        const int64_t *states = expected[k].by_state;
        const struct rows *rows = &c->all.rows[measure_place_of(expected[k].kind)];
        struct result_counts n = rows_count(rows, -1), parts = {0};
        for (int64_t i = 0; i < rows->n_parts; i++) parts.records += rows_count(rows, i).records;
        for (int s = 0; s < STATE_N; s++) assert_int_equal(n.by_state[s], states[s]);
        assert_int_equal(n.records,
                         states[STATE_PENDING] + states[STATE_DONE] + states[STATE_FAILED]);
        assert_int_equal(n.records, parts.records);
        assert_non_null(n.message);
    }
    assert_int_equal(inventory_open(c->all.plan, NULL, &bare, NULL), OK);
    struct result_counts n = rows_count(&bare.rows[measure_place_of(&measure_cell)], -1);
    assert_int_equal(n.by_state[STATE_PENDING], n.records);
    assert_null(n.message);
    inventory_close(&bare);
}

/* --- replicates --- */

enum { REPLICATED = 3 }; /* the variant that has two more */

/* Of the first checkpoint: the first is done, with this loss, the second has failed. */
static json_t *replicate_record(int64_t number, double loss)
{
    char cell[HASH_HEX], key[HASH_HEX];
    results_cell_key(sample_checkpoint_keys[0], sample_variant_keys[REPLICATED], cell);
    results_replicate_key(cell, number, -1, key);
    json_t *r = sample_head("replicate", key, 0), *faq = json_object(), *c4 = json_object();
    json_object_set_new(r, "bits", json_integer(3));
    json_object_set_new(r, "quantizer", json_string("gptq"));
    json_object_set_new(r, "replicate", json_integer(number));
    sample_set(faq, "loss", loss);
    sample_set(c4, "loss", loss + 1);
    json_object_set_new(json_object_get(r, "datasets"), "faq", faq);
    json_object_set_new(json_object_get(r, "datasets"), "c4", c4);
    if (number == 1) return r;
    json_object_set_new(r, "status", json_string("failed"));
    json_object_set_new(r, "message", json_string("too few sequences"));
    json_object_clear(json_object_get(r, "datasets"));
    return r;
}

static json_t *plan_with_replicates(void)
{
    json_t *plan = sample_plan();
    json_t *variant = json_array_get(json_object_get(plan, "variants"), REPLICATED);
    json_object_set_new(variant, "activation_bits", json_integer(8));
    json_object_set_new(variant, "replicates", json_integer(3));
    json_object_set_new(json_array_get(json_object_get(plan, "models"), 0), "training",
                        json_pack("{s:[i]}", "step", 100));
    json_object_set_new(plan, "replicates", json_pack("[i, i]", 1, 2));
    return plan;
}

static struct results_view *view;

static double at(const struct cube *c, const char *name, const struct row *row)
{
    const struct cube_variable *x = cube_find(c, name);
    assert_non_null(x);
    return x->type == FIELD_INTEGER ? (double)x->data.i[cube_place(c, x, row)]
                                    : x->data.d[cube_place(c, x, row)];
}

/* Where one has failed, mean and deviation are those of the others, the cell among them. */
static void replicates_spread(void **state)
{
    const struct cube *c = *state;
    struct row row = {.at = {0, 0, 1, 1, 0, 0}};
    const double cell = sample_value(10 * REPLICATED);
    assert_true(at(c, "loss", &row) == cell);
    assert_true(at(c, "loss_replicate", &row) == 1.5);
    assert_true(fabs(at(c, "loss_replicate_mean", &row) - (cell + 1.5) / 2) < 1e-15);
    assert_true(fabs(at(c, "loss_replicate_std", &row) - fabs(cell - 1.5) / sqrt(2)) < 1e-15);
    assert_true(at(c, "replicates_done", &row) == 2);
    row.at[AXIS_REPLICATE] = 1;
    assert_true(isnan(at(c, "loss_replicate", &row)));
    row.at[AXIS_BITS] = 0; /* without replicates */
    assert_true(isnan(at(c, "loss_replicate_std", &row)));
}

/* show: a row a cell with replicates and text, of what those that are done have. */
static void replicates_in_a_table(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const struct show_options o = {.kind = "replicate", .metric = "loss"};
    assert_int_equal(report_show(view, &o, f, NULL), OK);
    fclose(f);
    const double cell = sample_value(10 * REPLICATED);
    char row[200], measured[MEASURED];
    measured_text((cell + 1.5) / 2, fabs(cell - 1.5) / sqrt(2), measured);
    snprintf(row, sizeof row, "\nstep100        small      3  gptq       faq      2 of 3  %s\n",
             measured);
    assert_non_null(strstr(text, "\ncheckpoint     model   bits  quantizer  dataset  number"));
    if (!strstr(text, row)) fail_msg("no %s in\n%s", row, text);
    assert_null(strstr(text, "rtn"));
    free(text);
}

/* --- tasks --- */

static const char *const task_keys[] = {"key of piqa", "key of mmlu"};

static json_t *plan_with_tasks(json_t *plan)
{
    size_t m, c;
    json_t *model, *checkpoint;
    json_object_set_new(plan, "tasks",
                        json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "piqa", "key", task_keys[0],
                                  "name", "mmlu", "key", task_keys[1]));
    json_array_foreach(json_object_get(plan, "models"), m, model)
        json_array_foreach(json_object_get(model, "checkpoints"), c, checkpoint)
            json_object_set_new(checkpoint, "task_key",
                                json_sprintf("tasks of %s", json_text(checkpoint, "key", "")));
    return plan;
}

/* Of the first checkpoint, or of its cell of variant i. */
static json_t *task_record(int i, int task, double accuracy, double error)
{
    char of[HASH_HEX + 16], key[HASH_HEX];
    snprintf(of, sizeof of, "tasks of %s", sample_checkpoint_keys[0]);
    if (i >= 0) results_cell_key(of, sample_variant_keys[i], of);
    results_task_key(of, task_keys[task], key);
    json_t *r = sample_head(i < 0 ? "baseline_task" : "task", key, 0);
    json_t *values = json_object_get(r, "values");
    sample_set(values, "accuracy", accuracy);
    sample_set(values, "accuracy_stderr", error);
    sample_set(values, "accuracy_degradation", 2 * accuracy);
    json_object_set_new(r, "tables",
                        json_pack("{s:{s:[s, s], s:[i, i], s:[f, f]}}", "choices", "subject", "a",
                                  "a", "choice", 0, 1, "log_likelihood", -1.5, -2.5));
    return r;
}

/* Means are there where all tasks are done. */
static void tasks_have_means(void **state)
{
    const struct cube *c = *state;
    struct row row = {.at = {0, 0, 1, 1, 0, 0, 1}};
    assert_true(at(c, "baseline_accuracy", &row) == 0.25);
    assert_true(at(c, "baseline_accuracy_mean", &row) == 0.375);
    assert_true(fabs(at(c, "baseline_accuracy_mean_stderr", &row) - 0.05 / 2) < 1e-15);
    assert_true(at(c, "accuracy", &row) == 0.5);
    assert_true(at(c, "accuracy_mean", &row) == 0.625);
    assert_true(at(c, "accuracy_degradation_mean", &row) == 1.25);
    assert_true(isnan(at(c, "accuracy_delta_mean", &row)));
    row.at[AXIS_BITS] = 0; /* one of the tasks alone */
    assert_true(isnan(at(c, "accuracy_mean", &row)));
    const struct cube_variable *x = cube_find_in(c, "task_choices", "log_likelihood");
    assert_int_equal(x->n, 6);
    assert_true(x->data.d[5] == -2.5);
    assert_string_equal(cube_find_in(c, "task_choices", "task")->data.t[5], "mmlu");
    assert_int_equal(cube_find_in(c, "baseline_task_choices", "choice")->n, 4);
}

/* --- common tokens --- */

/* The first model's first text alone has a count. */
static json_t *plan_with_counts(json_t *plan)
{
    json_object_set_new(json_array_get(json_object_get(plan, "models"), 0), "common_tokens",
                        json_pack("{s:i}", "faq", 2000));
    return plan;
}

static void losses_per_common_token(void **state)
{
    const struct cube *c = *state;
    struct row row = {.at = {0, 0, 1, 1, 0, 0, 0}};
    const double nats = at(c, "baseline_bytes", &row) * log(2) / 2000;
    assert_true(at(c, "common_tokens", &row) == 2000);
    assert_true(
        fabs(at(c, "baseline_loss_common", &row) / at(c, "baseline_bits_per_byte", &row) / nats -
             1) < 1e-14);
    assert_true(fabs(at(c, "loss_common", &row) / at(c, "bits_per_byte", &row) / nats - 1) < 1e-14);
    row.at[AXIS_DATASET] = 1;
    assert_true(at(c, "common_tokens", &row) == -1);
    assert_true(isnan(at(c, "loss_common", &row)));
}

/* A plan without replicates and tasks makes a cube without any of their names. */
static void without_replicates(void **state)
{
    (void)state;
    struct cube plain;
    char *folder = sample_folder();
    struct results_view *v = sample_view(folder, true);
    assert_int_equal(cube_build(v, &plain, NULL), OK);
    for (int64_t i = 0; i < plain.n; i++)
        assert_true(!strstr(plain.variables[i]->name, "replicate") &&
                    !strstr(plain.variables[i]->group, "replicate") &&
                    !strstr(plain.variables[i]->name, "accuracy") &&
                    !strstr(plain.variables[i]->name, "common") &&
                    !strstr(plain.variables[i]->group, "task"));
    cube_free(&plain);
    results_view_close(v);
    sample_remove(folder);
}

static struct cube cube;
static char *shared_folder;

static void append(struct journal *j, json_t *record)
{
    assert_int_equal(journal_append(j, record, NULL), OK);
    json_decref(record);
}

static int setup(void **state)
{
    struct err e = {0};
    struct journal *j;
    shared_folder = sample_folder();
    char *path = sample_path(shared_folder, "sample.journal");
    assert_int_equal(journal_open(path, &j, &e), OK);
    sample_fill(j);
    append(j, plan_with_counts(plan_with_tasks(plan_with_replicates())));
    append(j, replicate_record(1, 1.5));
    append(j, replicate_record(2, 0));
    append(j, task_record(-1, 0, 0.5, 0.03));
    append(j, task_record(-1, 1, 0.25, 0.04));
    append(j, task_record(REPLICATED - 1, 0, 0.75, 0.03));
    append(j, task_record(REPLICATED, 0, 0.75, 0.03));
    append(j, task_record(REPLICATED, 1, 0.5, 0.04));
    journal_close(j);
    free(path);
    view = sample_view(shared_folder, true);
    if (cube_build(view, &cube, &e) != OK) fail_msg("%s%s", e.text, e.trail);
    *state = &cube;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cube_free(&cube);
    results_view_close(view);
    sample_remove(shared_folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_whole),     cmocka_unit_test(names_are_unique),
        cmocka_unit_test(the_list_is_whole),       cmocka_unit_test(states_are_counted_by_kind),
        cmocka_unit_test(replicates_spread),       cmocka_unit_test(without_replicates),
        cmocka_unit_test(replicates_in_a_table),   cmocka_unit_test(tasks_have_means),
        cmocka_unit_test(losses_per_common_token),
    };
    return cmocka_run_group_tests_name("kinds", tests, setup, teardown);
}
