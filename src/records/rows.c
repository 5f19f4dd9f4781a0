/* The rows of a kind: which records a plan requests, and their states. */
#include "records/rows.h"
#include "records/scores.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <math.h>
#include <stdio.h>

/* On text i; *why is set unless it is that of the record. */
static enum result_state state_on(const struct rows *r, const struct row *row, int64_t i,
                                  const char **why)
{
    const enum result_state state = result_state_of(row->record);
    const char *text = axes_text_key(r->axes, row->at[AXIS_MODEL], i);
    const enum result_state own = text ? scores_state(row->record, text) : STATE_DONE;
    if (state != STATE_DONE || own == STATE_DONE) return state;
    *why = json_text(scores_find(row->record, text), "message", "");
    return own;
}

enum result_state row_state(const struct rows *r, const struct row *row, const char **message)
{
    enum result_state state = result_state_of(row->record);
    const char *why = json_text(row->record, "message", "");
    const bool has_texts = r->kind->inner == &axis_dataset && row->record;
    for (int64_t i = 0; has_texts && i < r->axes->labels[AXIS_DATASET].n && state == STATE_DONE;
         i++)
        state = state_on(r, row, i, &why);
    if (message) *message = why;
    return state;
}

enum result_state row_state_here(const struct rows *r, const struct row *row, const char **message)
{
    const char *why = json_text(row->record, "message", "");
    const int64_t text = row->at[AXIS_DATASET];
    const bool has_text = r->kind->inner == &axis_dataset && row->record && text >= 0;
    const enum result_state state =
        has_text ? state_on(r, row, text, &why) : result_state_of(row->record);
    if (message) *message = why;
    return state;
}

/* --- making rows --- */

enum status rows_add_part(struct rows *r, const char *name, const json_t *labels, struct err *e)
{
    PASS(mem_grow(&r->parts, r->n_parts, &r->parts_capacity, sizeof *r->parts, e));
    r->parts[r->n_parts++] = (struct rows_part){.name = name, .labels = labels};
    return OK;
}

enum status rows_add(struct rows *r, const struct row *like, struct err *e)
{
    struct row row = *like;
    const struct axis *inner = r->kind->inner, *within = r->kind->within;
    const int place = inner ? axis_place_of(inner) : 0, deep = within ? axis_place_of(within) : 0;
    const int64_t n = inner ? r->axes->labels[place].n : 0;
    const int64_t m = within ? r->axes->labels[deep].n : 1;
    for (int i = 0; i < AXES_MAX; i++) {
        const struct axis *axis = results_axes[i];
        if (!axis || axis == inner || axis == within || !measure_has_axis(r->kind, axis))
            row.at[i] = -1;
    }
    row.number = r->n_records++;
    row.part = r->n_parts - 1;
    for (int64_t i = 0; i < n * m || i == 0; i++) {
        PASS(mem_grow(&r->rows, r->n, &r->capacity, sizeof *r->rows, e));
        if (i < n * m) row.at[place] = i / m;
        if (within && i < n * m) row.at[deep] = i % m;
        r->rows[r->n++] = row;
        json_incref(row.labels);
    }
    return OK;
}

enum status rows_add_cells(struct rows *r, int64_t m, int64_t c, const char *base, const char *own,
                           struct err *e)
{
    const struct axes *a = r->axes;
    for (int64_t i = 0; i < a->n_variants; i++) {
        const struct axis_variant *v = &a->variants[i];
        struct row row = {.at = {m, c, v->bits_at, v->quantizer_at}};
        char cell[HASH_HEX];
        r->parts[m].not_applicable += !v->applicable;
        if (!v->applicable) continue;
        results_cell_key(base, axes_variant_key(a, m, i), own ? cell : row.key);
        if (own) results_task_key(cell, own, row.key);
        PASS(rows_add(r, &row, e));
    }
    return OK;
}

static enum status add_of(struct rows *r, int64_t m, int64_t c, struct err *e)
{
    if (r->kind->plan_key) {
        const char *key =
            json_text(r->axes->models[m].checkpoints[c].plan, r->kind->plan_key, NULL);
        struct row row = {.at = {m, c}};
        r->parts[m].not_applicable += !key;
        if (!key) return OK;
        snprintf(row.key, sizeof row.key, "%s", key);
        return rows_add(r, &row, e);
    }
    if (!r->kind->cell_key) return r->kind->add_rows(r->axes, m, c, r, e);
    const char *own = json_text(json_object_get(r->axes->plan, PLAN_OF_CELLS), r->kind->name, NULL);
    return own ? rows_add_cells(r, m, c, axes_scoreless_key(r->axes, m, c), own, e) : OK;
}

enum status rows_make(const struct measure *k, const struct axes *a, const struct results_view *v,
                      struct rows *out, struct err *e)
{
    *out = (struct rows){.kind = k, .axes = a};
    if (!k->axes[0]) PASS(k->add_rows(a, -1, -1, out, e));
    for (int64_t m = 0; k->axes[0] && m < a->labels[AXIS_MODEL].n; m++) {
        PASS(rows_add_part(out, a->labels[AXIS_MODEL].texts[m], NULL, e));
        for (int64_t c = 0; c < a->models[m].n; c++) PASS(add_of(out, m, c, e));
    }
    for (int64_t i = 0; v && i < out->n; i++)
        out->rows[i].record = results_view_find(v, out->rows[i].key);
    return OK;
}

void rows_free(struct rows *r)
{
    for (int64_t i = 0; i < r->n; i++) json_decref(r->rows[i].labels);
    free(r->rows);
    free(r->parts);
    *r = (struct rows){0};
}

/* --- reading rows --- */

int64_t rows_next(const struct rows *r, int64_t i)
{
    int64_t next = i + 1;
    while (next < r->n && r->rows[next].number == r->rows[i].number) next++;
    return next;
}

void row_label(const struct rows *r, const struct row *row, int axis, const char **text,
               int64_t *number)
{
    const struct axis_labels *l = &r->axes->labels[axis];
    int64_t at = row->at[axis];
    if (at < 0) return;
    if (l->texts)
        *text = l->texts[at];
    else
        *number = l->numbers[at];
}

const struct axis_checkpoint *row_checkpoint(const struct rows *r, const struct row *row)
{
    return &r->axes->models[row->at[AXIS_MODEL]].checkpoints[row->at[AXIS_CHECKPOINT]];
}

enum status row_identify(const struct rows *r, const struct row *row, json_t *record, struct err *e)
{
    const struct measure *k = r->kind;
    for (int i = 0; k->identity && k->identity[i]; i++)
        json_object_set(record, k->identity[i], json_object_get(row->labels, k->identity[i]));
    for (int i = 0; k->axes[i]; i++) {
        const char *text = NULL;
        int64_t number = 0;
        row_label(r, row, axis_place_of(k->axes[i]), &text, &number);
        if (k->axes[i] == &axis_checkpoint) text = row_checkpoint(r, row)->name;
        json_object_set_new(record, k->axes[i]->name,
                            text ? json_string(text) : json_integer(number));
    }
    return json_whole(e);
}

const char *row_inner_label(const struct rows *r, const struct row *row, char number[ROW_NUMBER])
{
    const int axis = axis_place_of(r->kind->inner);
    const char *label = NULL;
    int64_t value = 0;
    if (row->at[axis] < 0) return NULL;
    if (axis == AXIS_DATASET) label = axes_text_key(r->axes, row->at[AXIS_MODEL], row->at[axis]);
    if (label) return label;
    row_label(r, row, axis, &label, &value);
    if (!label) snprintf(number, ROW_NUMBER, "%lld", (long long)value);
    return label ? label : number;
}

const char *row_within_label(const struct rows *r, const struct row *row)
{
    const char *label = "";
    int64_t number;
    if (r->kind->within) row_label(r, row, axis_place_of(r->kind->within), &label, &number);
    return label;
}

const json_t *row_object(const struct rows *r, const struct row *row, enum field_place place)
{
    const struct axis *inner = r->kind->inner;
    char number[ROW_NUMBER];
    if (place == IN_VALUES) return json_object_get(row->record, "values");
    if (place == IN_PROVENANCE) return json_object_get(row->record, "provenance");
    if (place != IN_INNER) return row->record;
    const char *label = row_inner_label(r, row, number);
    if (!label) return NULL;
    const json_t *own = json_object_get(json_object_get(row->record, inner->plan), label);
    return r->kind->within ? json_object_get(own, row_within_label(r, row)) : own;
}

const json_t *row_value(const struct rows *r, const struct row *row, const struct field *f)
{
    if (f->place != IN_LABELS) return json_object_get(row_object(r, row, f->place), f->name);
    const json_t *own = json_object_get(row->labels, f->name);
    return own ? own : json_object_get(r->parts[row->part].labels, f->name);
}

/* --- counting --- */

struct result_counts rows_count(const struct rows *r, int64_t part)
{
    struct result_counts out = {0};
    for (int64_t i = 0; i < r->n_parts; i++)
        if (part < 0 || part == i) out.by_state[STATE_NOT_APPLICABLE] += r->parts[i].not_applicable;
    for (int64_t i = 0; i < r->n; i = rows_next(r, i)) {
        const struct row *row = &r->rows[i];
        const char *message;
        if (part >= 0 && row->part != part) continue;
        const enum result_state state = row_state(r, row, &message);
        out.by_state[state]++;
        out.to_score += state == STATE_PENDING && result_state_of(row->record) == STATE_DONE;
        out.records += state != STATE_NOT_APPLICABLE;
        if (state == STATE_FAILED && !out.message) out.message = message;
    }
    return out;
}

struct result_convergence rows_convergence(const struct rows *r)
{
    struct result_convergence out = {0};
    const struct measure_iterated *k = r->kind->iterated;
    for (int64_t i = 0; k && i < r->n; i = rows_next(r, i)) {
        const json_t *values = json_object_get(r->rows[i].record, "values");
        double value = json_number_get(json_object_get(values, k->value));
        double converged = json_number_get(json_object_get(values, k->converged));
        if (result_state_of(r->rows[i].record) != STATE_DONE || isnan(value) || isnan(converged))
            continue;
        out.n++;
        if (converged != 0) continue;
        out.open++;
        double residual = json_number_get(json_object_get(values, k->residual)) / fabs(value);
        if (residual > out.residual) out.residual = residual;
    }
    return out;
}

/* --- all kinds --- */

enum status inventory_open(const json_t *plan, const struct results_view *v, struct inventory *out,
                           struct err *e)
{
    *out = (struct inventory){.plan = json_incref((json_t *)plan)};
    PASS(axes_of_plan(plan, &out->axes, e));
    for (int i = 0; recorded_measures[i]; i++)
        PASS(rows_make(recorded_measures[i], &out->axes, v, &out->rows[i], e));
    return OK;
}

/* The visit of the whole plan that a row's record comes from: visits are those of the checkpoints,
 * then one per point of a surface. */
static int64_t visit_of(const struct axes *a, const struct row *row)
{
    int64_t before = 0;
    const int64_t model = row->at[AXIS_MODEL], n = model < 0 ? a->labels[AXIS_MODEL].n : model;
    for (int64_t m = 0; m < n; m++) before += a->models[m].n;
    return before + (model < 0 ? row->number : row->at[AXIS_CHECKPOINT]);
}

struct result_counts inventory_count(const struct inventory *all, int64_t first, int64_t end)
{
    struct result_counts out = {0};
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &all->rows[k];
        for (int64_t i = 0; i < r->n; i = rows_next(r, i)) {
            const int64_t visit = visit_of(r->axes, &r->rows[i]);
            if (r->kind->report == REPORT_NONE || visit < first || visit >= end) continue;
            out.records++;
            out.by_state[row_state(r, &r->rows[i], NULL)]++;
        }
    }
    return out;
}

void inventory_cut(struct inventory *all, int64_t first, int64_t end)
{
    const struct axes *a = &all->axes;
    for (int k = 0; recorded_measures[k]; k++) {
        struct rows *r = &all->rows[k];
        int64_t n = 0, last = -1;
        r->n_records = 0;
        for (int64_t i = 0; i < r->n; i++) {
            struct row *row = &r->rows[i];
            const int64_t visit = visit_of(r->axes, row);
            if (visit < first || visit >= end) {
                json_decref(row->labels);
                continue;
            }
            r->n_records += row->number != last;
            last = row->number;
            r->rows[n++] = *row;
        }
        r->n = n;
        for (int64_t m = 0, at = 0; r->kind->axes[0] && m < r->n_parts; at += a->models[m++].n) {
            const int64_t from = max64(first - at, 0), to = min64(end - at, a->models[m].n);
            const int64_t kept = max64(to - from, 0);
            if (kept < a->models[m].n)
                r->parts[m].not_applicable = r->parts[m].not_applicable * kept / a->models[m].n;
        }
    }
}

void inventory_close(struct inventory *all)
{
    for (int i = 0; i < RECORDED_N; i++) rows_free(&all->rows[i]);
    axes_free(&all->axes);
    json_decref(all->plan);
    *all = (struct inventory){0};
}

void result_describe(const json_t *record, char *out, size_t size)
{
    static const char *const names[] = {"model", "checkpoint", "surface", "point", "quantizer"};
    int n = snprintf(out, size, "%s", json_text(record, "type", ""));
    for (size_t i = 0; i < sizeof names / sizeof *names && n < (int)size; i++)
        if (json_text(record, names[i], "")[0])
            n += snprintf(out + n, size - (size_t)n, " %s", json_text(record, names[i], ""));
    const json_t *bits = json_object_get(record, "bits");
    if (bits && n < (int)size)
        snprintf(out + n, size - (size_t)n, " %lld bits", (long long)json_integer_value(bits));
}

enum status results_warn_of_stale(const struct results_view *v, struct err *e)
{
    enum { MOST = 3 };
    CLEANUP(inventory_close) struct inventory all = {0};
    char named[900] = "", one[256];
    int64_t n = 0;
    if (!json_object_size(v->stale) || !v->plan) return OK;
    PASS(inventory_open(v->plan, v, &all, e));
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &all.rows[k];
        for (int64_t i = 0; i < r->n; i = rows_next(r, i)) {
            if (!json_object_get(v->stale, r->rows[i].key) || n++ >= MOST) continue;
            json_auto_t *record = json_pack("{s:s}", "type", r->kind->name);
            PASS(row_identify(r, &r->rows[i], record, e));
            result_describe(record, one, sizeof one);
            const size_t used = strlen(named);
            snprintf(named + used, sizeof named - used, "%s%s", used ? ", " : "", one);
        }
    }
    if (n > MOST) snprintf(one, sizeof one, " and %lld more", (long long)n - MOST);
    if (n)
        log_warn("%lld result%s left out, of weights that have changed since: %s%s; qtraj run "
                 "computes what is missing",
                 (long long)n, quantity_plural(n), named, n > MOST ? one : "");
    return OK;
}
