/* The flat tables of curvature: record_tables, the rows of all checkpoints behind each other, each
 * with the number of its row in curvature/ and the names of its checkpoint. */
#include "results/cube.h"

static const enum cube_type cube_types[] = {
    [COLUMN_TEXT] = CUBE_TEXT,
    [COLUMN_INTEGER] = CUBE_INTEGER,
    [COLUMN_REAL] = CUBE_DOUBLE,
};

/* One table while it is made. */
struct making {
    struct cube *cube;
    const struct axes *axes;
    const struct cube_rows *rows; /* of curvature/ */
    const struct record_table *table;
    enum cube_dim_place dim;
};

static const json_t *columns_of(const struct making *m, int64_t i)
{
    return json_object_get(json_object_get(m->rows->rows[i].record, "tables"), m->table->name);
}

/* Rows of the table in the record of row i of curvature/: those of its first column. */
static int64_t count_of(const struct making *m, int64_t i)
{
    return (int64_t)json_array_size(json_object_get(columns_of(m, i), m->table->columns[0].name));
}

static enum status add(const struct making *m, const char *name, enum cube_type type,
                       const char *units, const char *long_name, struct cube_variable **out,
                       struct err *e)
{
    const struct cube_variable like = {.group = m->table->group,
                                       .name = name,
                                       .type = type,
                                       .rank = 1,
                                       .dims = {m->dim},
                                       .units = units,
                                       .long_name = long_name};
    return cube_add(m->cube, &like, out, e);
}

static enum status add_labels(const struct making *m, struct err *e)
{
    enum status st = OK;
    struct cube_variable *row, *of, *model, *name;
    int64_t at = 0;
    TRY(add(m, "row", CUBE_INTEGER, "1", "number of the row", &row, e));
    row->is_scale = true;
    TRY(add(m, "curvature_row", CUBE_INTEGER, "1", "row of the checkpoint in curvature/", &of, e));
    TRY(add(m, "model", CUBE_TEXT, NULL, "trajectory of the checkpoint", &model, e));
    TRY(add(m, "checkpoint_name", CUBE_TEXT, NULL, "name of the checkpoint", &name, e));
    for (int64_t i = 0; i < m->rows->n; i++) {
        const struct cube_row *r = &m->rows->rows[i];
        const struct axis_model *axis = &m->axes->models[r->at[DIM_MODEL]];
        for (int64_t k = 0, n = count_of(m, i); k < n; k++, at++) {
            row->data.i[at] = at;
            of->data.i[at] = i;
            model->data.t[at] = axis->name;
            name->data.t[at] = axis->checkpoints[r->at[DIM_CHECKPOINT]].name;
        }
    }
done:
    return st;
}

static enum status add_column(const struct making *m, const struct record_column *c, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    int64_t at = 0;
    TRY(add(m, c->name, cube_types[c->type], c->units, c->long_name, &x, e));
    x->may_miss = c->type != COLUMN_TEXT;
    for (int64_t i = 0; i < m->rows->n; i++) {
        const json_t *values = json_object_get(columns_of(m, i), c->name);
        for (int64_t k = 0, n = count_of(m, i); k < n; k++, at++) {
            const json_t *value = json_array_get(values, (size_t)k);
            if (c->type == COLUMN_TEXT && json_is_string(value))
                x->data.t[at] = json_string_value(value);
            if (c->type == COLUMN_INTEGER && json_is_integer(value))
                x->data.i[at] = json_integer_value(value);
            if (c->type == COLUMN_REAL) x->data.d[at] = json_number_get(value);
        }
    }
done:
    return st;
}

enum status cube_build_tables(struct cube *c, const struct axes *a,
                              const struct cube_rows *curvature, struct err *e)
{
    enum status st = OK;
    for (int t = 0; t < RECORD_TABLES; t++) {
        const struct record_table *table = &record_tables[t];
        enum cube_dim_place dim = (enum cube_dim_place)(DIM_TABLE + t);
        const struct making m = {c, a, curvature, table, dim};
        for (int64_t i = 0; i < curvature->n; i++) c->dims[dim].n += count_of(&m, i);
        TRY(add_labels(&m, e));
        for (int k = 0; k < table->n; k++) TRY(add_column(&m, &table->columns[k], e));
    }
done:
    return st;
}
