/* Makes the groups of lists, with variables of (record, part), and of tables, with flat columns;
 * both with columns that identify the record. */
#include "results/cube_build.h"
#include "util/mem.h"

/* --- columns that identify the record --- */

static const json_t *columns_of(const struct row *row, const struct record_table *t)
{
    return json_object_get(json_object_get(row->record, "tables"), t->name);
}

/* Rows of a record: the length of the table's first column; 1 for a list (t NULL). */
static int64_t count_of(const struct row *row, const struct record_table *t)
{
    return t ? (int64_t)json_array_size(json_object_get(columns_of(row, t), t->columns[0].name))
             : 1;
}

static const char *label_name(const struct axis *axis)
{
    return axis == &axis_checkpoint ? "checkpoint_name" : axis->name;
}

/* Adds the labels of each record on its kind's axes as columns along a dimension; t as in count_of.
 */
static enum status add_labels(struct cube *c, const struct rows *r, const struct record_table *t,
                              int dim, struct err *e)
{
    for (int k = 0; r->kind->axes[k]; k++) {
        const struct cube_variable *from = cube_find(c, label_name(r->kind->axes[k]));
        struct cube_variable *x;
        int64_t at = 0;
        PASS(cube_add_column(c, c->dims[dim].group, dim, from->name, from->type,
                             r->kind->axis_long_names[k], &x, e));
        for (int64_t i = 0; i < r->n; i = rows_next(r, i))
            for (int64_t j = 0, n = count_of(&r->rows[i], t); j < n; j++)
                cube_copy(x, at++, from, cube_place(c, from, &r->rows[i]));
    }
    return OK;
}

/* --- lists --- */

/* *names: part's name → index, in the order in which they appear. The caller json_decrefs it. */
static enum status collect_names(const struct rows *r, json_t **names, struct err *e)
{
    const struct record_list *l = r->kind->list;
    size_t k;
    json_t *part;
    NEED(*names = json_object(), ERR_NOMEM, "out of memory for names");
    for (int64_t i = 0; i < r->n; i = rows_next(r, i))
        json_array_foreach(json_object_get(r->rows[i].record, l->name), k, part)
        {
            const char *name = json_text(part, l->label, "");
            if (json_object_get(*names, name)) continue;
            json_t *place = json_integer((json_int_t)json_object_size(*names));
            NEED(json_object_set_new(*names, name, place) == 0, ERR_NOMEM,
                 "out of memory for names");
        }
    return OK;
}

static enum status add_names(struct cube *c, const struct record_list *l, json_t *names, int dim,
                             struct err *e)
{
    struct cube_variable *x;
    const char *name;
    json_t *place;
    PASS(cube_add_column(c, l->group, dim, l->axis, FIELD_TEXT, l->long_name, &x, e));
    x->is_scale = true;
    json_object_foreach(names, name, place)
    {
        /* Copied because the cube outlives `names`. */
        char *copy;
        PASS(mem_string(&copy, name, e));
        PASS(cube_own(c, copy, e));
        x->data.t[json_integer_value(place)] = copy;
    }
    return OK;
}

static enum status add_list_field(struct cube *c, const struct rows *r, const struct field *f,
                                  const json_t *names, const int dims[2], const char *coordinates,
                                  struct err *e)
{
    const struct record_list *l = r->kind->list;
    struct cube_variable *x;
    size_t k;
    json_t *part;
    PASS(cube_add_field(c, f, l->group, 2, dims, &x, e));
    x->coordinates = coordinates;
    for (int64_t i = 0; i < r->n; i = rows_next(r, i))
        json_array_foreach(json_object_get(r->rows[i].record, l->name), k, part)
        {
            int64_t at = json_integer_value(json_object_get(names, json_text(part, l->label, "")));
            cube_put(x, r->rows[i].number * c->dims[dims[1]].n + at,
                     json_object_get(part, f->name));
        }
    return OK;
}

static enum status add_list(struct cube *c, const struct rows *r, struct err *e)
{
    enum status st = OK;
    const struct record_list *l = r->kind->list;
    json_t *names = NULL;
    char *number, *coordinates;
    int dims[2];
    TRY(collect_names(r, &names, e));
    TRY(cube_add_dim(c, l->group, r->kind->name, r->n_records, &dims[0], e));
    TRY(cube_add_dim(c, l->group, l->axis, (int64_t)json_object_size(names), &dims[1], e));
    TRY(mem_format(&number, e, "number of the %s", r->kind->name));
    TRY(cube_own(c, number, e));
    TRY(mem_string(&coordinates, label_name(r->kind->axes[0]), e));
    TRY(cube_own(c, coordinates, e));
    for (int k = 1; r->kind->axes[k]; k++) {
        TRY(mem_format(&coordinates, e, "%s %s", coordinates, label_name(r->kind->axes[k])));
        TRY(cube_own(c, coordinates, e));
    }
    TRY(cube_add_count(c, dims[0], number, e));
    TRY(add_labels(c, r, NULL, dims[0], e));
    TRY(add_names(c, l, names, dims[1], e));
    for (const struct field *f = l->fields; f->name; f++)
        TRY(add_list_field(c, r, f, names, dims, coordinates, e));
done:
    json_decref(names);
    return st;
}

/* --- tables --- */

static enum status add_table_column(struct cube *c, const struct rows *r,
                                    const struct record_table *t, const struct field *f, int dim,
                                    struct err *e)
{
    struct cube_variable *x;
    int64_t at = 0;
    PASS(cube_add_field(c, f, t->group, 1, &dim, &x, e));
    for (int64_t i = 0; i < r->n; i = rows_next(r, i)) {
        const json_t *values = json_object_get(columns_of(&r->rows[i], t), f->name);
        for (int64_t k = 0, n = count_of(&r->rows[i], t); k < n; k++)
            cube_put(x, at++, json_array_get(values, (size_t)k));
    }
    return OK;
}

static enum status add_table(struct cube *c, const struct rows *r, const struct record_table *t,
                             struct err *e)
{
    struct cube_variable *of;
    int64_t total = 0, at = 0;
    int dim;
    for (int64_t i = 0; i < r->n; i = rows_next(r, i)) total += count_of(&r->rows[i], t);
    PASS(cube_add_dim(c, t->group, "row", total, &dim, e));
    PASS(cube_add_count(c, dim, "number of the row", e));
    PASS(cube_add_column(c, t->group, dim, r->kind->number, FIELD_INTEGER,
                         r->kind->number_long_name, &of, e));
    for (int64_t i = 0; i < r->n; i = rows_next(r, i))
        for (int64_t k = 0, n = count_of(&r->rows[i], t); k < n; k++)
            of->data.i[at++] = r->rows[i].number;
    PASS(add_labels(c, r, t, dim, e));
    for (const struct field *f = t->columns; f->name; f++)
        PASS(add_table_column(c, r, t, f, dim, e));
    return OK;
}

enum status cube_add_lists(struct cube *c, struct err *e)
{
    for (int i = 0; results_kinds[i]; i++) {
        if (results_kinds[i]->list) PASS(add_list(c, &c->all.rows[i], e));
        const struct record_table *t = results_kinds[i]->tables;
        for (; t && t->name; t++) PASS(add_table(c, &c->all.rows[i], t, e));
    }
    return OK;
}
