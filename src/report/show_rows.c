/* Results as rows for machines: every number that the cube has for a cell, under the same names. */
#include "report/show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* NaN has no JSON: null, as for what was not measured; status tells them apart. */
static json_t *number(const json_t *value)
{
    double x = json_number_get(value);
    if (isnan(x)) return json_null();
    return json_is_integer(value) ? json_integer(json_integer_value(value)) : json_number_new(x);
}

static const json_t *values_of(const json_t *record, const struct record_field *f,
                               const char *dataset)
{
    if (f->scope != SCOPE_CELL_DATASET && f->scope != SCOPE_CHECKPOINT_DATASET)
        return json_object_get(record, "values");
    return dataset ? json_object_get(json_object_get(record, "datasets"), dataset) : NULL;
}

static void set_labels(json_t *out, const struct show *s, const struct cube_row *row)
{
    const struct axis_model *m = &s->axes.models[row->at[DIM_MODEL]];
    const struct axis_checkpoint *c = &m->checkpoints[row->at[DIM_CHECKPOINT]];
    int64_t d = row->at[DIM_DATASET];
    json_object_set_new(out, "model", json_string(m->name));
    json_object_set_new(out, "checkpoint", json_string(c->name));
    json_object_set_new(out, "step", c->step < 0 ? json_null() : json_integer((json_int_t)c->step));
    json_object_set_new(out, "tokens", isnan(c->tokens) ? json_null() : json_number_new(c->tokens));
    json_object_set_new(out, "learning_rate",
                        isnan(c->learning_rate) ? json_null() : json_number_new(c->learning_rate));
    json_object_set_new(out, "phase", json_string(c->phase));
    json_object_set_new(out, "kind", json_string(c->kind));
    json_object_set_new(out, "recipe", json_string(c->recipe));
    json_object_set_new(out, "bits", json_integer((json_int_t)s->axes.bits[row->at[DIM_BITS]]));
    json_object_set_new(out, "quantizer", json_string(s->axes.quantizers[row->at[DIM_QUANTIZER]]));
    json_object_set_new(out, "dataset", d < 0 ? json_null() : json_string(s->axes.datasets[d]));
    json_object_set_new(out, "status", json_string(cube_status_words[cube_status_of(row->record)]));
    json_object_set_new(out, "message", json_string(json_text(row->record, "message", "")));
}

/* A new object, its keys in the order of the columns; NULL when out of memory. */
static json_t *row_object(const struct show *s, const struct cube_row *row)
{
    const struct record_field *f;
    json_t *out = json_object();
    int64_t d = row->at[DIM_DATASET];
    const char *dataset = d < 0 ? NULL : s->axes.datasets[d];
    const struct axis_checkpoint *c =
        &s->axes.models[row->at[DIM_MODEL]].checkpoints[row->at[DIM_CHECKPOINT]];
    const json_t *checkpoint = results_view_find(s->view, c->key);
    const json_t *curvature =
        c->curvature_key ? results_view_find(s->view, c->curvature_key) : NULL;
    if (!out) return NULL;
    set_labels(out, s, row);
    /* What is asked for most stands first. */
    static const enum record_scope order[] = {SCOPE_CELL_DATASET, SCOPE_CHECKPOINT_DATASET,
                                              SCOPE_CELL, SCOPE_CHECKPOINT, SCOPE_CURVATURE};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (int i = 0; (f = record_field_at(i)); i++) {
            if (f->scope != order[k]) continue;
            bool of_cell = f->scope == SCOPE_CELL || f->scope == SCOPE_CELL_DATASET;
            const json_t *of = of_cell                       ? row->record
                               : f->scope == SCOPE_CURVATURE ? curvature
                                                             : checkpoint;
            const json_t *values = values_of(of, f, dataset);
            json_object_set_new(out, f->variable, number(json_object_get(values, f->name)));
        }
    json_object_set_new(out, "key", json_string(row->key));
    json_object_set_new(out, "fingerprint", json_string(json_text(row->record, "fingerprint", "")));
    return out;
}

/* --- CSV, RFC 4180 --- */

static void print_csv_text(const char *text, FILE *out)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"') putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

static void print_csv_row(json_t *row, bool names, FILE *out)
{
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach(row, key, value)
    {
        fputs(comma, out);
        comma = ",";
        if (names)
            fputs(key, out);
        else if (json_is_string(value))
            print_csv_text(json_string_value(value), out);
        else if (json_is_integer(value))
            fprintf(out, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
            fprintf(out, "%.17g", json_real_value(value));
    }
    putc('\n', out);
}

/* --- both --- */

static bool wanted(const struct show *s, const struct cube_row *row)
{
    const struct axis_variant variant = {
        .bits_at = row->at[DIM_BITS], .quantizer_at = row->at[DIM_QUANTIZER], .applicable = true};
    return show_wants_model(s, row->at[DIM_MODEL]) && show_wants_dataset(s, row->at[DIM_DATASET]) &&
           show_wants_variant(s, &variant);
}

static enum status print_row(const struct show *s, const struct cube_row *row, bool names,
                             struct err *e)
{
    enum status st = OK;
    json_t *object = row_object(s, row);
    ENSURE(object, ERR_NOMEM, "out of memory for a row");
    if (s->options->csv)
        print_csv_row(object, names, s->out);
    else
        ENSURE(json_dumpf(object, s->out, JSON_COMPACT) == 0, ERR_IO, "cannot write a row");
done:
    json_decref(object);
    return st;
}

enum status show_rows(const struct show *s, struct err *e)
{
    enum status st = OK;
    struct cube_rows rows = {0};
    bool csv = s->options->csv, first = true;
    TRY(cube_rows_of_cells(&s->axes, s->view, &rows, e));
    if (csv && rows.n) TRY(print_row(s, &rows.rows[0], true, e));
    for (int64_t i = 0; i < rows.n; i++) {
        if (!wanted(s, &rows.rows[i])) continue;
        if (!csv) fputs(first ? "[\n" : ",\n", s->out);
        TRY(print_row(s, &rows.rows[i], false, e));
        first = false;
    }
    if (!csv) fputs(first ? "[]\n" : "\n]\n", s->out);
done:
    free(rows.rows);
    return st;
}
