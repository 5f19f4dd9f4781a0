/* Reads a cube back into records: it contains the plan as text, and each kind's data frame has the
 * rows that the kind enumerates for that plan, in order. Fields that later versions added are
 * optional. */
#include "cube/h5.h"
#include "records/view.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <math.h>

/* A variable that was read; n 0: an earlier version's cube without it. */
struct column {
    enum field_type type;
    int64_t n;
    union cube_data data;
};

struct reader {
    const char *path;
    enum view_content content;
    const struct texts *unwanted;
    hid_t file;
    struct axes axes;
    struct results_view *view;
    struct column sequences;
};

/* State of reading one kind. */
struct frame_reader {
    const struct reader *in;
    const struct measure *kind;
    struct rows rows;
    json_t *records; /* (rows.n_records); null: pending */
};

/* --- columns --- */

static void column_free(struct column *c)
{
    h5_free_data(&c->data, c->type, c->n);
    c->n = 0;
}

/* n: required number of elements, -1: any. *out is freed with column_free. */
static enum status read_column(const struct reader *r, const char *group, const char *name,
                               enum field_type type, int64_t n, struct column *out, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(mem_format(&path, e, "%s/%s", group, name));
    PASS(h5_read(r->file, r->path, path, type, &n, &out->data, e));
    out->type = type;
    out->n = n;
    return OK;
}

/* A text that only some records have. */
static bool is_optional(const struct field *f)
{
    return f->type == FIELD_TEXT && f->place == IN_RECORD && strcmp(f->name, "message") != 0;
}

static enum status read_field(const struct frame_reader *f, const char *group,
                              const struct field *field, int64_t n, struct column *out,
                              struct err *e)
{
    const enum field_place place = field->place;
    bool may_miss =
        place == IN_VALUES || place == IN_INNER || place == IN_LIST || is_optional(field);
    if (may_miss && !h5_has(f->in->file, group, field->variable)) return OK;
    return read_column(f->in, group, field->variable, field->type, n, out, e);
}

static const char *text_at(const struct column *c, int64_t i)
{
    return c->data.t[i] ? c->data.t[i] : "";
}

/* Element i in the form that records use. */
static json_t *value_at(const struct column *c, int64_t i)
{
    if (c->type == FIELD_TEXT) return json_string(text_at(c, i));
    if (c->type == FIELD_INTEGER) return json_integer((json_int_t)c->data.i[i]);
    return json_number_new(c->data.d[i]);
}

static bool is_missing(const struct column *c, int64_t i)
{
    if (c->type == FIELD_INTEGER) return c->data.i[i] < 0;
    return c->type == FIELD_REAL && isnan(c->data.d[i]);
}

/* --- records --- */

/* object[key], borrowed; made if it is missing. NULL: out of memory, or not an object. */
static json_t *member(json_t *object, const char *key, json_t *(*make)(void))
{
    json_t *found = json_object_get(object, key);
    if (found || json_object_set_new(object, key, make()) != 0) return found;
    return json_object_get(object, key);
}

static enum status make_record(struct frame_reader *f, int64_t i, enum result_state state,
                               struct err *e)
{
    const struct measure *k = f->kind;
    const struct row *row = &f->rows.rows[i];
    json_t *record = state == STATE_PENDING
                         ? json_null()
                         : json_pack("{s:s, s:s, s:s, s:{}}", "type", k->name, "key", row->key,
                                     "status", result_state_words[state], "values");
    NEED(json_array_append_new(f->records, record) == 0, ERR_FORMAT,
         "%s: %s: row %lld does not make a record", f->in->path, k->group, (long long)i);
    if (state == STATE_PENDING) return OK;
    /* Kinds with an inner axis have tables in some records only. */
    NEED((k->inner || !k->tables || member(record, "tables", json_object)) &&
             (!k->inner || member(record, k->inner->plan, json_object)) &&
             (!k->list || member(record, k->list->name, json_array)),
         ERR_NOMEM, "out of memory for a record");
    /* Only whole records need labels, which are known from the plan. */
    return f->in->content == VIEW_ALL ? row_identify(&f->rows, row, record, e) : OK;
}

static bool begins_record(const struct frame_reader *f, int64_t i)
{
    return i == 0 || f->rows.rows[i - 1].number != f->rows.rows[i].number;
}

/* Makes all records that are not pending, without values yet. */
static enum status make_records(struct frame_reader *f, struct err *e)
{
    const struct field *field = f->kind->fields;
    CLEANUP(column_free) struct column c = {0};
    while (field->type != FIELD_STATUS) field++;
    NEED(f->records = json_array(), ERR_NOMEM, "out of memory for records");
    PASS(read_field(f, f->kind->group, field, f->rows.n, &c, e));
    for (int64_t i = 0; i < c.n; i++) {
        NEED(c.data.s[i] < STATE_N, ERR_FORMAT, "%s: %s/%s: row %lld holds %d", f->in->path,
             f->kind->group, field->variable, (long long)i, c.data.s[i]);
        if (begins_record(f, i)) PASS(make_record(f, i, (enum result_state)c.data.s[i], e));
    }
    return OK;
}

/* The record of row i, or its object for the row's label of the inner axis; NULL: none. */
static json_t *object_of(const struct frame_reader *f, enum field_place place, int64_t i)
{
    const struct row *row = &f->rows.rows[i];
    const struct axis *inner = f->kind->inner;
    char number[ROW_NUMBER];
    json_t *record = json_array_get(f->records, (size_t)row->number);
    if (!json_is_object(record)) return NULL;
    if (place == IN_VALUES) return json_object_get(record, "values");
    if (place != IN_INNER) return record;
    const char *label = row_inner_label(&f->rows, row, number);
    if (!label) return NULL;
    json_t *own = member(json_object_get(record, inner->plan), label, json_object);
    return f->kind->within ? member(own, row_within_label(&f->rows, row), json_object) : own;
}

static enum status set_field(const struct frame_reader *f, const struct field *field,
                             const struct column *c, int64_t i, struct err *e)
{
    json_t *value = NULL;
    AUTO_FREE char *text = NULL;
    const bool json = field->place == FRAME_JSON;
    if (is_missing(c, i) || ((json || is_optional(field)) && !text_at(c, i)[0])) return OK;
    json_t *object = object_of(f, field->place, i);
    if (!object) return OK;
    if (json) { /* what the view wants of it */
        PASS(mem_string(&text, c->data.t[i], e));
        size_t n = strlen(text);
        if (f->in->unwanted->n) n = json_cut_members(text, n, texts_list(f->in->unwanted));
        PASS(json_read_text(f->in->path, text, n, &value, e));
    } else {
        value = value_at(c, i);
    }
    NEED(json_object_set_new(object, field->name, value) == 0, ERR_FORMAT,
         "%s: %s/%s: row %lld does not make a record", f->in->path, f->kind->group, field->variable,
         (long long)i);
    return OK;
}

static enum status add_sequences(const struct frame_reader *f, struct err *e)
{
    const struct column *all = &f->in->sequences;
    CLEANUP(column_free) struct column start = {0}, count = {0};
    const char *group = f->kind->group;
    PASS(read_column(f->in, group, "sequence_start", FIELD_INTEGER, f->rows.n, &start, e));
    PASS(read_column(f->in, group, "sequence_count", FIELD_INTEGER, f->rows.n, &count, e));
    for (int64_t i = 0; i < f->rows.n; i++) {
        int64_t from = start.data.i[i], n = count.data.i[i];
        NEED(from >= 0 && n >= 0 && from <= all->n && n <= all->n - from, ERR_FORMAT,
             "%s: %s/sequence_start: row %lld points beyond sequences/loss", f->in->path, group,
             (long long)i);
        json_t *object = n > 0 ? object_of(f, IN_INNER, i) : NULL;
        if (!object) continue;
        NEED(json_object_set_new(object, "sequence_loss",
                                 json_numbers_new(all->data.d + from, n)) == 0,
             ERR_NOMEM, "out of memory for a record");
    }
    return OK;
}

static enum status add_list(const struct frame_reader *f, struct err *e)
{
    const struct record_list *l = f->kind->list;
    CLEANUP(column_free) struct column names = {0}, c = {0};
    json_auto_t *parts = json_array(); /* (n_records, names) */
    PASS(read_column(f->in, l->group, l->axis, FIELD_TEXT, -1, &names, e));
    const int64_t n = f->rows.n_records * names.n;
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(parts, json_pack("{s:s}", l->label, text_at(&names, i % names.n)));
    for (const struct field *field = l->fields; field->name; field++) {
        PASS(read_field(f, l->group, field, n, &c, e));
        for (int64_t i = 0; i < c.n; i++)
            if (!is_missing(&c, i))
                json_object_set_new(json_array_get(parts, (size_t)i), field->name, value_at(&c, i));
        column_free(&c);
    }
    for (int64_t i = 0; i < n; i++) {
        json_t *part = json_array_get(parts, (size_t)i);
        const json_t *record = json_array_get(f->records, (size_t)(i / names.n));
        if (json_object_size(part) > 1) json_array_append(json_object_get(record, l->name), part);
    }
    return OK;
}

/* NaN included. */
static enum status add_table(const struct frame_reader *f, const struct record_table *t,
                             struct err *e)
{
    CLEANUP(column_free) struct column number = {0}, c = {0};
    /* Cubes of earlier versions lack some tables. */
    if (!h5_has(f->in->file, t->group, f->kind->number)) return OK;
    PASS(read_column(f->in, t->group, f->kind->number, FIELD_INTEGER, -1, &number, e));
    for (const struct field *field = t->columns; field->name; field++) {
        PASS(read_field(f, t->group, field, number.n, &c, e));
        for (int64_t i = 0; i < c.n; i++) {
            json_t *record = json_array_get(f->records, (size_t)number.data.i[i]);
            json_t *table = member(member(record, "tables", json_object), t->name, json_object);
            json_array_append_new(member(table, field->name, json_array), value_at(&c, i));
        }
        column_free(&c);
    }
    return OK;
}

static enum status add_columns(const struct frame_reader *f, struct err *e)
{
    const struct measure *k = f->kind;
    for (const struct field *field = k->fields; field->name; field++) {
        const enum field_place place = field->place;
        if (place == IN_LABELS || place == IN_PROVENANCE || place == FRAME_KEY) continue;
        if (place == IN_INNER && f->in->content == VIEW_STATES) continue;
        if ((place == IN_INNER || place == IN_VALUES) && texts_have(f->in->unwanted, field->name))
            continue;
        if (field->type != FIELD_STATUS) {
            CLEANUP(column_free) struct column c = {0};
            PASS(read_field(f, f->kind->group, field, f->rows.n, &c, e));
            for (int64_t i = 0; i < c.n; i++)
                if (field->place == IN_INNER || begins_record(f, i))
                    PASS(set_field(f, field, &c, i, e));
        }
    }
    if (f->in->content != VIEW_ALL) return OK;
    if (k->sequences) PASS(add_sequences(f, e));
    if (k->list) PASS(add_list(f, e));
    for (const struct record_table *t = k->tables; t && t->name; t++) PASS(add_table(f, t, e));
    return OK;
}

static enum status read_kind(const struct reader *r, const struct measure *k, struct err *e)
{
    enum status st = OK;
    struct frame_reader f = {.in = r, .kind = k};
    size_t i;
    json_t *record;
    TRY(rows_make(k, &r->axes, NULL, &f.rows, e));
    if (f.rows.n == 0) goto done;
    TRY(make_records(&f, e));
    TRY(add_columns(&f, e));
    json_array_foreach(f.records, i, record)
        if (json_is_object(record)) TRY(view_add(r->view, record, e));
done:
    json_decref(f.records);
    rows_free(&f.rows);
    return st;
}

/* --- the file --- */

static enum status read_json(const struct reader *r, const char *name, json_t **out, struct err *e)
{
    CLEANUP(column_free) struct column c = {0};
    *out = NULL;
    PASS(read_column(r, "provenance", name, FIELD_TEXT, 1, &c, e));
    const char *text = text_at(&c, 0);
    if (text[0]) PASS(json_read_text(r->path, text, strlen(text), out, e));
    return OK;
}

static void reader_free(struct reader *r)
{
    h5_close_file(&r->file);
    results_view_close(r->view);
    axes_free(&r->axes);
    column_free(&r->sequences);
}

enum status cube_read(const char *path, enum view_content content, const struct texts *without,
                      struct results_view **out, struct err *e)
{
    struct journal_mark mark;
    bool sealed;
    CLEANUP(reader_free)
    struct reader r = {.path = path, .content = content, .unwanted = without, .file = -1};
    AUTO_FREE char *data = NULL;
    size_t n;
    h5_quiet();
    PASS(view_new(&r.view, e));
    PASS(fsx_read(path, 0, &data, &n, e));
    PASS(h5_open_image(path, data, n, &r.file, &mark, &sealed, e));
    mem_drop(&data); /* copied */
    /* Checks that the file is a cube with this program's schema. */
    CLEANUP(h5_close) hid_t attribute = -1;
    int64_t schema = 0;
    NEED(H5Aexists(r.file, "schema_version") > 0, ERR_FORMAT,
         "%s: an HDF5 file, but not a results cube of qtraj", r.path);
    attribute = H5Aopen(r.file, "schema_version", H5P_DEFAULT);
    H5_NEED(attribute >= 0 && H5Aread(attribute, H5T_NATIVE_INT64, &schema) >= 0, ERR_FORMAT,
            r.path, "schema_version");
    NEED(schema == CUBE_SCHEMA, ERR_FORMAT,
         "%s: cube schema %lld, this program reads %d; qtraj rebuild makes it again from its "
         "journal",
         r.path, (long long)schema, CUBE_SCHEMA);
    if (!sealed)
        log_warn("%s: without the checksum at its end: another program changed it, or an early "
                 "qtraj made it; nothing says that its numbers are right. qtraj rebuild makes it "
                 "again from the journal",
                 path);
    json_auto_t *plan = NULL, *end = NULL;
    PASS(read_json(&r, "plan", &plan, e));
    NEED(plan, ERR_FORMAT, "%s: provenance/plan is empty", r.path);
    PASS(view_add(r.view, plan, e));
    PASS(axes_of_plan(r.view->plan, &r.axes, e));
    if (r.content == VIEW_ALL)
        PASS(read_column(&r, "sequences", "loss", FIELD_REAL, -1, &r.sequences, e));
    for (int i = 0; recorded_measures[i]; i++) PASS(read_kind(&r, recorded_measures[i], e));
    PASS(read_json(&r, "end", &end, e));
    if (end) PASS(view_add(r.view, end, e));
    r.view->mark = mark;
    *out = TAKE(r.view);
    return OK;
}
