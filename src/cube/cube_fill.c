/* Fills a cube's variables from the records of a view, one record at a time: a record as JSON takes
 * many times the memory of its numbers. */
#include "cube/cube_build.h"
#include "util/mem.h"

/* The variables of one kind. */
struct filling {
    struct cube *cube;
    struct rows *rows;
    struct cube_fields grid, frame;
    struct cube_variable *start, *count, *sequences; /* NULL: the cube has none */
    struct cube_list *list;
};

static void filling_free(struct filling *f)
{
    cube_list_end(f->list);
    free(f->grid.x);
    free(f->frame.x);
}

enum status cube_fields_of(const struct cube *c, const struct measure *k, const char *group,
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

/* --- fields --- */

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

/* --- sequences --- */

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

/* --- records --- */

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
    if (f->list) TRY(cube_list_take(f->list, &rows[i], e));
    TRY(cube_tables_take(f->cube, f->rows->kind, &rows[i], e));
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
    PASS(cube_fields_of(c, k, "", &f.grid, e));
    PASS(cube_fields_of(c, k, k->group, &f.frame, e));
    f.start = cube_find_in(c, k->group, "sequence_start");
    f.count = cube_find_in(c, k->group, "sequence_count");
    f.sequences = cube_find_in(c, "sequences", "loss");
    PASS(cube_list_begin(c, r, &f.list, e));
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
