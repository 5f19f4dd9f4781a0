/* Results as rows for programs: every number of the cube along a row's axes, with the same names.
 */
#include "report/show.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A column: a grid variable, or (x NULL) a field of the rows' records. */
struct column {
    const char *name;
    const struct cube_variable *x;
    const struct field *field;
};

struct columns {
    const struct show *show;
    const struct rows *rows;
    int64_t n, capacity;
    struct column *all; // (n)
};

/* --- which there are --- */

/* Of two columns of one name there is the later one, at the place of the earlier. */
static enum status add(struct columns *c, const struct column *column, struct err *e)
{
    int64_t i = 0;
    while (i < c->n && strcmp(c->all[i].name, column->name) != 0) i++;
    PASS(mem_grow(&c->all, c->n, &c->capacity, sizeof *c->all, e));
    c->all[i] = *column;
    c->n += i == c->n;
    return OK;
}

/* Where the row is on the axes; in place of the checkpoint's number all that the trajectory tables
 * say of it, its name first. */
static enum status add_labels(struct columns *c, struct err *e)
{
    const struct cube *cube = c->show->cube;
    for (int i = 0; results_axes[i]; i++)
        for (int64_t k = 0; k < cube->n; k++) {
            const struct cube_variable *x = cube->variables[k];
            const bool of_axis = results_axes[i] == &axis_checkpoint
                                     ? !x->of && !x->is_scale
                                     : x->is_scale && x->dims[0] == i;
            const bool name = strcmp(x->name, "checkpoint_name") == 0;
            if (of_axis && cube_is_along(x, c->rows->kind))
                PASS(add(c, &(struct column){name ? axis_checkpoint.name : x->name, x, NULL}, e));
        }
    return OK;
}

/* Numbers along these axes; what is asked for most stands first: those of the inner axis, then
 * those of most axes. */
static enum status add_numbers(struct columns *c, struct err *e)
{
    const struct kind *kind = c->rows->kind;
    const struct cube *cube = c->show->cube;
    int inner = kind->inner ? axis_place_of(kind->inner) : -1;
    for (int with_inner = 1; with_inner >= 0; with_inner--)
        for (int rank = CUBE_RANK; rank > 0; rank--)
            for (int64_t k = 0; k < cube->n; k++) {
                const struct cube_variable *x = cube->variables[k];
                bool number = x->type == FIELD_REAL || x->type == FIELD_INTEGER;
                if (!x->of || !number || x->rank != rank || !cube_is_along(x, kind)) continue;
                if (!show_wants_metric(c->show, x->name)) continue;
                if ((x->dims[rank - 1] == inner) == with_inner)
                    PASS(add(c, &(struct column){x->name, x, NULL}, e));
            }
    return OK;
}

static enum status add_fields(struct columns *c, bool first, struct err *e)
{
    const struct kind *kind = c->rows->kind;
    for (const struct field *f = kind->fields; f->name; f++) {
        const enum field_place place = f->place;
        const bool number =
            !kind->axes[0] && place == IN_VALUES && show_wants_metric(c->show, f->name);
        const bool wanted = first ? place == IN_LABELS || place == IN_RECORD
                                  : number || place == FRAME_KEY || place == FRAME_TEXT;
        if (wanted) PASS(add(c, &(struct column){f->name, NULL, f}, e));
    }
    return OK;
}

static enum status find_columns(struct columns *c, struct err *e)
{
    PASS(add_labels(c, e));
    PASS(add_fields(c, true, e));
    PASS(add_numbers(c, e));
    return add_fields(c, false, e);
}

/* --- values --- */

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

/* One of the row's record. */
static json_t *field_value(const struct rows *r, const struct row *row, const struct field *f)
{
    if (f->type == FIELD_STATUS)
        return json_string(result_state_words[result_state_of(row->record)]);
    if (f->place == FRAME_KEY) return json_string(row->key);
    const json_t *value = row_value(r, row, f);
    if (f->type == FIELD_TEXT)
        return json_string(json_is_string(value) ? json_string_value(value) : "");
    return isnan(json_number_get(value)) ? json_null() : json_deep_copy(value);
}

/* A new reference; NULL: out of memory. */
static json_t *value_of(const struct columns *c, int64_t i, const struct row *row)
{
    const struct column *column = &c->all[i];
    return column->x ? element(c->show, column->x, row) : field_value(c->rows, row, column->field);
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

static void print_csv_names(const struct columns *c, FILE *out)
{
    for (int64_t i = 0; i < c->n; i++) fprintf(out, "%s%s", i ? "," : "", c->all[i].name);
    putc('\n', out);
}

static enum status print_csv_row(const struct columns *c, const struct row *row, FILE *out,
                                 struct err *e)
{
    for (int64_t i = 0; i < c->n; i++) {
        json_t *value = value_of(c, i, row);
        NEED(value, ERR_NOMEM, "out of memory for a row");
        if (i) putc(',', out);
        if (json_is_string(value))
            print_csv_text(json_string_value(value), out);
        else if (json_is_integer(value))
            fprintf(out, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
            fprintf(out, "%.17g", json_real_value(value));
        json_decref(value);
    }
    putc('\n', out);
    return OK;
}

/* --- JSON --- */

static enum status print_json_row(const struct columns *c, const struct row *row, FILE *out,
                                  struct err *e)
{
    enum status st = OK;
    json_t *object = json_object();
    ENSURE(object, ERR_NOMEM, "out of memory for a row");
    for (int64_t i = 0; i < c->n; i++)
        ENSURE(json_object_set_new(object, c->all[i].name, value_of(c, i, row)) == 0, ERR_NOMEM,
               "out of memory for a row");
    ENSURE(json_dumpf(object, out, JSON_COMPACT) == 0, ferror(out) ? ERR_FULL : ERR_NOMEM,
           "cannot write a row");
done:
    json_decref(object);
    return st;
}

/* --- both --- */

enum status show_rows(const struct show *s, const struct rows *rows, struct err *e)
{
    enum status st = OK;
    struct columns c = {.show = s, .rows = rows};
    bool csv = s->options->csv, first = true;
    TRY(find_columns(&c, e));
    if (csv && rows->n) print_csv_names(&c, s->out);
    for (int64_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->rows[i];
        if (!show_wants(s, rows, row)) continue;
        if (!csv) fputs(first ? "[\n" : ",\n", s->out);
        TRY(csv ? print_csv_row(&c, row, s->out, e) : print_json_row(&c, row, s->out, e));
        first = false;
    }
    if (!csv) fputs(first ? "[]\n" : "\n]\n", s->out);
done:
    free(c.all);
    return st;
}
