/* Accuracies on a multiple-choice task: in full precision of one (model, checkpoint), and quantized
 * of one (model, checkpoint, bits, quantizer), beside those of the checkpoint. Records of their
 * own, so that a task can be added to finished results. The cells' run scores them. */
#include "engine/inputs.h"
#include "engine/visit_internal.h"
#include "plan/plan.h"
#include "records/rows.h"
#include "task/task_summary.h"
#include "util/mem.h"
#include "util/num.h"

/* --- their keys of the sweep file --- */

/* Multiple-choice tasks (docs/tasks.md) that are scored beside the texts. */
struct tasks_section {
    char *names;          /* one a line; NULL: none */
    char *data;           /* folder of their data */
    int64_t shots, limit; /* examples before each question; items of each task, 0: all */
    bool log_likelihoods; /* those of all choices are kept */
};

static const struct option section_keys[] = {
    OPTION(tasks_section, names, TEXTS,
           "multiple-choice tasks as lm-evaluation-harness names them (qtraj tasks); mmlu is one, "
           "all its subjects",
           .required = true),
    OPTION(tasks_section, data, PATH, "folder of the tasks' data (docs/tasks.md)",
           .required = true),
    OPTION(tasks_section, shots, INT, "solved examples before each question", .fallback = "5",
           .low = 0, .high = 1000),
    OPTION(tasks_section, limit, INT,
           "items of each task, or of each of its subjects: the first ones", .unit = "items",
           .fallback = "all", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(0, "all")),
    OPTION(tasks_section, log_likelihoods, BOOL,
           "keep the log-likelihood of each choice of each item; many numbers",
           .fallback = "false"),
};

/* No name twice. */
static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const struct tasks_section *t = entry;
    for (const char *a = t->names; *a; a += strcspn(a, "\n"), a += *a == '\n')
        for (const char *b = t->names; b < a; b += strcspn(b, "\n") + 1) {
            const size_t n = strcspn(a, "\n");
            if (n == strcspn(b, "\n") && strncmp(a, b, n) == 0)
                return options_fail(scope, "names", e, "%.*s is named twice", (int)n, a);
        }
    return OK;
}

static bool absent(const void *entry)
{
    const struct tasks_section *t = entry;
    return !t->names;
}

static const struct option_table section_table = {OPTION_ROWS(section_keys, tasks_section),
                                                  .finish = finish, .absent = absent};
static const struct option keys[] = {
    {.name = "tasks",
     .doc = "multiple-choice tasks whose accuracy is measured beside the losses, in the same pass",
     .type = OPTION_GROUP,
     .otherwise = "none",
     .table = &section_table},
};

static const struct tasks_section *section_of(const struct sweep *s)
{
    return s->sections[MEASURE_task];
}

static bool names_tokens(const struct sweep *s)
{
    return !absent(section_of(s));
}

/* --- in a plan --- */

/* What is asked of a task: the plan's `own` is an array of them, in the order of its records. */
struct planned_task {
    int64_t items;
    double bytes;
};

/* Surveys the data; without them a plan that looks ahead goes on. */
static enum status summarize(struct plan *p, const char *name, struct task_summary *out,
                             struct err *e)
{
    const struct tasks_section *t = section_of(p->sweep);
    const struct prompts_choice choice = {t->data, t->shots, t->limit};
    struct err own = {0};
    const enum status st = task_summarize(name, &choice, p->inputs, out, &own);
    if (st == OK) return OK;
    if (!p->look_ahead || st != ERR_IO) RAISE(st, "tasks: %s", own.text);
    *out = (struct task_summary){0};
    return plan_without(p, own.text, e);
}

static enum status add_task(struct plan *p, const char *name, struct planned_task *to,
                            struct err *e)
{
    const struct tasks_section *t = section_of(p->sweep);
    struct task_summary found;
    PASS(summarize(p, name, &found, e));
    *to = (struct planned_task){found.items, found.bytes};
    PASS(
        plan_add_record(p, MEASURE_task, MEASURE_baseline_task, name,
                        json_pack("{s:s, s:I, s:I, s:s, s:s*}", "task", name, "shots",
                                  (json_int_t)t->shots, "limit", (json_int_t)t->limit, "data",
                                  found.hash, "log_likelihoods", t->log_likelihoods ? "all" : NULL),
                        e));
    json_array_append_new(
        json_object_get(p->lists, axis_task.plan),
        json_pack("{s:s, s:s}", "name", name, "key", p->records[p->n_records - 1].key));
    return OK;
}

static enum status plan_tasks(struct plan *p, struct err *e)
{
    const struct tasks_section *t = section_of(p->sweep);
    AUTO_FREE char *list = NULL;
    char *rest = NULL;
    struct planned_task *all;
    int64_t n = 1;
    if (absent(t)) return OK;
    for (const char *c = t->names; *c; c++) n += *c == '\n';
    PASS(mem_zero(&all, n, sizeof *all, "tasks", e));
    p->own[MEASURE_task] = all;
    json_object_set_new(p->lists, axis_task.plan, json_array());
    PASS(mem_string(&list, t->names, e));
    for (char *name = strtok_r(list, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
        PASS(add_task(p, name, all++, e));
    return OK;
}

static enum status describe(const struct plan *p, struct visit *v, struct err *e)
{
    const struct tasks_section *t = section_of(p->sweep);
    if (absent(t)) return OK;
    PASS(mem_string(&v->requests.tasks, t->names, e));
    PASS(mem_string(&v->requests.folder, t->data, e));
    v->requests.shots = t->shots;
    v->requests.limit = t->limit;
    v->log_likelihoods = t->log_likelihoods;
    return OK;
}

/* Bytes of English text in a token, as the estimates for texts assume (memory/cost_tokens.c), and
 * items that are tokenized for an estimate. */
static const double bytes_per_token = 4.5;
enum { SAMPLE = 16 };

static struct cost_tokens tokens_of(const struct plan *p, char *name, const struct planned_task *a,
                                    const struct visit *v, struct visit_cache *cache)
{
    const struct tasks_section *t = section_of(p->sweep);
    struct visit asked = v ? *v : (struct visit){0}; /* shallow */
    struct visit_inputs in;
    asked.requests = (struct requests_options){
        .tasks = name,
        .folder = t->data,
        .shots = t->shots,
        .limit = t->limit ? min64(t->limit, SAMPLE) : SAMPLE,
    };
    if (v && a->items > 0 && visit_inputs_get(cache, &asked, &in, NULL) == OK) {
        struct cost_tokens c = cost_tokens_count(in.evaluation);
        const double share = (double)a->items / (double)in.requests->n_items;
        c.tokens *= share;
        c.squares *= share;
        c.sequences = max64(1, (int64_t)((double)c.sequences * share));
        c.guessed = in.requests->n_items < a->items;
        return c;
    }
    const double tokens = a->bytes / bytes_per_token;
    return (struct cost_tokens){.tokens = tokens,
                                .squares = tokens * REQUESTS_PACK / 4,
                                .sequences = 1 + (int64_t)(tokens / REQUESTS_PACK),
                                .longest = REQUESTS_PACK,
                                .guessed = true};
}

static struct cost_tokens tokens(const struct plan *p, const struct visit *v,
                                 struct visit_cache *cache)
{
    const struct planned_task *next = p->own[MEASURE_task];
    struct cost_tokens sum = {0};
    for (int64_t i = 0; i < p->n_records; i++) {
        if (p->records[i].of_cell != MEASURE_task) continue;
        const struct cost_tokens t = tokens_of(p, p->records[i].label, next++, v, cache);
        cost_tokens_add(&sum, &t);
    }
    return sum;
}

static void set_answers(json_t *record, const struct run *r, const struct stream *s,
                        const char *task)
{
    const struct requests *q = r->inputs.requests;
    json_t *values = json_object_get(record, "values");
    const struct answers full = streams_answers(r, &r->full), own = streams_answers(r, s);
    const struct accuracy x = accuracy_of(q, &own, task);
    record_number(values, "accuracy", x.accuracy);
    record_number(values, "accuracy_stderr", x.error);
    record_number(values, "accuracy_norm", x.norm);
    record_number(values, "accuracy_norm_stderr", x.norm_error);
    record_integer(values, "items", x.items);
    if (s->variant) {
        const struct accuracy_change change = accuracy_compare(q, &full, &own, task);
        record_number(values, "accuracy_delta", change.change);
        record_number(values, "accuracy_delta_stderr", change.error);
        record_number(values, "accuracy_degradation", change.degradation);
        record_integer(values, "items_lost", change.lost);
        record_integer(values, "items_gained", change.gained);
        record_number(values, "mcnemar_p", change.p);
    } else
        record_integer(values, "items_truncated", x.truncated);
    if (r->visit->log_likelihoods)
        json_object_set_new(record, "tables",
                            json_pack("{s:o}", "choices", answers_table(q, &own, task)));
}

json_t *record_accuracy(const struct part_context *c, const struct run *r, int64_t i,
                        const struct wanted *of, const struct err *failure)
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
    json_object_set_new(record, "task", json_string(of->label));
    if (failure->code == OK) set_answers(record, r, s, of->label);
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

    RECORD_FIELDS,
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

    RECORD_FIELDS,
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

static enum status add_baseline_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                                     struct err *e)
{
    struct row row = {.at = {m, c}};
    return add_tasks(a, axes_scoreless_key(a, m, c), &row, out, e);
}

static enum status add_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e)
{
    for (int64_t i = 0; i < a->n_variants; i++) {
        const struct axis_variant *v = &a->variants[i];
        struct row row = {.at = {m, c, v->bits_at, v->quantizer_at}};
        char cell[HASH_HEX];
        if (!v->applicable) continue;
        results_cell_key(axes_scoreless_key(a, m, c), axes_variant_key(a, m, i), cell);
        PASS(add_tasks(a, cell, &row, out, e));
    }
    return OK;
}

const struct measure measure_baseline_task = {
    .name = "baseline_task",
    .scored = true,
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
    .section = {OPTION_ROWS(keys, tasks_section)},
    .names_tokens = names_tokens,
    .plan = plan_tasks,
    .plan_free = free,
    .describe = describe,
    .tokens = tokens,
    .text_name = "tasks",
    .scored = true,
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
