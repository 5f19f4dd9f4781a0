/* Makes the data frames, one per kind: flat columns of equal length, one row per record (and label
 * of the inner axis). Values on the grid are repeated there. Also makes sequences/, the flat array
 * that frames point into. */
#include "cube/cube_build.h"

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

static bool is_column(const struct measure *k, const struct cube_variable *x)
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
        like.of = NULL;
        like.field = NULL;
        like.from = from;
        PASS(cube_add(c, &like, &x, e));
    }
    return OK;
}

enum status cube_add_frames(struct cube *c, struct err *e)
{
    struct cube_variable *x;
    int sequences;
    for (int k = 0; recorded_measures[k]; k++) {
        const struct rows *r = &c->all.rows[k];
        int dim;
        if (!measure_is_there(r->kind, &c->all.axes)) continue;
        PASS(cube_add_dim(c, r->kind->group, "row", r->n, &dim, e));
        PASS(add_number(c, r, dim, e));
        PASS(add_gathered(c, r, dim, e));
        for (const struct field *f = r->kind->fields; f->name; f++) {
            if (measure_on_grid(r->kind, f)) continue;
            PASS(cube_add_field(c, f, r->kind->group, 1, &dim, &x, e));
            x->of = r->kind;
        }
        if (!r->kind->sequences) continue;
        PASS(cube_add_column(c, r->kind->group, dim, "sequence_start", FIELD_INTEGER,
                             "place of the row's first sequence in sequences/loss", &x, e));
        PASS(cube_add_column(c, r->kind->group, dim, "sequence_count", FIELD_INTEGER,
                             "the row's number of sequences in sequences/loss", &x, e));
    }
    PASS(cube_add_dim(c, "sequences", "sequence", 0, &sequences, e));
    PASS(cube_add_column(
        c, "sequences", sequences, "loss", FIELD_REAL,
        "cross-entropy per token of each sequence, rows of checkpoints/, then cells/", &x, e));
    x->may_miss = true;
    x->units = "nat";
    return OK;
}
