/* Fills a cube's variables from the records of a view, one record at a time: a record as JSON takes
 * many times the memory of its numbers. */
#include "cube/cube_build.h"
#include "util/mem.h"

/* The variables of a group that are filled from fields of a kind's records. */
struct cube_fields {
    int64_t n, capacity;
    struct cube_variable **x; // (n)
};
/* The caller frees out->x, also after a failure. ERR_NOMEM. */
static enum status fields_of(const struct cube *c, const struct measure *k, const char *group,
                             struct cube_fields *out, struct err *e)
{
    *out = (struct cube_fields){0};
    for (int64_t i = 0; i < c->n; i++) {
        struct cube_variable *x = c->variables[i];
        if (x->of != k || !x->field || strcmp(x->group, group) != 0) continue;
        PASS(mem_grow(&out->x, out->n, &out->capacity, sizeof *out->x, e));
        out->x[out->n++] = x;
    }
    return OK;
}

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

enum status cube_add_lists(struct cube *c, struct err *e)
{
    for (int i = 0; recorded_measures[i]; i++) {
        const struct measure *k = recorded_measures[i];
        if (!measure_is_there(k, &c->all.axes)) continue;
        if (k->list) PASS(add_list(c, &c->all.rows[i], e));
        for (const struct record_table *t = k->tables; t && t->name; t++) {
            struct cube_variable *x;
            int dim;
            PASS(cube_add_dim(c, t->group, "row", 0, &dim, e));
            PASS(cube_add_count(c, dim, "number of the row", e));
            PASS(cube_add_column(c, t->group, dim, k->number, FIELD_INTEGER, k->number_long_name,
                                 &x, e));
            PASS(add_labels(c, k, dim, e));
            for (const struct field *f = t->columns; f->name; f++) {
                PASS(cube_add_field(c, f, t->group, 1, &dim, &x, e));
                x->of = k;
            }
        }
    }
    return OK;
}

/* --- the records of one kind --- */

struct filling {
    struct cube *cube;
    struct rows *rows;
    struct cube_fields grid, frame, list;
    struct cube_variable *start, *count, *sequences; /* NULL: the cube has none */
    struct cube_variable
        *names;     /* the coordinate of the list's parts; NULL: the kind has no list */
    json_t *places; /* part's name → index, in the order in which they appear */
};

static void filling_free(struct filling *f)
{
    json_decref(f->places);
    free(f->grid.x);
    free(f->frame.x);
    free(f->list.x);
}

/* Records of a sweep have mostly the same parts, so that the variables are widened a few times. */
static enum status add_names(const struct filling *f, const json_t *parts, struct err *e)
{
    size_t i;
    json_t *part;
    const int64_t before = f->names->n;
    json_array_foreach(parts, i, part) {
        const char *name = json_text(part, f->rows->kind->list->label, "");
        const int64_t at = f->names->n;
        char *copy;
        if (json_object_get(f->places, name)) continue;
        PASS(cube_extend(f->cube, f->names, at + 1, e));
        PASS(mem_string(&copy, name, e));
        PASS(cube_own(f->cube, copy, e));
        f->names->data.t[at] = copy;
        json_object_set_new(f->places, name, json_integer((json_int_t)at));
        PASS(json_whole(e));
    }
    for (int64_t k = 0; f->names->n > before && k < f->list.n; k++)
        PASS(cube_widen(f->cube, f->list.x[k], before, e));
    return OK;
}

static enum status put_list(const struct filling *f, const struct row *row, struct err *e)
{
    size_t i;
    json_t *part;
    const struct record_list *l = f->rows->kind->list;
    const json_t *parts = json_object_get(row->record, l->name);
    PASS(add_names(f, parts, e));
    json_array_foreach(parts, i, part) {
        const json_t *place = json_object_get(f->places, json_text(part, l->label, ""));
        const int64_t at = row->number * f->names->n + json_integer_value(place);
        for (int64_t k = 0; k < f->list.n; k++) {
            struct cube_variable *x = f->list.x[k];
            PASS(cube_put_copy(f->cube, x, at, json_object_get(part, x->field->name), e));
        }
    }
    return OK;
}

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
static enum status put_tables(struct cube *c, const struct measure *kind, const struct row *row,
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

/* in: the object that has the field. */
static enum status put_field(const struct filling *f, struct cube_variable *x, int64_t at,
                             const struct row *row, const json_t *in, struct err *e)
{
    const enum field_place place = x->field->place;
    if (x->field->type == FIELD_STATUS)
        x->data.s[at] = (uint8_t)result_state_of(row->record);
    else if (place == FRAME_KEY)
        x->data.t[at] = row->key;
    else if (place == FRAME_JSON)
        return cube_json(f->cube, json_object_get(in, x->field->name), &x->data.t[at], e);
    else if (place == IN_LABELS)
        cube_put(x, at, row_value(f->rows, row, x->field));
    else
        return cube_put_copy(f->cube, x, at, json_object_get(in, x->field->name), e);
    return OK;
}

/* Fills the elements of row i. first: of its record. */
static enum status put_fields(const struct filling *f, const struct cube_fields *fields, int64_t i,
                              bool first, struct err *e)
{
    const struct row *row = &f->rows->rows[i];
    const json_t *in[FRAME_JSON + 1];
    for (int place = 0; place <= FRAME_JSON; place++)
        in[place] = place == IN_INNER && !f->rows->kind->inner
                        ? NULL
                        : row_object(f->rows, row, (enum field_place)place);
    for (int64_t k = 0; k < fields->n; k++) {
        struct cube_variable *x = fields->x[k];
        const bool on_grid = x->group[0] == '\0';
        const int64_t at = on_grid ? cube_place(f->cube, x, row) : i;
        if (at < 0) continue;
        if (first || x->field->place == IN_INNER)
            PASS(put_field(f, x, at, row, in[x->field->place], e));
        else if (!on_grid)
            cube_copy(x, at, x, at - 1);
    }
    return OK;
}

static enum status put_sequences(const struct filling *f, int64_t i, struct err *e)
{
    struct cube_variable *x = f->sequences;
    if (!f->start || !x) return OK;
    const json_t *list =
        json_object_get(row_object(f->rows, &f->rows->rows[i], IN_INNER), "sequence_loss");
    const int64_t from = x->n, n = (int64_t)json_array_size(list);
    f->start->data.i[i] = from;
    f->count->data.i[i] = n;
    PASS(cube_extend(f->cube, x, from + n, e));
    for (int64_t s = 0; s < n; s++)
        x->data.d[from + s] = json_number_get(json_array_get(list, (size_t)s));
    return OK;
}

/* Rows i to before `end`, which have this record. */
static enum status put_record(const struct filling *f, json_t *record, int64_t i, int64_t end,
                              struct err *e)
{
    enum status st = OK;
    struct row *rows = f->rows->rows;
    const json_t *before = rows[i].record;
    for (int64_t k = i; k < end; k++) rows[k].record = record;
    for (int64_t k = i; k < end; k++) {
        TRY(put_fields(f, &f->grid, k, k == i, e));
        TRY(put_fields(f, &f->frame, k, k == i, e));
        TRY(put_sequences(f, k, e));
    }
    if (f->names) TRY(put_list(f, &rows[i], e));
    TRY(put_tables(f->cube, f->rows->kind, &rows[i], e));
done:
    for (int64_t k = i; k < end; k++) rows[k].record = before;
    return st;
}

static enum status fill_kind(struct cube *c, struct rows *r, const struct results_view *v,
                             struct err *e)
{
    const struct measure *k = r->kind;
    CLEANUP(filling_free) struct filling f = {.cube = c, .rows = r};
    json_auto_t *record = NULL;
    PASS(fields_of(c, k, "", &f.grid, e));
    PASS(fields_of(c, k, k->group, &f.frame, e));
    f.start = cube_find_in(c, k->group, "sequence_start");
    f.count = cube_find_in(c, k->group, "sequence_count");
    f.sequences = cube_find_in(c, "sequences", "loss");
    if (k->list && (f.names = cube_find_in(c, k->list->group, k->list->axis))) {
        PASS(fields_of(c, k, k->list->group, &f.list, e));
        f.places = json_object();
        PASS(json_whole(e));
    }
    for (int64_t i = 0, next; i < r->n; i = next) {
        next = rows_next(r, i);
        PASS(results_view_read(v, r->rows[i].key, &record, e));
        PASS(put_record(&f, record, i, next, e));
        json_drop(&record);
    }
    return OK;
}

enum status cube_fill(struct cube *c, const struct results_view *v, struct err *e)
{
    for (int k = 0; recorded_measures[k]; k++) PASS(fill_kind(c, &c->all.rows[k], v, e));
    cube_fill_derived(c);
    /* columns of data frames that repeat the grid, also other kinds' variables */
    for (int k = 0; recorded_measures[k]; k++)
        for (int64_t j = 0; j < c->n; j++) {
            struct cube_variable *x = c->variables[j];
            const struct rows *r = &c->all.rows[k];
            if (!x->from || strcmp(x->group, r->kind->group) != 0) continue;
            for (int64_t i = 0; i < x->n; i++)
                cube_copy(x, i, x->from, cube_place(c, x->from, &r->rows[i]));
        }
    return OK;
}
