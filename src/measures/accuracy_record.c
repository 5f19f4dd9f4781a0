/* Accuracies on a multiple-choice task: in full precision of one (model, checkpoint), and quantized
 * of one (model, checkpoint, bits, quantizer), beside those of the checkpoint. Records of their
 * own, so that a task can be added to finished results. The cells' run scores them. */
#include "engine/visit_internal.h"
#include "records/rows.h"
#include "util/mem.h"

static void set_accuracy(json_t *values, const struct accuracy *x)
{
    record_number(values, "accuracy", x->accuracy);
    record_number(values, "accuracy_stderr", x->error);
    record_number(values, "accuracy_norm", x->norm);
    record_number(values, "accuracy_norm_stderr", x->norm_error);
    record_integer(values, "items", x->items);
}

static void set_change(json_t *values, const struct accuracy_change *x)
{
    record_number(values, "accuracy_delta", x->change);
    record_number(values, "accuracy_delta_stderr", x->error);
    record_number(values, "accuracy_degradation", x->degradation);
    record_integer(values, "items_lost", x->lost);
    record_integer(values, "items_gained", x->gained);
    record_number(values, "mcnemar_p", x->p);
}

static void set_answers(json_t *record, const struct run *r, const struct stream *s,
                        const char *task)
{
    const struct requests *q = r->inputs.requests;
    json_t *values = json_object_get(record, "values");
    const struct answers full = walk_answers(r, &r->full), own = walk_answers(r, s);
    const struct accuracy x = accuracy_of(q, &own, task);
    set_accuracy(values, &x);
    if (s->variant) {
        const struct accuracy_change change = accuracy_compare(q, &full, &own, task);
        set_change(values, &change);
    } else
        record_integer(values, "items_truncated", x.truncated);
    if (r->visit->log_likelihoods)
        json_object_set_new(record, "tables",
                            json_pack("{s:o}", "choices", answers_table(q, &own, task)));
}

json_t *record_accuracy(const struct part_context *c, const struct run *r, int64_t i,
                        const struct accuracy_wanted *of, const struct err *failure)
{
    const struct stream *s = i < 0 ? &r->full : &r->streams[i];
    if (failure->code == OK && s->st != OK) failure = &s->err;
    if (failure->code == OK) failure = &r->unanswered;
    json_t *record =
        provenance_record(&c->provenance, i < 0 ? "baseline_task" : "task", of->key, failure);
    json_object_del(record, "datasets");
    if (s->variant) {
        record_integer(record, "bits", s->variant->bits);
        json_object_set_new(record, "quantizer", json_string(s->variant->method.name));
    }
    json_object_set_new(record, "task", json_string(of->task));
    if (failure->code == OK) set_answers(record, r, s, of->task);
    return record;
}

/* --- the measures --- */

static const struct field baseline_fields[] = {
    {STATUS_FIELD("baseline_task_status")},
    {MESSAGE_FIELD("baseline_task_message")},

    {"accuracy", "baseline_accuracy", IN_VALUES, FIELD_REAL, STABLE, "1",
     "share of items that the full-precision model answers rightly"},
    {"accuracy_stderr", "baseline_accuracy_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "standard error of baseline_accuracy, over items"},
    {"accuracy_norm", "baseline_accuracy_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "the same with log-likelihoods divided by the characters of the choice"},
    {"accuracy_norm_stderr", "baseline_accuracy_norm_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "standard error of baseline_accuracy_norm, over items"},
    {"items", "baseline_items", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "items that are asked in full precision"},
    {"items_truncated", "baseline_items_truncated", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "items of which a prompt is longer than the model and loses tokens at its start"},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
};

static const struct field fields[] = {
    {STATUS_FIELD("task_status")},
    {MESSAGE_FIELD("task_message")},

    {"accuracy", "accuracy", IN_VALUES, FIELD_REAL, STABLE, "1",
     "share of items that the quantized model answers rightly"},
    {"accuracy_stderr", "accuracy_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "standard error of accuracy, over items"},
    {"accuracy_norm", "accuracy_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "accuracy with log-likelihoods divided by the characters of the choice"},
    {"accuracy_norm_stderr", "accuracy_norm_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "standard error of accuracy_norm, over items"},
    {"accuracy_delta", "accuracy_delta", IN_VALUES, FIELD_REAL, STABLE, "1",
     "accuracy of the quantized model minus that of the full-precision one"},
    {"accuracy_delta_stderr", "accuracy_delta_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "paired standard error of accuracy_delta, over items"},
    {"accuracy_degradation", "accuracy_degradation", IN_VALUES, FIELD_REAL, STABLE, "1",
     "accuracy lost, relative to the share of items answered wrongly in full precision"},
    {"items", "items", IN_VALUES, FIELD_INTEGER, STABLE, "1", "items that are asked"},
    {"items_lost", "items_lost", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "items that the full-precision model alone answers rightly"},
    {"items_gained", "items_gained", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "items that the quantized model alone answers rightly"},
    {"mcnemar_p", "mcnemar_p", IN_VALUES, FIELD_REAL, STABLE, "1",
     "two-sided p of McNemar's exact test of items_lost against items_gained"},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
};

/* The same columns in both kinds. */
static const struct field choices[] = {
    {"subject", "subject", IN_LIST, FIELD_TEXT, STABLE, NULL,
     "subject of the task; the task itself if it has none"},
    {"item", "item", IN_LIST, FIELD_INTEGER, STABLE, "1", "number of the item in its file"},
    {"choice", "choice", IN_LIST, FIELD_INTEGER, STABLE, "1", "number of the choice"},
    {"log_likelihood", "log_likelihood", IN_LIST, FIELD_REAL, STABLE, "nat",
     "log-likelihood of the choice"},
    {"tokens", "tokens", IN_LIST, FIELD_INTEGER, STABLE, "1", "tokens of the choice"},
    {"greedy", "greedy", IN_LIST, FIELD_INTEGER, STABLE, "1",
     "1: each of its tokens is the most likely one; 0: one is not"},
    {0},
};
static const struct record_table baseline_tables[] = {
    {"choices", "baseline_task_choices", choices},
    {0},
};
static const struct record_table tables[] = {
    {"choices", "task_choices", choices},
    {0},
};

static const struct measure_mean baseline_means[] = {
    {"baseline_accuracy", "baseline_accuracy_stderr", "baseline_accuracy_mean",
     "baseline_accuracy_mean_stderr", "1", "mean of baseline_accuracy over the tasks",
     "standard error of baseline_accuracy_mean, over items"},
    {0},
};
static const struct measure_mean means[] = {
    {"accuracy", "accuracy_stderr", "accuracy_mean", "accuracy_mean_stderr", "1",
     "mean of accuracy over the tasks", "standard error of accuracy_mean, over items"},
    {"accuracy_delta", "accuracy_delta_stderr", "accuracy_delta_mean", "accuracy_delta_mean_stderr",
     "1", "mean of accuracy_delta over the tasks",
     "paired standard error of accuracy_delta_mean, over items"},
    {"accuracy_degradation", NULL, "accuracy_degradation_mean", NULL, "1",
     "mean of accuracy_degradation over the tasks", NULL},
    {0},
};

/* One for each task; `of`: the key that they have in common. */
static enum status add_tasks(const struct axes *a, const char *of, struct row *row,
                             struct rows *out, struct err *e)
{
    const json_t *list = json_object_get(a->plan, axis_task.plan);
    for (int64_t t = 0; t < a->labels[AXIS_TASK].n; t++) {
        const char *key = json_text(json_array_get(list, (size_t)t), "key", NULL);
        NEED(key, ERR_FORMAT, "plan: \"tasks[].key\" is not a text");
        row->at[AXIS_TASK] = t;
        results_task_key(of, key, row->key);
        PASS(rows_add(out, row, e));
    }
    return OK;
}

static enum status key_of(const struct axes *a, int64_t m, int64_t c, const char **out,
                          struct err *e)
{
    *out = json_text(a->models[m].checkpoints[c].plan, "task_key", NULL);
    NEED(*out || a->labels[AXIS_TASK].n == 0, ERR_FORMAT,
         "plan: \"models[].checkpoints[].task_key\" is not a text");
    return OK;
}

static enum status add_baseline_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                                     struct err *e)
{
    struct row row = {.at = {m, c}};
    const char *key;
    PASS(key_of(a, m, c, &key, e));
    return add_tasks(a, key, &row, out, e);
}

static enum status add_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e)
{
    const char *key;
    PASS(key_of(a, m, c, &key, e));
    for (int64_t i = 0; key && i < a->n_variants; i++) {
        const struct axis_variant *v = &a->variants[i];
        struct row row = {.at = {m, c, v->bits_at, v->quantizer_at}};
        char cell[HASH_HEX];
        if (!v->applicable) continue;
        results_cell_key(key, axes_variant_key(a, m, i), cell);
        PASS(add_tasks(a, cell, &row, out, e));
    }
    return OK;
}

const struct measure measure_baseline_task = {
    .name = "baseline_task",
    .group = "baseline_tasks",
    .axes = {&axis_model, &axis_checkpoint, &axis_task},
    .fields = baseline_fields,
    .tables = baseline_tables,
    .add_rows = add_baseline_rows,
    .number = "baseline_task_row",
    .number_long_name = "row of the accuracy in baseline_tasks/",
    .axis_long_names = {"trajectory of the checkpoint", "name of the checkpoint", "task"},
    .means = baseline_means,
    .means_of = &measure_checkpoint,
    .report = REPORT_ALL,
    .prefix = "",
    .noun = "accuracies in full precision",
    .json = "baseline_tasks",
};

const struct measure measure_task = {
    .name = "task",
    .group = "tasks",
    .axes = {&axis_model, &axis_checkpoint, &axis_bits, &axis_quantizer, &axis_task},
    .fields = fields,
    .tables = tables,
    .add_rows = add_rows,
    .number = "task_row",
    .number_long_name = "row of the accuracy in tasks/",
    .axis_long_names = {"trajectory of the cell", "checkpoint of the cell", "bits of the cell",
                        "quantizer of the cell", "task"},
    .means = means,
    .means_of = &measure_cell,
    .report = REPORT_ALL,
    .prefix = "",
    .noun = "accuracies",
    .json = "tasks",
};
