/* A cube back into records: the plan lies in it as text, and each kind's data frame has the rows
 * that the kind finds in that plan, in its order. Numbers that later versions added are not missed
 * in the cubes of earlier ones. */
#include "results/h5.h"
#include "results/view.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One column that was read; data.any NULL: it is not there. */
struct column {
    enum field_type type;
    int64_t n;
    union cube_data data;
};

struct reader {
    const char *path;
    hid_t file;
    struct axes axes;
    struct results_view *view;
    struct column sequences;
};

/* One of the tables, whose rows name their record; `at`: the next that was not taken. */
struct table_reader {
    int64_t n, at;
    struct column number, *columns; // (fields of the table)
};

/* One kind while it is read. */
struct frame_reader {
    const struct kind *kind;
    struct rows rows;
    struct column *fields; // (fields of the kind)
    struct column start, count;
    struct column part_names, *parts; // (fields of the list)
    struct table_reader *tables;      // (tables of the kind)
};

/* --- columns --- */

static void column_free(struct column *c)
{
    h5_free_data(&c->data, c->type, c->n);
}

static enum status read_column(const struct reader *r, const char *group, const char *name,
                               enum field_type type, int64_t n, struct column *out, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    TRY(mem_format(&path, e, "%s/%s", group, name));
    TRY(h5_read(r->file, r->path, path, type, n, &out->data, e));
    out->type = type;
    out->n = n;
done:
    free(path);
    return st;
}

static int64_t count_fields(const struct field *fields)
{
    int64_t n = 0;
    while (fields[n].name) n++;
    return n;
}

static void columns_free(struct column *columns, const struct field *fields)
{
    for (int64_t i = 0; columns && i < count_fields(fields); i++) column_free(&columns[i]);
    free(columns);
}

/* Those that records have, n rows each. *out is freed with columns_free. */
static enum status read_columns(const struct reader *r, const char *group,
                                const struct field *fields, int64_t n, struct column **out,
                                struct err *e)
{
    PASS(mem_zero(out, count_fields(fields), sizeof **out, "columns", e));
    for (int64_t i = 0; fields[i].name; i++) {
        const struct field *f = &fields[i];
        bool number = f->place == IN_VALUES || f->place == IN_INNER || f->place == IN_LIST;
        if (f->place == IN_LABELS || f->place == IN_PROVENANCE || f->place == FRAME_KEY) continue;
        if (number && !h5_has(r->file, group, f->variable)) continue;
        PASS(read_column(r, group, f->variable, f->type, n, &(*out)[i], e));
    }
    return OK;
}

static const char *text_at(const struct column *c, int64_t i)
{
    return c->data.t[i] ? c->data.t[i] : "";
}

/* Value i as records have it. */
static json_t *value_at(const struct column *c, int64_t i)
{
    if (c->type == FIELD_TEXT) return json_string(text_at(c, i));
    if (c->type == FIELD_INTEGER) return json_integer((json_int_t)c->data.i[i]);
    return json_number_new(c->data.d[i]);
}

/* Sets object[name] to a number of the cube, if that says anything. */
static void set_number(json_t *object, const char *name, const struct column *c, int64_t i)
{
    if (!c->data.any) return;
    if (c->type == FIELD_INTEGER ? c->data.i[i] >= 0 : !isnan(c->data.d[i]))
        json_object_set_new(object, name, value_at(c, i));
}

/* --- a kind's columns --- */

static enum status read_list(const struct reader *r, struct frame_reader *f, struct err *e)
{
    const struct record_list *l = f->kind->list;
    int64_t n;
    PASS(h5_count(r->file, r->path, l->group, l->axis, &n, e));
    PASS(read_column(r, l->group, l->axis, FIELD_TEXT, n, &f->part_names, e));
    return read_columns(r, l->group, l->fields, f->rows.n_records * n, &f->parts, e);
}

static enum status read_tables(const struct reader *r, struct frame_reader *f, struct err *e)
{
    const struct record_table *table = f->kind->tables;
    int64_t n = 0;
    while (table[n].name) n++;
    PASS(mem_zero(&f->tables, n, sizeof *f->tables, "tables", e));
    for (struct table_reader *t = f->tables; table->name; table++, t++) {
        PASS(h5_count(r->file, r->path, table->group, f->kind->number, &t->n, e));
        PASS(read_column(r, table->group, f->kind->number, FIELD_INTEGER, t->n, &t->number, e));
        PASS(read_columns(r, table->group, table->columns, t->n, &t->columns, e));
    }
    return OK;
}

static enum status read_frame(const struct reader *r, struct frame_reader *f, struct err *e)
{
    const struct kind *k = f->kind;
    PASS(read_columns(r, k->group, k->fields, f->rows.n, &f->fields, e));
    if (k->sequences) {
        PASS(read_column(r, k->group, "sequence_start", FIELD_INTEGER, f->rows.n, &f->start, e));
        PASS(read_column(r, k->group, "sequence_count", FIELD_INTEGER, f->rows.n, &f->count, e));
    }
    if (k->list) PASS(read_list(r, f, e));
    if (k->tables) PASS(read_tables(r, f, e));
    return OK;
}

static void frame_free(struct frame_reader *f)
{
    const struct kind *k = f->kind;
    columns_free(f->fields, k->fields);
    column_free(&f->start);
    column_free(&f->count);
    column_free(&f->part_names);
    if (k->list) columns_free(f->parts, k->list->fields);
    for (int64_t i = 0; f->tables && k->tables[i].name; i++) {
        column_free(&f->tables[i].number);
        columns_free(f->tables[i].columns, k->tables[i].columns);
    }
    free(f->tables);
    rows_free(&f->rows);
}

/* --- records --- */

/* Sets what row i says of one place in the record. */
static void set_numbers(const struct frame_reader *f, enum field_place place, int64_t i,
                        json_t *object)
{
    for (int64_t k = 0; f->kind->fields[k].name; k++)
        if (f->kind->fields[k].place == place)
            set_number(object, f->kind->fields[k].name, &f->fields[k], i);
}

static enum status add_inner(const struct reader *r, const struct frame_reader *f, int64_t i,
                             json_t *record, struct err *e)
{
    enum status st = OK;
    const char *label = NULL;
    json_t *numbers = json_object(), *list = NULL;
    ENSURE(numbers, ERR_NOMEM, "out of memory for a record");
    row_label(&f->rows, &f->rows.rows[i], axis_place_of(f->kind->inner), &label, NULL);
    set_numbers(f, IN_INNER, i, numbers);
    if (f->kind->sequences) {
        int64_t start = f->start.data.i[i], n = f->count.data.i[i];
        ENSURE(start >= 0 && n >= 0 && start <= r->sequences.n && n <= r->sequences.n - start,
               ERR_FORMAT, "%s: %s/sequence_start: row %lld points behind sequences/loss", r->path,
               f->kind->group, (long long)i);
        if (n > 0) {
            ENSURE(list = json_numbers_new(r->sequences.data.d + start, n), ERR_NOMEM,
                   "out of memory for a record");
            json_object_set_new(numbers, "sequence_loss", list);
        }
    }
    if (label && json_object_size(numbers) > 0) json_object_set(record, label, numbers);
done:
    json_decref(numbers);
    return st;
}

static json_t *list_of(const struct frame_reader *f, int64_t number)
{
    const struct record_list *l = f->kind->list;
    int64_t n = f->part_names.n;
    json_t *out = json_array();
    for (int64_t i = 0; out && i < n; i++) {
        json_t *part = json_pack("{s:s}", l->label, text_at(&f->part_names, i));
        for (int64_t k = 0; l->fields[k].name; k++)
            set_number(part, l->fields[k].name, &f->parts[k], number * n + i);
        if (json_object_size(part) > 1)
            json_array_append_new(out, part);
        else
            json_decref(part);
    }
    return out;
}

/* {COLUMN: [...]} of a record, NaN included; NULL: it has no rows there. */
static json_t *table_of(const struct record_table *table, struct table_reader *t, int64_t number)
{
    json_t *out = json_object();
    int64_t from, to;
    while (t->at < t->n && t->number.data.i[t->at] < number) t->at++;
    from = to = t->at;
    while (to < t->n && t->number.data.i[to] == number) to++;
    t->at = to;
    for (int64_t k = 0; out && to > from && table->columns[k].name; k++) {
        json_t *list = json_array();
        if (!t->columns[k].data.any) continue;
        for (int64_t i = from; i < to; i++)
            json_array_append_new(list, value_at(&t->columns[k], i));
        json_object_set_new(out, table->columns[k].name, list);
    }
    if (json_object_size(out) > 0) return out;
    json_decref(out);
    return NULL;
}

static enum status add_long_ones(struct frame_reader *f, int64_t number, json_t *record,
                                 struct err *e)
{
    const struct record_table *tables = f->kind->tables;
    json_t *all = tables ? json_object() : NULL;
    for (int64_t i = 0; tables && tables[i].name; i++) {
        json_t *one = table_of(&tables[i], &f->tables[i], number);
        if (one) json_object_set_new(all, tables[i].name, one);
    }
    if (tables)
        NEED(json_object_set_new(record, "tables", all) == 0, ERR_NOMEM,
             "out of memory for a record");
    if (f->kind->list)
        NEED(json_object_set_new(record, f->kind->list->name, list_of(f, number)) == 0, ERR_NOMEM,
             "out of memory for a record");
    return OK;
}

/* What stands in the record itself, and its provenance. */
static enum status set_texts(const struct reader *r, const struct frame_reader *f, int64_t i,
                             json_t *record, struct err *e)
{
    json_t *value;
    for (int64_t k = 0; f->kind->fields[k].name; k++) {
        const struct field *field = &f->kind->fields[k];
        const struct column *c = &f->fields[k];
        if (!c->data.any || (field->type != FIELD_TEXT && field->type != FIELD_STATUS)) continue;
        if (field->type == FIELD_STATUS)
            value = json_string(result_state_words[c->data.s[i]]);
        else if (field->place != FRAME_JSON)
            value = json_string(text_at(c, i));
        else if (!text_at(c, i)[0])
            continue;
        else
            PASS(json_read_text(r->path, text_at(c, i), strlen(text_at(c, i)), &value, e));
        NEED(json_object_set_new(record, field->name, value) == 0, ERR_FORMAT,
             "%s: %s/%s: row %lld does not make a record", r->path, f->kind->group, field->variable,
             (long long)i);
    }
    return OK;
}

/* The record of rows i to before next. */
static enum status add_record(const struct reader *r, struct frame_reader *f, int64_t i,
                              int64_t next, struct err *e)
{
    enum status st = OK;
    const struct row *row = &f->rows.rows[i];
    json_t *record =
        json_pack("{s:s, s:s, s:{}}", "type", f->kind->name, "key", row->key, "values");
    ENSURE(record, ERR_FORMAT, "%s: %s: row %lld does not make a record", r->path, f->kind->group,
           (long long)i);
    TRY(row_identify(&f->rows, row, record, e));
    TRY(set_texts(r, f, i, record, e));
    set_numbers(f, IN_VALUES, i, json_object_get(record, "values"));
    if (f->kind->inner) {
        json_t *inner = json_object();
        ENSURE(json_object_set_new(record, f->kind->inner->plan, inner) == 0, ERR_NOMEM,
               "out of memory for a record");
        for (; i < next; i++) TRY(add_inner(r, f, i, inner, e));
    }
    TRY(add_long_ones(f, row->number, record, e));
    TRY(view_add(r->view, record, e));
done:
    json_decref(record);
    return st;
}

/* The column of the states. */
static enum status find_states(const struct reader *r, const struct frame_reader *f,
                               const uint8_t **out, struct err *e)
{
    int64_t k = 0;
    while (f->kind->fields[k].type != FIELD_STATUS) k++;
    *out = f->fields[k].data.s;
    for (int64_t i = 0; i < f->rows.n; i++)
        NEED((*out)[i] < STATE_N, ERR_FORMAT, "%s: %s/%s: row %lld holds %d", r->path,
             f->kind->group, f->kind->fields[k].variable, (long long)i, (*out)[i]);
    return OK;
}

static enum status read_kind(const struct reader *r, const struct kind *k, struct err *e)
{
    enum status st = OK;
    struct frame_reader f = {.kind = k};
    const uint8_t *states;
    TRY(rows_make(k, &r->axes, NULL, &f.rows, e));
    if (f.rows.n == 0) goto done;
    TRY(read_frame(r, &f, e));
    TRY(find_states(r, &f, &states, e));
    for (int64_t i = 0, next; i < f.rows.n; i = next) {
        next = rows_next(&f.rows, i);
        if (states[i] != STATE_PENDING) TRY(add_record(r, &f, i, next, e));
    }
done:
    frame_free(&f);
    return st;
}

/* --- the file --- */

static enum status read_json(const struct reader *r, const char *name, json_t **out, struct err *e)
{
    enum status st = OK;
    struct column c = {0};
    *out = NULL;
    TRY(read_column(r, "provenance", name, FIELD_TEXT, 1, &c, e));
    const char *text = text_at(&c, 0);
    if (text[0]) TRY(json_read_text(r->path, text, strlen(text), out, e));
done:
    column_free(&c);
    return st;
}

static enum status read_all(struct reader *r, struct err *e)
{
    enum status st = OK;
    json_t *plan = NULL, *end = NULL;
    int64_t n;
    TRY(read_json(r, "plan", &plan, e));
    ENSURE(plan, ERR_FORMAT, "%s: provenance/plan is empty", r->path);
    TRY(view_add(r->view, plan, e));
    TRY(axes_of_plan(results_view_plan(r->view), &r->axes, e));
    TRY(h5_count(r->file, r->path, "sequences", "loss", &n, e));
    TRY(read_column(r, "sequences", "loss", FIELD_REAL, n, &r->sequences, e));
    for (int i = 0; results_kinds[i]; i++) TRY(read_kind(r, results_kinds[i], e));
    TRY(read_json(r, "end", &end, e));
    if (end) TRY(view_add(r->view, end, e));
done:
    json_decref(plan);
    json_decref(end);
    return st;
}

/* Whether it is a cube, and of this program's schema. */
static enum status check_schema(const struct reader *r, struct err *e)
{
    enum status st = OK;
    hid_t attribute = -1;
    int64_t schema = 0;
    ENSURE(H5Aexists(r->file, "schema_version") > 0, ERR_FORMAT,
           "%s: an HDF5 file, but not a results cube of qtraj", r->path);
    attribute = H5Aopen(r->file, "schema_version", H5P_DEFAULT);
    H5_ENSURE(attribute >= 0 && H5Aread(attribute, H5T_NATIVE_INT64, &schema) >= 0, ERR_FORMAT,
              r->path, "schema_version");
    ENSURE(schema == CUBE_SCHEMA, ERR_FORMAT,
           "%s: cube schema %lld, this program reads %d; qtraj rebuild makes it again from its "
           "journal",
           r->path, (long long)schema, CUBE_SCHEMA);
done:
    if (attribute >= 0) H5Aclose(attribute);
    return st;
}

enum status cube_read(const char *path, struct results_view **out, struct err *e)
{
    enum status st = OK;
    struct h5_errors saved;
    struct reader r = {.path = path, .file = -1};
    char *data = NULL;
    size_t n;
    h5_quiet(&saved);
    TRY(view_new(&r.view, e));
    TRY(fsx_read(path, 0, &data, &n, e));
    TRY(h5_open_image(path, data, n, &r.file, e));
    TRY(check_schema(&r, e));
    TRY(read_all(&r, e));
    *out = r.view;
    r.view = NULL;
done:
    if (r.file >= 0) H5Fclose(r.file);
    free(data);
    results_view_close(r.view);
    axes_free(&r.axes);
    column_free(&r.sequences);
    h5_loud(&saved);
    return st;
}
