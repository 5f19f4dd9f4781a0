/* The data frames, one a kind: flat columns of one length, one row for each record or, if it has an
 * inner axis, each of its labels. What is on the grid is taken from there. And sequences/, the flat
 * array that frames point into. */
#include "results/cube_build.h"

/* One of the frames while it is made. */
struct frame {
    struct cube *cube;
    const struct kind *kind;
    const struct rows *rows;
    int dim;
};

static enum status add_number(const struct frame *f, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    TRY(cube_add_count(f->cube, f->dim, "number of the row", e));
    if (!f->kind->inner) goto done;
    TRY(cube_add_column(f->cube, f->kind->group, f->dim, f->kind->number, FIELD_INTEGER,
                        f->kind->number_long_name, &x, e));
    for (int64_t i = 0; i < x->n; i++) x->data.i[i] = f->rows->rows[i].number;
done:
    return st;
}

/* --- from the grid --- */

static bool is_column(const struct frame *f, const struct cube_variable *x)
{
    bool wanted = !x->of || x->of == f->kind || f->kind->whole_grid;
    return x->group[0] == '\0' && wanted && cube_is_along(x, f->kind);
}

/* Grid variables and labels of the axes, seen along the rows. */
static enum status add_gathered(const struct frame *f, struct err *e)
{
    for (int64_t k = 0, n = f->cube->n; k < n; k++) {
        const struct cube_variable *from = f->cube->variables[k];
        struct cube_variable like = *from, *x;
        if (!is_column(f, from)) continue;
        like.group = f->kind->group;
        like.rank = 1;
        like.dims[0] = f->dim;
        like.coordinates = NULL;
        if (from->is_scale) like.long_name = "label on the axis of that name";
        like.is_scale = false;
        PASS(cube_add(f->cube, &like, &x, e));
        for (int64_t i = 0; i < x->n; i++)
            cube_copy(x, i, from, cube_place(f->cube, from, &f->rows->rows[i]));
    }
    return OK;
}

/* --- what is not on the grid --- */

static enum status add_field(const struct frame *f, const struct field *field, struct err *e)
{
    struct cube_variable *x;
    PASS(cube_add_field(f->cube, field, f->kind->group, 1, &f->dim, &x, e));
    for (int64_t i = 0; i < x->n; i++) {
        const struct row *row = &f->rows->rows[i];
        bool again = i > 0 && row[-1].number == row->number && field->place != IN_INNER;
        if (again && field->type == FIELD_TEXT)
            x->data.t[i] = x->data.t[i - 1];
        else
            PASS(cube_put_field(f->cube, x, i, f->rows, row, field, e));
    }
    return OK;
}

static enum status add_rest(const struct frame *f, struct err *e)
{
    for (const struct field *field = f->kind->fields; field->name; field++)
        if (!kind_on_grid(f->kind, field)) PASS(add_field(f, field, e));
    return OK;
}

/* --- sequences --- */

static const json_t *sequence_loss(const struct rows *r, int64_t i)
{
    static const struct field field = {.name = "sequence_loss", .place = IN_INNER};
    return row_value(r, &r->rows[i], &field);
}

/* Every row's start and count in sequences/loss; *total: what is already there. */
static enum status add_spans(const struct frame *f, int64_t *total, struct err *e)
{
    struct cube_variable *start, *count;
    if (!f->kind->sequences) return OK;
    PASS(cube_add_column(f->cube, f->kind->group, f->dim, "sequence_start", FIELD_INTEGER,
                         "place of the row's first sequence in sequences/loss", &start, e));
    PASS(cube_add_column(f->cube, f->kind->group, f->dim, "sequence_count", FIELD_INTEGER,
                         "the row's number of sequences in sequences/loss", &count, e));
    for (int64_t i = 0; i < f->rows->n; i++) {
        start->data.i[i] = *total;
        count->data.i[i] = (int64_t)json_array_size(sequence_loss(f->rows, i));
        *total += count->data.i[i];
    }
    return OK;
}

static enum status add_sequences(struct cube *c, int64_t total, struct err *e)
{
    struct cube_variable *x;
    int dim;
    int64_t at = 0;
    PASS(cube_add_dim(c, "sequences", "sequence", total, &dim, e));
    PASS(cube_add_column(
        c, "sequences", dim, "loss", FIELD_REAL,
        "cross-entropy per token of each sequence, rows of checkpoints/, then cells/", &x, e));
    x->may_miss = true;
    x->units = "nat";
    for (int k = 0; results_kinds[k]; k++)
        for (int64_t i = 0; results_kinds[k]->sequences && i < c->all.rows[k].n; i++) {
            const json_t *list = sequence_loss(&c->all.rows[k], i);
            for (size_t s = 0; s < json_array_size(list); s++)
                x->data.d[at++] = json_number_get(json_array_get(list, s));
        }
    return OK;
}

enum status cube_add_frames(struct cube *c, struct err *e)
{
    int64_t sequences = 0;
    for (int k = 0; results_kinds[k]; k++) {
        struct frame f = {c, results_kinds[k], &c->all.rows[k], 0};
        PASS(cube_add_dim(c, f.kind->group, "row", f.rows->n, &f.dim, e));
        PASS(add_number(&f, e));
        PASS(add_gathered(&f, e));
        PASS(add_rest(&f, e));
        PASS(add_spans(&f, &sequences, e));
    }
    return add_sequences(c, sequences, e);
}
