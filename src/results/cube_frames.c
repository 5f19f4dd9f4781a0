/* Makes the data frames, one per kind: flat columns of equal length, one row per record (and label
 * of the inner axis). Values on the grid are copied from there. Also makes sequences/, the flat
 * array that frames point into. */
#include "results/cube_build.h"

static enum status add_number(struct cube *c, const struct rows *r, int dim, struct err *e)
{
    struct cube_variable *x;
    PASS(cube_add_count(c, dim, "number of the row", e));
    if (!r->kind->inner) return OK;
    PASS(cube_add_column(c, r->kind->group, dim, r->kind->number, FIELD_INTEGER,
                         r->kind->number_long_name, &x, e));
    for (int64_t i = 0; i < x->n; i++) x->data.i[i] = r->rows[i].number;
    return OK;
}

/* --- from the grid --- */

static bool is_column(const struct kind *k, const struct cube_variable *x)
{
    bool wanted = !x->of || x->of == k || k->whole_grid;
    return x->group[0] == '\0' && wanted && cube_is_along(x, k);
}

/* Adds grid variables and axis labels as columns. */
static enum status add_gathered(struct cube *c, const struct rows *r, int dim, struct err *e)
{
    for (int64_t k = 0, n = c->n; k < n; k++) {
        const struct cube_variable *from = c->variables[k];
        struct cube_variable like = *from, *x;
        if (!is_column(r->kind, from)) continue;
        like.group = r->kind->group;
        like.rank = 1;
        like.dims[0] = dim;
        like.coordinates = NULL;
        if (from->is_scale) like.long_name = "label on the axis of that name";
        like.is_scale = false;
        PASS(cube_add(c, &like, &x, e));
        for (int64_t i = 0; i < x->n; i++) cube_copy(x, i, from, cube_place(c, from, &r->rows[i]));
    }
    return OK;
}

/* --- what is not on the grid --- */

static enum status add_field(struct cube *c, const struct rows *r, int dim,
                             const struct field *field, struct err *e)
{
    struct cube_variable *x;
    PASS(cube_add_field(c, field, r->kind->group, 1, &dim, &x, e));
    for (int64_t i = 0; i < x->n; i++) {
        const struct row *row = &r->rows[i];
        bool again = i > 0 && row[-1].number == row->number && field->place != IN_INNER;
        if (again && field->type == FIELD_TEXT)
            x->data.t[i] = x->data.t[i - 1];
        else
            PASS(cube_put_field(c, x, i, r, row, field, e));
    }
    return OK;
}

/* --- sequences --- */

static const json_t *sequence_loss(const struct rows *r, int64_t i)
{
    static const struct field field = {.name = "sequence_loss", .place = IN_INNER};
    return row_value(r, &r->rows[i], &field);
}

/* Adds every row's start and count in sequences/loss; *total: its length so far. */
static enum status add_spans(struct cube *c, const struct rows *r, int dim, int64_t *total,
                             struct err *e)
{
    struct cube_variable *start, *count;
    if (!r->kind->sequences) return OK;
    PASS(cube_add_column(c, r->kind->group, dim, "sequence_start", FIELD_INTEGER,
                         "place of the row's first sequence in sequences/loss", &start, e));
    PASS(cube_add_column(c, r->kind->group, dim, "sequence_count", FIELD_INTEGER,
                         "the row's number of sequences in sequences/loss", &count, e));
    for (int64_t i = 0; i < r->n; i++) {
        start->data.i[i] = *total;
        count->data.i[i] = (int64_t)json_array_size(sequence_loss(r, i));
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
        const struct rows *r = &c->all.rows[k];
        int dim;
        PASS(cube_add_dim(c, r->kind->group, "row", r->n, &dim, e));
        PASS(add_number(c, r, dim, e));
        PASS(add_gathered(c, r, dim, e));
        for (const struct field *f = r->kind->fields; f->name; f++)
            if (!kind_on_grid(r->kind, f)) PASS(add_field(c, r, dim, f, e));
        PASS(add_spans(c, r, dim, &sequences, e));
    }
    return add_sequences(c, sequences, e);
}
