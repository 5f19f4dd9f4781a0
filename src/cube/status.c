/* The progress of a sweep, and why records failed. */
#include "cube/coming.h"
#include "cube/part_table.h"
#include "cube/results_report.h"
#include "cube/text_table.h"
#include "records/rows.h"
#include "util/mem.h"
#include <errno.h>

/* One record of a checkpoint. */
struct entry {
    const struct rows *rows;
    const struct row *row;
};

struct report {
    const struct results_view *view;
    const struct report_about *about;
    enum report_verdict verdict;
    struct inventory all;
    int64_t unpredicted;  /* records that are done but for the prediction asked for */
    struct texts changed; /* files, since the plan before, if anything is pending: a reason why */
    int64_t n;
    struct entry *entries; /* in the order of the plan; those of one checkpoint are contiguous */
    FILE *out;
};

static void report_free(struct report *r)
{
    texts_free(&r->changed);
    free(r->entries);
    inventory_close(&r->all);
}

/* Records that are done but lack the prediction (docs/decisions/0020) that the plan asks for:
 * cells', and critical sharpness also of checkpoints. */
static int64_t find_unpredicted(const struct report *r)
{
    const json_t *config = json_object_get(r->view->plan, "config");
    const json_t *curvature = json_object_get(config, "curvature");
    const bool critical = json_flag(curvature, "critical");
    const bool cells = critical || strcmp(json_text(curvature, "second_order", "none"), "none");
    int64_t n = 0;
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *rows = &r->all.rows[k];
        if (!(rows->kind->report == REPORT_MODELS ? cells : rows->kind->whole_grid && critical))
            continue;
        for (int64_t i = 0; i < rows->n; i = rows_next(rows, i)) {
            const json_t *record = rows->rows[i].record;
            n += result_state_of(record) == STATE_DONE &&
                 !json_text(json_object_get(record, "provenance"), "second_order", "")[0];
        }
    }
    return n;
}

/* --- counts as text --- */

/* Checkpoints of a model (part -1: of all). */
static int64_t count_checkpoints(const struct rows *rows, int64_t part)
{
    int64_t n = 0;
    for (int64_t m = 0; m < rows->n_parts; m++)
        if (part < 0 || part == m) n += rows->axes->models[m].n;
    return n;
}

static enum status print_models(const struct report *r, const struct rows *rows, struct err *e)
{
    const char *const heads[] = {"model",  "checkpoints", rows->kind->noun, "done",
                                 "failed", "pending",     "not applicable"};
    CLEANUP(table_free) struct table t = {.columns = 7, .left = 7, .align_left = {true}};
    table_add_texts(&t, heads);
    for (int64_t m = 0; m < rows->n_parts + (rows->n_parts != 1); m++) {
        const int64_t part = m < rows->n_parts ? m : -1;
        const struct result_counts n = rows_count(rows, part);
        const int64_t numbers[] = {count_checkpoints(rows, part), n.records,
                                   n.by_state[STATE_DONE],        n.by_state[STATE_FAILED],
                                   n.by_state[STATE_PENDING],     n.by_state[STATE_NOT_APPLICABLE]};
        table_add_row(&t);
        table_set(&t, 0, "%s", part < 0 ? "all" : rows->parts[part].name);
        for (int k = 0; k < 6; k++) table_set(&t, k + 1, "%lld", (long long)numbers[k]);
    }
    return table_print(&t, table_page_width(r->out), r->out, e);
}

static void print_one_line(const char *text, FILE *out)
{
    for (; *text; text++) putc((unsigned char)*text < ' ' ? ' ' : *text, out);
    putc('\n', out);
}

/* "curvature of checkpoints: 2 done, ..." or, of a part, "surface NAME: 2 points done, ...", and
 * why the first of its failed records did. */
static void print_line(const struct report *r, const struct rows *rows, int64_t part)
{
    const struct measure *k = rows->kind;
    struct result_counts n = rows_count(rows, part);
    if (part < 0)
        fprintf(r->out, "%s%s: %lld", k->prefix, k->noun, (long long)n.by_state[STATE_DONE]);
    else
        fprintf(r->out, "%s %s: %lld %.*s", k->part, rows->parts[part].name,
                (long long)n.by_state[STATE_DONE],
                (int)strlen(k->noun) - (n.by_state[STATE_DONE] == 1), k->noun);
    fprintf(r->out, " done, %lld failed, %lld pending\n", (long long)n.by_state[STATE_FAILED],
            (long long)n.by_state[STATE_PENDING]);
    if (part < 0 || !n.message) return;
    fprintf(r->out, "  failed: ");
    print_one_line(n.message, r->out);
}

/* --- messages --- */

/* Of that state and with that message, NULL: with any. A record that is done has one when a part of
 * it could not be found. */
static bool says(const struct entry *entry, enum result_state state, const char *message)
{
    const char *own;
    if (row_state(entry->rows, entry->row, &own) != state) return false;
    return message ? strcmp(own, message) == 0 : state == STATE_FAILED || own[0];
}

/* Which of its checkpoint's records it is: "gptq 3", "curvature"; "" of the checkpoint itself. */
static void print_which(const struct entry *entry, const char *before, FILE *out)
{
    const struct measure *k = entry->rows->kind;
    int n = 0;
    while (k->axes[n]) n++;
    if (k->whole_grid) return;
    fputs(before, out);
    if (n == 2) fputs(k->name, out);
    const char *text = NULL;
    int64_t number = 0;
    const bool replicate = n > 2 && k->axes[n - 1] == &axis_replicate;
    for (int i = n - 1 - replicate; i >= 2; i--) {
        text = NULL;
        row_label(entry->rows, entry->row, axis_place_of(k->axes[i]), &text, &number);
        fputs(i < n - 1 - replicate ? " " : "", out);
        if (text)
            fputs(text, out);
        else
            fprintf(out, "%lld", (long long)number);
    }
    if (!replicate) return;
    row_label(entry->rows, entry->row, AXIS_REPLICATE, &text, &number);
    fprintf(out, " replicate %lld", (long long)number);
}

/* One line a message: the checkpoint, those of its records that have it, and the message. */
static void print_message(const struct report *r, int64_t from, int64_t to, enum result_state state,
                          const char *message)
{
    const struct entry *first = &r->entries[from];
    const char *before = " (";
    fprintf(r->out, "  %s %s", r->all.axes.labels[AXIS_MODEL].texts[first->row->at[AXIS_MODEL]],
            row_checkpoint(first->rows, first->row)->name);
    for (int64_t i = from; i < to; i++) {
        const struct entry *entry = &r->entries[i];
        if (entry->rows->kind->whole_grid || !says(entry, state, message)) continue;
        print_which(entry, before, r->out);
        before = ", ";
    }
    fprintf(r->out, "%s: ", before[0] == ',' ? ")" : "");
    print_one_line(message, r->out);
}

static void print_messages(const struct report *r, enum result_state state, const char *head)
{
    bool any = false;
    for (int64_t from = 0, to; from < r->n; from = to) {
        const int64_t *at = r->entries[from].row->at;
        for (to = from; to < r->n && r->entries[to].row->at[AXIS_MODEL] == at[AXIS_MODEL] &&
                        r->entries[to].row->at[AXIS_CHECKPOINT] == at[AXIS_CHECKPOINT];)
            to++;
        for (int64_t i = from; i < to; i++) {
            const struct entry *entry = &r->entries[i];
            const char *message;
            bool said = false;
            if (!says(entry, state, NULL)) continue;
            row_state(entry->rows, entry->row, &message);
            for (int64_t k = from; k < i && !said; k++) said = says(&r->entries[k], state, message);
            if (said) continue;
            if (!any) fprintf(r->out, "%s:\n", head);
            any = true;
            print_message(r, from, to, state, message);
        }
    }
}

/* --- the run --- */

static bool runs(const struct report *r)
{
    return r->about->holder.held || r->about->parts_run ||
           (r->about->parts && part_table_runs(r->about->parts));
}

static enum report_verdict find_verdict(const struct report *r)
{
    int64_t pending = r->unpredicted, failed = 0;
    for (int k = 0; recorded_measures[k]; k++) {
        const struct result_counts n = rows_count(&r->all.rows[k], -1);
        if (recorded_measures[k]->report == REPORT_NONE) continue;
        pending += n.by_state[STATE_PENDING];
        failed += n.by_state[STATE_FAILED];
    }
    /* A run may be stopped when all is recorded, but not yet in the cube. */
    const char *end = json_text(r->view->end, "status", "");
    if (pending || runs(r) || strcmp(end, "stopped") == 0) return VERDICT_OPEN;
    return failed ? VERDICT_FAILED : VERDICT_DONE;
}

static void print_run(const struct report *r)
{
    const struct lock_holder *h = &r->about->holder;
    const json_t *end = r->view->end;
    if (end && !h->held)
        fprintf(r->out, "last run: %s at %s, exit code %lld\n", json_text(end, "status", "?"),
                json_text(end, "utc", "?"), (long long)json_int(end, "exit_code"));
    if (h->held)
        fprintf(r->out, "running on %s, pid %lld, since %s%s\n", h->host, (long long)h->pid, h->utc,
                h->certain ? "" : ", as far as its lock says");
    else if (r->about->parts_run)
        fprintf(r->out, "running in parts since it was merged; qtraj status SWEEP.yaml counts them "
                        "too\n");
    else if (r->verdict == VERDICT_OPEN)
        fprintf(r->out, "stopped%s\n", r->about->jobs ? "" : "; qtraj run goes on from here");
    else
        fprintf(r->out, "done%s\n", r->verdict == VERDICT_FAILED ? ", but in part failed" : "");
}

static json_t *run_json(const struct report *r)
{
    const struct lock_holder *h = &r->about->holder;
    const char *idle = r->verdict == VERDICT_OPEN ? "stopped" : "done";
    json_t *run =
        json_pack("{s:s, s:s*}", "state", runs(r) ? "running" : idle, "jobs", r->about->jobs);
    if (h->held)
        json_object_update_new(run, json_pack("{s:s, s:I, s:s, s:b}", "host", h->host, "pid",
                                              (json_int_t)h->pid, "since", h->utc, "certain",
                                              h->certain));
    return run;
}

static enum status print_text(const struct report *r, struct err *e)
{
    const json_t *plan = r->view->plan;
    fprintf(r->out, "%s, planned %s on %s by qtraj %s\n\n", json_text(plan, "name", ""),
            json_text(plan, "utc", ""), json_text(plan, "host", ""),
            json_text(plan, "version", ""));
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *rows = &r->all.rows[k];
        const enum measure_report form = rows->kind->report;
        if (form == REPORT_MODELS) PASS(print_models(r, rows, e));
        if (form == REPORT_ALL && rows->n) print_line(r, rows, -1);
        /* Those that count as pending only since they lack scores. */
        const int64_t n = rows_count(rows, -1).to_score;
        if (n)
            fprintf(r->out, "%lld of the pending %s %s finished but for scores on added texts\n",
                    (long long)n, rows->kind->noun, n == 1 ? "is" : "are");
        verdict_print(rows, "  ", r->out);
        for (int64_t i = 0; form == REPORT_PARTS && i < rows->n_parts; i++) print_line(r, rows, i);
    }
    if (r->unpredicted) fprintf(r->out, "predictions: %lld pending\n", (long long)r->unpredicted);
    for (int64_t i = 0; i < r->changed.n; i++)
        fprintf(r->out, "%s has changed: what was measured with it is computed again\n",
                r->changed.text[i]);
    putc('\n', r->out);
    print_messages(r, STATE_FAILED, "failed");
    print_messages(r, STATE_DONE, "done, but in part");
    if (r->about->parts)
        PASS(part_table_print(r->about->parts, &r->all, r->out, e));
    else
        print_run(r);
    if (r->about->jobs)
        fprintf(r->out, "Slurm jobs that wait or run: %s (squeue says when they start)\n",
                r->about->jobs);
    status_running_print(r->about, r->out);
    coming_print(r->about->coming, r->out);
    return OK;
}

/* --- JSON --- */

static json_t *counts_json(const struct result_counts *n)
{
    return json_pack("{s:I, s:I, s:I}", "done", (json_int_t)n->by_state[STATE_DONE], "failed",
                     (json_int_t)n->by_state[STATE_FAILED], "pending",
                     (json_int_t)n->by_state[STATE_PENDING]);
}

/* Of a part, of a model or (part -1) of all models. */
static json_t *part_json(const struct rows *rows, int64_t part)
{
    const bool models = rows->kind->report == REPORT_MODELS;
    const struct result_counts n = rows_count(rows, part);
    json_t *json = json_pack("{s:s}", models ? "model" : rows->kind->part,
                             part < 0 ? "all" : rows->parts[part].name);
    if (models)
        json_object_update_new(json, json_pack("{s:I, s:I}", "checkpoints",
                                               (json_int_t)count_checkpoints(rows, part),
                                               rows->kind->noun, (json_int_t)n.records));
    json_object_update_new(json, counts_json(&n));
    if (models)
        json_object_set_new(json, "not_applicable",
                            json_integer((json_int_t)n.by_state[STATE_NOT_APPLICABLE]));
    else if (n.message)
        json_object_set_new(json, "message", json_string(n.message));
    return json;
}

static void set_counts(const struct report *r, json_t *all)
{
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *rows = &r->all.rows[k];
        const struct measure *kind = rows->kind;
        const bool models = kind->report == REPORT_MODELS;
        if (kind->report == REPORT_ALL && rows->n) {
            const struct result_counts n = rows_count(rows, -1);
            const struct result_convergence c = rows_convergence(rows);
            json_t *json = counts_json(&n);
            if (c.n > 0)
                json_object_set_new(json, "not_converged", json_integer((json_int_t)c.open));
            if (c.n > 0) json_object_set_new(json, "residual", json_number_new(c.residual));
            json_object_set_new(all, kind->json, json);
        }
        if (models) json_object_set_new(all, "all", part_json(rows, -1));
        if (!models && (kind->report != REPORT_PARTS || !rows->n_parts)) continue;
        json_t *parts = json_array();
        for (int64_t i = 0; i < rows->n_parts; i++)
            json_array_append_new(parts, part_json(rows, i));
        json_object_set_new(all, models ? "models" : kind->json, parts);
    }
}

/* One object a record of that state that says something: which one it is, and what it says. */
static enum status messages_json(const struct report *r, enum result_state state, json_t *list,
                                 struct err *e)
{
    for (int64_t i = 0; i < r->n; i++) {
        const struct entry *entry = &r->entries[i];
        const struct measure *k = entry->rows->kind;
        const char *message;
        if (!says(entry, state, NULL)) continue;
        row_state(entry->rows, entry->row, &message);
        json_t *one = json_object();
        json_array_append_new(list, one);
        PASS(row_identify(entry->rows, entry->row, one, e));
        json_object_set_new(one, "message", json_string(message));
        if (!k->whole_grid && !k->axes[2]) json_object_set_new(one, k->name, json_true());
    }
    return OK;
}

/* Damaged, repeated and torn lines of the journal, and how the cube compares with it. */
static json_t *left_out_json(const struct report *r)
{
    static const char *const words[] = {
        [CUBE_CURRENT] = "current", [CUBE_OLDER] = "older",
        [CUBE_OTHER] = "other",     [CUBE_UNKNOWN] = "unknown",
        [CUBE_MISSING] = "missing", [CUBE_NOT_COMPARED] = "not compared"};
    const struct journal_damage d = r->view->damage;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "damaged_lines", (json_int_t)d.lines,
                     "first_damaged", (json_int_t)d.first, "repeated_lines", (json_int_t)d.repeated,
                     "first_repeated", (json_int_t)d.first_repeated, "torn_bytes",
                     (json_int_t)d.tail, "cube", words[r->about->cube], "cube_lacks",
                     (json_int_t)r->about->lacks);
}

static enum status print_json(const struct report *r, struct err *e)
{
    const json_t *plan = r->view->plan;
    json_t *failures = json_array(), *in_part = json_array();
    json_auto_t *paths = json_array();
    json_auto_t *all =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:O?}", "name", json_text(plan, "name", ""),
                  "version", json_text(plan, "version", ""), "utc", json_text(plan, "utc", ""),
                  "run", run_json(r), "left_out", left_out_json(r), "failures", failures, "in_part",
                  in_part, "end", r->view->end);
    NEED(all, ERR_NOMEM, "out of memory for the status");
    for (int64_t i = 0; i < r->changed.n; i++)
        json_array_append_new(paths, json_string(r->changed.text[i]));
    json_object_set(all, "changed", paths);
    json_object_set_new(all, "running", status_running_json(r->about));
    if (r->about->coming) json_object_set(all, "coming", (json_t *)r->about->coming);
    PASS(messages_json(r, STATE_FAILED, failures, e));
    PASS(messages_json(r, STATE_DONE, in_part, e));
    set_counts(r, all);
    if (r->about->parts)
        json_object_set_new(all, "parts", part_table_json(r->about->parts, &r->all));
    if (r->unpredicted)
        json_object_set_new(all, "predictions",
                            json_pack("{s:I}", "pending", (json_int_t)r->unpredicted));
    NEED(json_dumpf(all, r->out, JSON_INDENT(1)) == 0, ferror(r->out) ? ERR_FULL : ERR_NOMEM,
         "cannot write the status");
    putc('\n', r->out);
    return OK;
}

enum status report_status(const struct results_view *v, const struct report_about *about, bool json,
                          FILE *out, enum report_verdict *verdict, struct err *e)
{
    CLEANUP(report_free) struct report r = {.view = v, .about = about, .out = out};
    PASS(inventory_open(v->plan, v, &r.all, e));
    /* Collects the checkpoints' records of all kinds. */
    const struct axes *a = &r.all.axes;
    int64_t next[RECORDED_N] = {0}, most = 0;
    for (int k = 0; recorded_measures[k]; k++) most += r.all.rows[k].n_records;
    PASS(mem_zero(&r.entries, most, sizeof *r.entries, "records", e));
    for (int64_t m = 0; m < a->labels[AXIS_MODEL].n; m++)
        for (int64_t c = 0; c < a->models[m].n; c++)
            for (int k = 0; recorded_measures[k]; k++) {
                const struct rows *rows = &r.all.rows[k];
                while (next[k] < rows->n && rows->rows[next[k]].at[AXIS_MODEL] == m &&
                       rows->rows[next[k]].at[AXIS_CHECKPOINT] == c) {
                    r.entries[r.n++] = (struct entry){rows, &rows->rows[next[k]]};
                    next[k] = rows_next(rows, next[k]);
                }
            }
    r.unpredicted = find_unpredicted(&r);
    *verdict = r.verdict = find_verdict(&r);
    if (r.verdict == VERDICT_OPEN)
        PASS(results_view_changed(v->before, json_object_get(v->plan, "inputs"),
                                  json_object_get(v->plan, "grown"), &r.changed, e));
    PASS(json ? print_json(&r, e) : print_text(&r, e));
    NEED(fflush(out) == 0 && !ferror(out), ERR_FULL, "cannot write the status: %s",
         strerror(errno));
    return OK;
}
