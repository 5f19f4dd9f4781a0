/* A cube back into records: the plan lies in it as text, and the frames checkpoints/ and cells/
 * hold one row for each (checkpoint, dataset) and (cell, dataset) of that plan, in its order. */
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

enum { FIELDS_MAX = 64 };

struct reader {
    const char *path;
    hid_t file;
    struct axes axes;
    struct results_view *view;
    struct column sequences;
    struct column layer_names;
    struct column layers[FIELDS_MAX]; /* by place in the field table, (cells, layers) */
};

/* One frame while it is read. */
struct frame_reader {
    const char *group;
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

static bool is_of_frame(const struct record_field *f, bool of_cells)
{
    return of_cells ? f->scope == SCOPE_CELL || f->scope == SCOPE_CELL_DATASET
                    : f->scope == SCOPE_CHECKPOINT || f->scope == SCOPE_CHECKPOINT_DATASET;
}

static enum status read_frame(const struct reader *r, struct frame_reader *f, bool of_cells,
                              struct err *e)
{
    enum status st = OK;
    const struct record_field *field;
    int64_t n = f->rows.n;
    TRY(read_column(r, f->group, of_cells ? "status" : "checkpoint_status", CUBE_STATUS, n,
                    &f->status, e));
    TRY(read_column(r, f->group, of_cells ? "message" : "checkpoint_message", CUBE_TEXT, n,
                    &f->message, e));
    TRY(read_column(r, f->group, "fingerprint", CUBE_TEXT, n, &f->fingerprint, e));
    TRY(read_column(r, f->group, "provenance", CUBE_TEXT, n, &f->provenance, e));
    TRY(read_column(r, f->group, "sequence_start", CUBE_INTEGER, n, &f->start, e));
    TRY(read_column(r, f->group, "sequence_count", CUBE_INTEGER, n, &f->count, e));
    for (int i = 0; (field = record_field_at(i)) && i < FIELDS_MAX; i++)
        if (is_of_frame(field, of_cells))
            TRY(read_column(r, f->group, field->variable,
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
                               enum record_scope scope, json_t *datasets, struct err *e)
{
    enum status st = OK;
    int64_t start = f->start.data.i[i], n = f->count.data.i[i];
    json_t *numbers = numbers_of(f, scope, i), *list = NULL;
    ENSURE(numbers, ERR_NOMEM, "out of memory for a record");
    ENSURE(start >= 0 && n >= 0 && start <= r->sequences.n && n <= r->sequences.n - start,
           ERR_FORMAT, "%s: %s/sequence_start: row %lld points behind sequences/loss", r->path,
           f->group, (long long)i);
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

/* What both types of records have; *out is owned by the caller. */
static enum status start_record(const struct reader *r, const struct frame_reader *f, int64_t i,
                                bool of_cell, json_t **out, struct err *e)
{
    enum status st = OK;
    const struct cube_row *row = &f->rows.rows[i];
    const struct axis_model *m = &r->axes.models[row->at[DIM_MODEL]];
    const char *text = text_at(&f->provenance, i);
    json_t *provenance = NULL;
    int status = f->status.data.s[i];
    ENSURE(status < STATUS_N, ERR_FORMAT, "%s: %s/status: row %lld holds %d", r->path, f->group,
           (long long)i, status);
    if (text[0]) TRY(json_read_text(r->path, text, strlen(text), &provenance, e));
    *out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:{}, s:o*}", "type",
                     of_cell ? "cell" : "checkpoint", "key", row->key, "fingerprint",
                     text_at(&f->fingerprint, i), "model", m->name, "checkpoint",
                     m->checkpoints[row->at[DIM_CHECKPOINT]].name, "status",
                     cube_status_words[status], "message", text_at(&f->message, i), "values",
                     numbers_of(f, of_cell ? SCOPE_CELL : SCOPE_CHECKPOINT, i), "datasets",
                     "provenance", json_incref(provenance));
    ENSURE(*out, ERR_FORMAT, "%s: %s: row %lld does not make a record", r->path, f->group,
           (long long)i);
    if (!of_cell) goto done;
    json_object_set_new(*out, "bits", json_integer((json_int_t)r->axes.bits[row->at[DIM_BITS]]));
    json_object_set_new(*out, "quantizer", json_string(r->axes.quantizers[row->at[DIM_QUANTIZER]]));
    json_object_set_new(*out, "layers", layers_of(r, row->cell));
done:
    json_decref(provenance);
    return st;
}

static enum status add_records(const struct reader *r, const struct frame_reader *f, bool of_cells,
                               struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    enum record_scope scope = of_cells ? SCOPE_CELL_DATASET : SCOPE_CHECKPOINT_DATASET;
    for (int64_t i = 0, next; i < f->rows.n; i = next) {
        for (next = i + 1; next < f->rows.n; next++)
            if (f->rows.rows[next].cell != f->rows.rows[i].cell) break;
        if (f->status.data.s[i] == STATUS_PENDING) continue;
        TRY(start_record(r, f, i, of_cells, &record, e));
        for (int64_t k = i; k < next; k++)
            if (f->rows.rows[k].at[DIM_DATASET] >= 0)
                TRY(add_dataset(r, f, k, scope, json_object_get(record, "datasets"), e));
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

static enum status read_all(struct reader *r, struct err *e)
{
    enum status st = OK;
    struct frame_reader checkpoints = {.group = "checkpoints"}, cells = {.group = "cells"};
    json_t *end = NULL;
    TRY(read_plan(r, e));
    TRY(cube_rows_of_checkpoints(&r->axes, NULL, &checkpoints.rows, e));
    TRY(cube_rows_of_cells(&r->axes, NULL, &cells.rows, e));
    TRY(read_long_ones(r, cells.rows.n_cells, e));
    TRY(read_frame(r, &checkpoints, false, e));
    TRY(read_frame(r, &cells, true, e));
    TRY(add_records(r, &checkpoints, false, e));
    TRY(add_records(r, &cells, true, e));
    TRY(read_json(r, "end", &end, e));
    if (end) TRY(view_add(r->view, end, e));
done:
    json_decref(end);
    frame_free(&checkpoints);
    frame_free(&cells);
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
    for (int i = 0; i < FIELDS_MAX; i++) column_free(&r.layers[i]);
    h5_loud(&saved);
    return st;
}
