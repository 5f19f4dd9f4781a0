/* A cube back into records: the plan lies in it as text, and the frames checkpoints/, cells/ and
 * curvature/ hold one row for each (checkpoint, dataset), (cell, dataset) and checkpoint of that
 * plan, in its order. */
#include "results/h5.h"
#include "results/view.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One column that was read. */
struct column {
    enum cube_type type;
    int64_t n;
    union cube_data data;
};

enum { FIELDS_MAX = 128 };

/* One of the flat tables, whose rows name their row in curvature/. */
struct table_reader {
    int64_t n;
    struct column row, columns[RECORD_COLUMNS_MAX];
};

struct reader {
    const char *path;
    hid_t file;
    struct axes axes;
    struct results_view *view;
    struct column sequences;
    struct column layer_names;
    struct column layers[FIELDS_MAX]; /* by place in the field table, (cells, layers) */
    struct table_reader tables[RECORD_TABLES];
};

/* What the frames differ in. */
struct frame_kind {
    const char *group, *type, *status, *message;
    enum record_scope scope, dataset_scope; /* the same: its rows have no datasets */
};
static const struct frame_kind frame_checkpoints = {"checkpoints",       "checkpoint",
                                                    "checkpoint_status", "checkpoint_message",
                                                    SCOPE_CHECKPOINT,    SCOPE_CHECKPOINT_DATASET};
static const struct frame_kind frame_cells = {"cells",   "cell",     "status",
                                              "message", SCOPE_CELL, SCOPE_CELL_DATASET};
static const struct frame_kind frame_curvature = {"curvature",        "curvature",
                                                  "curvature_status", "curvature_message",
                                                  SCOPE_CURVATURE,    SCOPE_CURVATURE};

/* One frame while it is read. */
struct frame_reader {
    const struct frame_kind *kind;
    struct cube_rows rows;
    struct column status, message, fingerprint, provenance, start, count;
    struct column fields[FIELDS_MAX]; /* by place in the field table */
};

static void column_free(struct column *c)
{
    h5_free_data(&c->data, c->type, c->n);
}

static enum status read_column(const struct reader *r, const char *group, const char *name,
                               enum cube_type type, int64_t n, struct column *out, struct err *e)
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

static const char *text_at(const struct column *c, int64_t i)
{
    return c->data.t[i] ? c->data.t[i] : "";
}

/* A number of the cube; NULL when it says nothing. */
static json_t *number_at(const struct column *c, int64_t i)
{
    if (!c->data.any) return NULL;
    if (c->type == CUBE_INTEGER)
        return c->data.i[i] < 0 ? NULL : json_integer((json_int_t)c->data.i[i]);
    return isnan(c->data.d[i]) ? NULL : json_number_new(c->data.d[i]);
}

/* --- a frame's columns --- */

static bool has_datasets(const struct frame_kind *k)
{
    return k->dataset_scope != k->scope;
}

static enum status read_frame(const struct reader *r, struct frame_reader *f, struct err *e)
{
    enum status st = OK;
    const struct record_field *field;
    const struct frame_kind *k = f->kind;
    int64_t n = f->rows.n;
    TRY(read_column(r, k->group, k->status, CUBE_STATUS, n, &f->status, e));
    TRY(read_column(r, k->group, k->message, CUBE_TEXT, n, &f->message, e));
    TRY(read_column(r, k->group, "fingerprint", CUBE_TEXT, n, &f->fingerprint, e));
    TRY(read_column(r, k->group, "provenance", CUBE_TEXT, n, &f->provenance, e));
    if (has_datasets(k)) {
        TRY(read_column(r, k->group, "sequence_start", CUBE_INTEGER, n, &f->start, e));
        TRY(read_column(r, k->group, "sequence_count", CUBE_INTEGER, n, &f->count, e));
    }
    for (int i = 0; (field = record_field_at(i)) && i < FIELDS_MAX; i++)
        if (field->scope == k->scope || field->scope == k->dataset_scope)
            TRY(read_column(r, k->group, field->variable,
                            field->integer ? CUBE_INTEGER : CUBE_DOUBLE, n, &f->fields[i], e));
done:
    return st;
}

static void frame_free(struct frame_reader *f)
{
    struct column *const columns[] = {&f->status,     &f->message, &f->fingerprint,
                                      &f->provenance, &f->start,   &f->count};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) column_free(columns[i]);
    for (int i = 0; i < FIELDS_MAX; i++) column_free(&f->fields[i]);
    free(f->rows.rows);
}

/* --- records --- */

/* {NAME: number} of one scope at row i. */
static json_t *numbers_of(const struct frame_reader *f, enum record_scope scope, int64_t i)
{
    const struct record_field *field;
    json_t *out = json_object();
    for (int k = 0; out && (field = record_field_at(k)) && k < FIELDS_MAX; k++) {
        json_t *value = field->scope == scope ? number_at(&f->fields[k], i) : NULL;
        if (value) json_object_set_new(out, field->name, value);
    }
    return out;
}

static enum status add_dataset(const struct reader *r, const struct frame_reader *f, int64_t i,
                               json_t *datasets, struct err *e)
{
    enum status st = OK;
    int64_t start = f->start.data.i[i], n = f->count.data.i[i];
    json_t *numbers = numbers_of(f, f->kind->dataset_scope, i), *list = NULL;
    ENSURE(numbers, ERR_NOMEM, "out of memory for a record");
    ENSURE(start >= 0 && n >= 0 && start <= r->sequences.n && n <= r->sequences.n - start,
           ERR_FORMAT, "%s: %s/sequence_start: row %lld points behind sequences/loss", r->path,
           f->kind->group, (long long)i);
    if (n > 0) {
        ENSURE(list = json_numbers_new(r->sequences.data.d + start, n), ERR_NOMEM,
               "out of memory for a record");
        json_object_set_new(numbers, "sequence_loss", list);
    }
    if (json_object_size(numbers) == 0) goto done;
    json_object_set(datasets, r->axes.datasets[f->rows.rows[i].at[DIM_DATASET]], numbers);
done:
    json_decref(numbers);
    return st;
}

static json_t *layers_of(const struct reader *r, int64_t cell)
{
    const struct record_field *field;
    json_t *out = json_array();
    for (int64_t l = 0; out && l < r->layer_names.n; l++) {
        json_t *layer = json_pack("{s:s}", "name", text_at(&r->layer_names, l));
        for (int k = 0; (field = record_field_at(k)) && k < FIELDS_MAX; k++) {
            json_t *value = number_at(&r->layers[k], cell * r->layer_names.n + l);
            if (value) json_object_set_new(layer, field->name, value);
        }
        if (json_object_size(layer) > 1)
            json_array_append_new(out, layer);
        else
            json_decref(layer);
    }
    return out;
}

/* Value i of a table's column; NaN is a value there. */
static json_t *value_at(const struct column *c, int64_t i)
{
    if (c->type == CUBE_TEXT) return json_string(text_at(c, i));
    return c->type == CUBE_INTEGER ? json_integer((json_int_t)c->data.i[i])
                                   : json_number_new(c->data.d[i]);
}

/* {TABLE: {COLUMN: [...]}} of row i of curvature/: tables without rows are left out. */
static json_t *tables_of(const struct reader *r, int64_t i)
{
    json_t *out = json_object();
    for (int t = 0; out && t < RECORD_TABLES; t++) {
        const struct record_table *table = &record_tables[t];
        const struct table_reader *from = &r->tables[t];
        json_t *columns = json_object();
        for (int k = 0; columns && k < table->n; k++) {
            json_t *list = json_array();
            for (int64_t row = 0; row < from->n; row++)
                if (from->row.data.i[row] == i)
                    json_array_append_new(list, value_at(&from->columns[k], row));
            if (json_array_size(list) > 0)
                json_object_set_new(columns, table->columns[k].name, list);
            else
                json_decref(list);
        }
        if (json_object_size(columns) > 0)
            json_object_set_new(out, table->name, columns);
        else
            json_decref(columns);
    }
    return out;
}

static enum status end_record(const struct reader *r, const struct frame_reader *f, int64_t i,
                              json_t *record, struct err *e)
{
    enum status st = OK;
    const struct cube_row *row = &f->rows.rows[i];
    if (has_datasets(f->kind))
        ENSURE(json_object_set_new(record, "datasets", json_object()) == 0, ERR_NOMEM,
               "out of memory for a record");
    if (f->kind == &frame_curvature)
        ENSURE(json_object_set_new(record, "tables", tables_of(r, i)) == 0, ERR_NOMEM,
               "out of memory for a record");
    if (f->kind != &frame_cells) goto done;
    json_object_set_new(record, "bits", json_integer((json_int_t)r->axes.bits[row->at[DIM_BITS]]));
    json_object_set_new(record, "quantizer",
                        json_string(r->axes.quantizers[row->at[DIM_QUANTIZER]]));
    json_object_set_new(record, "layers", layers_of(r, row->cell));
done:
    return st;
}

/* What all types of records have; *out is owned by the caller. */
static enum status start_record(const struct reader *r, const struct frame_reader *f, int64_t i,
                                json_t **out, struct err *e)
{
    enum status st = OK;
    const struct cube_row *row = &f->rows.rows[i];
    const struct axis_model *m = &r->axes.models[row->at[DIM_MODEL]];
    const char *text = text_at(&f->provenance, i);
    json_t *provenance = NULL;
    int status = f->status.data.s[i];
    ENSURE(status < STATUS_N, ERR_FORMAT, "%s: %s/%s: row %lld holds %d", r->path, f->kind->group,
           f->kind->status, (long long)i, status);
    if (text[0]) TRY(json_read_text(r->path, text, strlen(text), &provenance, e));
    *out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o*}", "type", f->kind->type, "key",
                     row->key, "fingerprint", text_at(&f->fingerprint, i), "model", m->name,
                     "checkpoint", m->checkpoints[row->at[DIM_CHECKPOINT]].name, "status",
                     cube_status_words[status], "message", text_at(&f->message, i), "values",
                     numbers_of(f, f->kind->scope, i), "provenance", json_incref(provenance));
    ENSURE(*out, ERR_FORMAT, "%s: %s: row %lld does not make a record", r->path, f->kind->group,
           (long long)i);
done:
    json_decref(provenance);
    return st;
}

static enum status add_records(const struct reader *r, const struct frame_reader *f, struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    for (int64_t i = 0, next; i < f->rows.n; i = next) {
        for (next = i + 1; next < f->rows.n; next++)
            if (f->rows.rows[next].cell != f->rows.rows[i].cell) break;
        if (f->status.data.s[i] == STATUS_PENDING) continue;
        TRY(start_record(r, f, i, &record, e));
        TRY(end_record(r, f, i, record, e));
        for (int64_t k = i; k < next; k++)
            if (f->rows.rows[k].at[DIM_DATASET] >= 0)
                TRY(add_dataset(r, f, k, json_object_get(record, "datasets"), e));
        TRY(view_add(r->view, record, e));
        json_decref(record);
        record = NULL;
    }
done:
    json_decref(record);
    return st;
}

/* --- the file --- */

static enum status read_json(const struct reader *r, const char *name, json_t **out, struct err *e)
{
    enum status st = OK;
    struct column c = {0};
    *out = NULL;
    TRY(read_column(r, "provenance", name, CUBE_TEXT, 1, &c, e));
    const char *text = text_at(&c, 0);
    if (text[0]) TRY(json_read_text(r->path, text, strlen(text), out, e));
done:
    column_free(&c);
    return st;
}

static enum status read_plan(struct reader *r, struct err *e)
{
    enum status st = OK;
    json_t *plan = NULL;
    TRY(read_json(r, "plan", &plan, e));
    ENSURE(plan, ERR_FORMAT, "%s: provenance/plan is empty", r->path);
    TRY(view_add(r->view, plan, e));
    TRY(axes_of_plan(results_view_plan(r->view), &r->axes, e));
done:
    json_decref(plan);
    return st;
}

static enum status read_long_ones(struct reader *r, int64_t cells, struct err *e)
{
    enum status st = OK;
    const struct record_field *field;
    int64_t n;
    TRY(h5_count(r->file, r->path, "sequences/loss", &n, e));
    TRY(read_column(r, "sequences", "loss", CUBE_DOUBLE, n, &r->sequences, e));
    TRY(h5_count(r->file, r->path, "layers/layer", &n, e));
    TRY(read_column(r, "layers", "layer", CUBE_TEXT, n, &r->layer_names, e));
    for (int i = 0; (field = record_field_at(i)) && i < FIELDS_MAX; i++)
        if (field->scope == SCOPE_LAYER)
            TRY(read_column(r, "layers", field->variable, CUBE_DOUBLE, cells * n, &r->layers[i],
                            e));
done:
    return st;
}

static enum status read_tables(struct reader *r, struct err *e)
{
    enum status st = OK;
    static const enum cube_type types[] = {
        [COLUMN_TEXT] = CUBE_TEXT, [COLUMN_INTEGER] = CUBE_INTEGER, [COLUMN_REAL] = CUBE_DOUBLE};
    for (int i = 0; i < RECORD_TABLES; i++) {
        const struct record_table *table = &record_tables[i];
        struct table_reader *t = &r->tables[i];
        char name[96];
        snprintf(name, sizeof name, "%s/curvature_row", table->group);
        TRY(h5_count(r->file, r->path, name, &t->n, e));
        TRY(read_column(r, table->group, "curvature_row", CUBE_INTEGER, t->n, &t->row, e));
        for (int k = 0; k < table->n; k++)
            TRY(read_column(r, table->group, table->columns[k].name, types[table->columns[k].type],
                            t->n, &t->columns[k], e));
    }
done:
    return st;
}

static void tables_free(struct reader *r)
{
    for (int i = 0; i < RECORD_TABLES; i++) {
        column_free(&r->tables[i].row);
        for (int k = 0; k < RECORD_COLUMNS_MAX; k++) column_free(&r->tables[i].columns[k]);
    }
}

static enum status read_all(struct reader *r, struct err *e)
{
    enum status st = OK;
    struct frame_reader checkpoints = {.kind = &frame_checkpoints}, cells = {.kind = &frame_cells},
                        curvature = {.kind = &frame_curvature};
    json_t *end = NULL;
    TRY(read_plan(r, e));
    TRY(cube_rows_of_checkpoints(&r->axes, NULL, &checkpoints.rows, e));
    TRY(cube_rows_of_cells(&r->axes, NULL, &cells.rows, e));
    TRY(cube_rows_of_curvature(&r->axes, NULL, &curvature.rows, e));
    TRY(read_long_ones(r, cells.rows.n_cells, e));
    TRY(read_tables(r, e));
    TRY(read_frame(r, &checkpoints, e));
    TRY(read_frame(r, &cells, e));
    TRY(read_frame(r, &curvature, e));
    TRY(add_records(r, &checkpoints, e));
    TRY(add_records(r, &cells, e));
    TRY(add_records(r, &curvature, e));
    TRY(cube_read_surfaces(r->file, r->path, &r->axes, r->view, e));
    TRY(read_json(r, "end", &end, e));
    if (end) TRY(view_add(r->view, end, e));
done:
    json_decref(end);
    frame_free(&checkpoints);
    frame_free(&cells);
    frame_free(&curvature);
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
    column_free(&r.layer_names);
    tables_free(&r);
    for (int i = 0; i < FIELDS_MAX; i++) column_free(&r.layers[i]);
    h5_loud(&saved);
    return st;
}
