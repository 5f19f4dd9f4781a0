/* Makes the groups of lists, with variables of (record, part), and of tables, with flat columns;
 * both with columns that identify the record. How many parts and rows there are, the records say.
 */
#include "cube/cube_build.h"
#include "util/mem.h"

/* --- columns that identify the record --- */

static const char *label_name(const struct axis *axis)
{
    return axis == &axis_checkpoint ? "checkpoint_name" : axis->name;
}

/* Adds columns along a dimension for the labels of records on their kind's axes. */
static enum status add_labels(struct cube *c, const struct measure *k, int dim, struct err *e)
{
    for (int i = 0; k->axes[i]; i++) {
        const struct cube_variable *from = cube_find(c, label_name(k->axes[i]));
        struct cube_variable *x;
        PASS(cube_add_column(c, c->dims[dim].group, dim, from->name, from->type,
                             k->axis_long_names[i], &x, e));
        x->from = from;
    }
    return OK;
}

/* --- lists: variables --- */

static enum status add_list(struct cube *c, const struct rows *r, struct err *e)
{
    const struct measure *kind = r->kind;
    const struct record_list *l = kind->list;
    struct cube_variable *x;
    char *number, *coordinates;
    int dims[2];
    PASS(cube_add_dim(c, l->group, kind->name, r->n_records, &dims[0], e));
    PASS(cube_add_dim(c, l->group, l->axis, 0, &dims[1], e));
    PASS(mem_format(&number, e, "number of the %s", kind->name));
    PASS(cube_own(c, number, e));
    PASS(mem_string(&coordinates, label_name(kind->axes[0]), e));
    PASS(cube_own(c, coordinates, e));
    for (int k = 1; kind->axes[k]; k++) {
        PASS(mem_format(&coordinates, e, "%s %s", coordinates, label_name(kind->axes[k])));
        PASS(cube_own(c, coordinates, e));
    }
    PASS(cube_add_count(c, dims[0], number, e));
    PASS(add_labels(c, kind, dims[0], e));
    for (int64_t k = 0; k < c->n; k++) { /* the labels of all records */
        struct cube_variable *label = c->variables[k];
        if (!label->from || strcmp(label->group, l->group) != 0) continue;
        for (int64_t i = 0; i < r->n; i = rows_next(r, i))
            cube_copy(label, r->rows[i].number, label->from,
                      cube_place(c, label->from, &r->rows[i]));
    }
    PASS(cube_add_column(c, l->group, dims[1], l->axis, FIELD_TEXT, l->long_name, &x, e));
    x->is_scale = true;
    for (const struct field *f = l->fields; f->name; f++) {
        PASS(cube_add_field(c, f, l->group, 2, dims, &x, e));
        x->of = kind;
        x->coordinates = coordinates;
    }
    return OK;
}

/* --- lists: records --- */

struct cube_list {
    struct cube *cube;
    const struct record_list *of;
    struct cube_variable *names; /* the coordinate of the parts */
    struct cube_fields fields;   // (records, parts)
    json_t *places;              /* part's name → index, in the order in which they appear */
};

enum status cube_list_begin(struct cube *c, const struct rows *r, struct cube_list **out,
                            struct err *e)
{
    CLEANUP(cube_list_end_at) struct cube_list *l = NULL;
    const struct record_list *of = r->kind->list;
    struct cube_variable *names = of ? cube_find_in(c, of->group, of->axis) : NULL;
    *out = NULL;
    if (!names) return OK;
    PASS(mem_zero(&l, 1, sizeof *l, "a list", e));
    l->cube = c;
    l->of = of;
    l->names = names;
    PASS(cube_fields_of(c, r->kind, of->group, &l->fields, e));
    NEED(l->places = json_object(), ERR_NOMEM, "out of memory for names");
    *out = TAKE(l);
    return OK;
}

void cube_list_end(struct cube_list *l)
{
    if (!l) return;
    json_decref(l->places);
    free(l->fields.x);
    free(l);
}

/* Records of a sweep have mostly the same parts, so that the variables are widened a few times. */
static enum status add_names(struct cube_list *l, const json_t *parts, struct err *e)
{
    size_t i;
    json_t *part;
    const int64_t before = l->names->n;
    json_array_foreach(parts, i, part) {
        const char *name = json_text(part, l->of->label, "");
        const int64_t at = l->names->n;
        char *copy;
        if (json_object_get(l->places, name)) continue;
        PASS(cube_extend(l->cube, l->names, at + 1, e));
        PASS(mem_string(&copy, name, e));
        PASS(cube_own(l->cube, copy, e));
        l->names->data.t[at] = copy;
        NEED(json_object_set_new(l->places, name, json_integer((json_int_t)at)) == 0, ERR_NOMEM,
             "out of memory for names");
    }
    for (int64_t k = 0; l->names->n > before && k < l->fields.n; k++)
        PASS(cube_widen(l->cube, l->fields.x[k], before, e));
    return OK;
}

enum status cube_list_take(struct cube_list *l, const struct row *row, struct err *e)
{
    size_t i;
    json_t *part;
    const json_t *parts = json_object_get(row->record, l->of->name);
    PASS(add_names(l, parts, e));
    json_array_foreach(parts, i, part) {
        const json_t *place = json_object_get(l->places, json_text(part, l->of->label, ""));
        const int64_t at = row->number * l->names->n + json_integer_value(place);
        for (int64_t k = 0; k < l->fields.n; k++) {
            struct cube_variable *x = l->fields.x[k];
            PASS(cube_put_copy(l->cube, x, at, json_object_get(part, x->field->name), e));
        }
    }
    return OK;
}

/* --- tables --- */

static enum status add_table(struct cube *c, const struct measure *k, const struct record_table *t,
                             struct err *e)
{
    struct cube_variable *x;
    int dim;
    PASS(cube_add_dim(c, t->group, "row", 0, &dim, e));
    PASS(cube_add_count(c, dim, "number of the row", e));
    PASS(cube_add_column(c, t->group, dim, k->number, FIELD_INTEGER, k->number_long_name, &x, e));
    PASS(add_labels(c, k, dim, e));
    for (const struct field *f = t->columns; f->name; f++) {
        PASS(cube_add_field(c, f, t->group, 1, &dim, &x, e));
        x->of = k;
    }
    return OK;
}

/* --- tables: records --- */

/* Adds n rows to a column: what it repeats of the grid, what the record has, or a number. */
static enum status extend_column(struct cube *c, struct cube_variable *x, const struct row *row,
                                 const json_t *columns, int64_t n, struct err *e)
{
    const int64_t from = x->n;
    const json_t *values = x->field ? json_object_get(columns, x->field->name) : NULL;
    PASS(cube_extend(c, x, from + n, e));
    for (int64_t i = 0; i < n; i++)
        if (x->from)
            cube_copy(x, from + i, x->from, cube_place(c, x->from, row));
        else if (x->field)
            PASS(cube_put_copy(c, x, from + i, json_array_get(values, (size_t)i), e));
        else
            x->data.i[from + i] = x->is_scale ? from + i : row->number;
    return OK;
}

/* The length of a table is that of its first column. */
enum status cube_tables_take(struct cube *c, const struct measure *kind, const struct row *row,
                             struct err *e)
{
    const json_t *all = json_object_get(row->record, "tables");
    for (const struct record_table *t = kind->tables; t && t->name; t++) {
        const json_t *columns = json_object_get(all, t->name);
        const int64_t n = (int64_t)json_array_size(json_object_get(columns, t->columns[0].name));
        for (int64_t k = 0; n > 0 && k < c->n; k++)
            if (strcmp(c->variables[k]->group, t->group) == 0)
                PASS(extend_column(c, c->variables[k], row, columns, n, e));
    }
    return OK;
}

/* --- both --- */

enum status cube_add_lists(struct cube *c, struct err *e)
{
    for (int i = 0; recorded_measures[i]; i++) {
        if (!measure_is_there(recorded_measures[i], &c->all.axes)) continue;
        if (recorded_measures[i]->list) PASS(add_list(c, &c->all.rows[i], e));
        const struct record_table *t = recorded_measures[i]->tables;
        for (; t && t->name; t++) PASS(add_table(c, recorded_measures[i], t, e));
    }
    return OK;
}
