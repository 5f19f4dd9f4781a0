/* Results as rows for programs: every number of the cube along a row's axes, with the same names.
 */
#include "cube/show.h"
#include "util/mem.h"
#include <math.h>

/* A column: a grid variable, or (x NULL) a field of the rows' records. */
struct column {
    const char *name;
    const struct cube_variable *x;
    const struct field *field;
    double last; /* the number that `digits` are of, for CSV; "": none yet */
    char digits[32];
};

struct columns {
    const struct show *show;
    const struct rows *rows;
    int64_t n, capacity;
    struct column *all; // (n)
};

static void columns_free(struct columns *c)
{
    free(c->all);
}

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
                PASS(add(c, &(struct column){.name = name ? axis_checkpoint.name : x->name, .x = x},
                         e));
        }
    return OK;
}

/* Numbers along these axes; what is asked for most stands first: those of the inner axis, then
 * those of most axes. */
static enum status add_numbers(struct columns *c, struct err *e)
{
    const struct measure *kind = c->rows->kind;
    const struct cube *cube = c->show->cube;
    const struct axis *last = kind->within ? kind->within : kind->inner;
    const int inner = last ? axis_place_of(last) : -1;
    for (int with_inner = 1; with_inner >= 0; with_inner--)
        for (int rank = CUBE_RANK; rank > 0; rank--)
            for (int64_t k = 0; k < cube->n; k++) {
                const struct cube_variable *x = cube->variables[k];
                bool number = x->type == FIELD_REAL || x->type == FIELD_INTEGER;
                if (!x->of || !number || x->rank != rank || !cube_is_along(x, kind)) continue;
                if (!show_wants_metric(c->show, x->name)) continue;
                if ((x->dims[rank - 1] == inner) == with_inner)
                    PASS(add(c, &(struct column){.name = x->name, .x = x}, e));
            }
    return OK;
}

static enum status add_fields(struct columns *c, bool first, struct err *e)
{
    const struct measure *kind = c->rows->kind;
    for (const struct field *f = kind->fields; f->name; f++) {
        const enum field_place place = f->place;
        const bool number =
            !kind->axes[0] && place == IN_VALUES && show_wants_metric(c->show, f->name);
        const bool wanted = first ? place == IN_LABELS || place == IN_RECORD
                                  : number || place == FRAME_KEY || place == FRAME_TEXT;
        if (wanted) PASS(add(c, &(struct column){.name = f->name, .field = f}, e));
    }
    return OK;
}

/* --- values --- */

struct value {
    enum { VALUE_NONE, VALUE_TEXT, VALUE_INTEGER, VALUE_REAL } type;
    const char *text;
    int64_t integer;
    double real;
};

static struct value value_of_text(const char *text)
{
    return (struct value){.type = VALUE_TEXT, .text = text};
}

static struct value value_of_real(double real)
{
    if (isnan(real)) return (struct value){0};
    if (isinf(real)) return value_of_text(real > 0 ? "inf" : "-inf");
    return (struct value){.type = VALUE_REAL, .real = real};
}

/* A grid variable at the row's place (none where it was not measured or the row is not on one of
 * its axes; status tells them apart), or a field of its record. */
static struct value value_of(const struct columns *c, const struct column *column,
                             const struct row *row)
{
    const struct cube_variable *x = column->x;
    const struct field *f = column->field;
    const int64_t at = x ? cube_place(c->show->cube, x, row) : -1;
    if (x && at < 0) return (struct value){0};
    if (x && x->type == FIELD_TEXT) return value_of_text(x->data.t[at]);
    if (x && x->type == FIELD_STATUS) return value_of_text(result_state_words[x->data.s[at]]);
    if (x && x->type == FIELD_REAL) return value_of_real(x->data.d[at]);
    if (x && x->data.i[at] < 0) return (struct value){0};
    if (x) return (struct value){.type = VALUE_INTEGER, .integer = x->data.i[at]};
    const char *message;
    const enum result_state state = row_state_here(c->rows, row, &message);
    if (f->type == FIELD_STATUS) return value_of_text(result_state_words[state]);
    if (state == STATE_FAILED && strcmp(f->name, "message") == 0) return value_of_text(message);
    if (f->place == FRAME_KEY) return value_of_text(row->key);
    const json_t *value = row_value(c->rows, row, f);
    if (f->type == FIELD_TEXT)
        return value_of_text(json_is_string(value) ? json_string_value(value) : "");
    if (json_is_integer(value))
        return (struct value){.type = VALUE_INTEGER, .integer = json_integer_value(value)};
    return value_of_real(json_number_get(value));
}

/* --- numbers --- */

/* Many numbers repeat from row to row, those of a checkpoint for all of its cells: writing one
 * takes as long as reading it. */
static const char *digits_of(struct column *column, double value)
{
    if (memcmp(&value, &column->last, sizeof value) != 0 || !column->digits[0]) {
        strfromd(column->digits, sizeof column->digits, "%.17g", value);
        column->last = value;
    }
    return column->digits;
}

/* --- both forms --- */

/* A text as CSV, RFC 4180, has it. */
static void print_csv_text(const char *text, FILE *out)
{
    const bool quoted = text[strcspn(text, ",\"\r\n")];
    if (quoted) putc('"', out);
    for (; *text; text++) {
        if (*text == '"') putc('"', out);
        putc(*text, out);
    }
    if (quoted) putc('"', out);
}

/* Texts that have nothing to escape, nearly all, are printed as they are. */
static enum status print_json_text(const char *text, FILE *out, struct err *e)
{
    const char *c = text;
    while (*c >= ' ' && *c <= '~' && *c != '"' && *c != '\\') c++;
    if (!*c) {
        fprintf(out, "\"%s\"", text);
        return OK;
    }
    json_auto_t *value = json_string(text);
    NEED(json_dumpf(value, out, JSON_ENCODE_ANY) == 0, ferror(out) ? ERR_FULL : ERR_NOMEM,
         "cannot write a row");
    return OK;
}

/* A cell of CSV, "" for none; of JSON a number always looks like one that is no integer. */
static enum status print_value(struct column *column, const struct value *value, bool csv,
                               FILE *out, struct err *e)
{
    if (value->type == VALUE_TEXT && !csv) return print_json_text(value->text, out, e);
    if (value->type == VALUE_TEXT) print_csv_text(value->text, out);
    if (value->type == VALUE_INTEGER) fprintf(out, "%lld", (long long)value->integer);
    if (value->type == VALUE_REAL) {
        const char *digits = digits_of(column, value->real);
        fprintf(out, "%s%s", digits, csv || digits[strcspn(digits, ".e")] ? "" : ".0");
    }
    if (value->type == VALUE_NONE && !csv) fputs("null", out);
    return OK;
}

enum status show_rows(const struct show *s, const struct rows *rows, struct err *e)
{
    CLEANUP(columns_free) struct columns c = {.show = s, .rows = rows};
    const bool csv = s->options->csv;
    bool first = true;
    PASS(add_labels(&c, e));
    PASS(add_fields(&c, true, e));
    PASS(add_numbers(&c, e));
    PASS(add_fields(&c, false, e));
    for (int64_t i = 0; csv && rows->n && i < c.n; i++)
        fprintf(s->out, "%s%s%s", i ? "," : "", c.all[i].name, i + 1 == c.n ? "\n" : "");
    for (int64_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->rows[i];
        if (!show_wants(s, rows, row)) continue;
        if (!csv) fputs(first ? "[\n" : ",\n", s->out);
        first = false;
        for (int64_t k = 0; k < c.n; k++) {
            struct column *column = &c.all[k];
            const struct value value = value_of(&c, column, row);
            fputs(csv ? k ? "," : "" : k ? ",\"" : "{\"", s->out);
            if (!csv) fprintf(s->out, "%s\":", column->name);
            PASS(print_value(column, &value, csv, s->out, e));
        }
        putc(csv ? '\n' : '}', s->out);
    }
    if (!csv) fputs(first ? "[]\n" : "\n]\n", s->out);
    return OK;
}
