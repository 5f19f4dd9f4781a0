/* Results as rows for programs: every number of the cube along a row's axes, with the same names.
 */
#include "report/show.h"
#include <math.h>
#include <string.h>

/* A grid variable at the row's place. NaN has no JSON: null, as for what was not measured or is not
 * on one of the axes; status tells them apart. */
static json_t *element(const struct show *s, const struct cube_variable *x, const struct row *row)
{
    int64_t at = cube_place(s->cube, x, row);
    if (at < 0) return json_null();
    if (x->type == FIELD_TEXT) return json_string(x->data.t[at]);
    if (x->type == FIELD_STATUS) return json_string(result_state_words[x->data.s[at]]);
    if (x->type == FIELD_INTEGER)
        return x->data.i[at] < 0 ? json_null() : json_integer((json_int_t)x->data.i[at]);
    return isnan(x->data.d[at]) ? json_null() : json_number_new(x->data.d[at]);
}

/* Where it is on the axes; in place of the checkpoint's number all that the trajectory tables say
 * of it, its name first. */
static void set_labels(json_t *out, const struct show *s, const struct rows *r,
                       const struct row *row)
{
    for (int i = 0; results_axes[i]; i++)
        for (int64_t k = 0; k < s->cube->n; k++) {
            const struct cube_variable *x = s->cube->variables[k];
            const bool of_axis = results_axes[i] == &axis_checkpoint
                                     ? !x->of && !x->is_scale
                                     : x->is_scale && x->dims[0] == i;
            const bool name = strcmp(x->name, "checkpoint_name") == 0;
            if (of_axis && cube_is_along(x, r->kind))
                json_object_set_new(out, name ? axis_checkpoint.name : x->name, element(s, x, row));
        }
}

/* Numbers along these axes; what is asked for most stands first: those of the inner axis, then
 * those of most axes. */
static void set_numbers(json_t *out, const struct show *s, const struct rows *r,
                        const struct row *row)
{
    int inner = r->kind->inner ? axis_place_of(r->kind->inner) : -1;
    for (int with_inner = 1; with_inner >= 0; with_inner--)
        for (int rank = CUBE_RANK; rank > 0; rank--)
            for (int64_t k = 0; k < s->cube->n; k++) {
                const struct cube_variable *x = s->cube->variables[k];
                bool number = x->type == FIELD_REAL || x->type == FIELD_INTEGER;
                if (!x->of || !number || x->rank != rank || !cube_is_along(x, r->kind)) continue;
                if (!show_wants_metric(s, x->name)) continue;
                if ((x->dims[rank - 1] == inner) == with_inner)
                    json_object_set_new(out, x->name, element(s, x, row));
            }
}

/* A field of the row's record. */
static void set_field(json_t *out, const struct rows *r, const struct row *row,
                      const struct field *f)
{
    const json_t *value = row_value(r, row, f);
    json_t *copy;
    if (f->type == FIELD_STATUS)
        copy = json_string(result_state_words[result_state_of(row->record)]);
    else if (f->place == FRAME_KEY)
        copy = json_string(row->key);
    else if (f->type == FIELD_TEXT)
        copy = json_string(json_is_string(value) ? json_string_value(value) : "");
    else
        copy = isnan(json_number_get(value)) ? json_null() : json_deep_copy(value);
    json_object_set_new(out, f->name, copy);
}

/* A new object, its keys in the order of the columns; NULL when out of memory. */
static json_t *row_object(const struct show *s, const struct rows *r, const struct row *row)
{
    json_t *out = json_object();
    if (!out) return NULL;
    set_labels(out, s, r, row);
    for (const struct field *f = r->kind->fields; f->name; f++)
        if (f->place == IN_LABELS || f->place == IN_RECORD) set_field(out, r, row, f);
    set_numbers(out, s, r, row);
    for (const struct field *f = r->kind->fields; f->name; f++) {
        bool of_frame = !r->kind->axes[0] && f->place == IN_VALUES && show_wants_metric(s, f->name);
        if (of_frame || f->place == FRAME_KEY || f->place == FRAME_TEXT) set_field(out, r, row, f);
    }
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

static enum status print_row(const struct show *s, const struct rows *r, const struct row *row,
                             bool names, struct err *e)
{
    enum status st = OK;
    json_t *object = row_object(s, r, row);
    ENSURE(object, ERR_NOMEM, "out of memory for a row");
    if (s->options->csv)
        print_csv_row(object, names, s->out);
    else
        ENSURE(json_dumpf(object, s->out, JSON_COMPACT) == 0, ferror(s->out) ? ERR_FULL : ERR_NOMEM,
               "cannot write a row");
done:
    json_decref(object);
    return st;
}

enum status show_rows(const struct show *s, const struct rows *rows, struct err *e)
{
    bool csv = s->options->csv, first = true;
    if (csv && rows->n) PASS(print_row(s, rows, &rows->rows[0], true, e));
    for (int64_t i = 0; i < rows->n; i++) {
        if (!show_wants(s, rows, &rows->rows[i])) continue;
        if (!csv) fputs(first ? "[\n" : ",\n", s->out);
        PASS(print_row(s, rows, &rows->rows[i], false, e));
        first = false;
    }
    if (!csv) fputs(first ? "[]\n" : "\n]\n", s->out);
    return OK;
}
