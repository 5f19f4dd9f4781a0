/* The grid: coordinates, what the trajectory tables say, and the fields of every kind along its
 * axes. */
#include "results/cube_build.h"
#include <string.h>

/* Of each checkpoint in the plan. */
static const struct field trajectory[] = {
    {"name", "checkpoint_name", IN_RECORD, FIELD_TEXT, STABLE, NULL, "name of the checkpoint"},
    {"step", "step", IN_RECORD, FIELD_INTEGER, STABLE, "1", "training step"},
    {"tokens", "tokens", IN_RECORD, FIELD_REAL, STABLE, "1", "training tokens seen"},
    {"learning_rate", "learning_rate", IN_RECORD, FIELD_REAL, STABLE, "1", "learning rate"},
    {"phase", "phase", IN_RECORD, FIELD_TEXT, STABLE, NULL, "phase of the training"},
    {"kind", "kind", IN_RECORD, FIELD_TEXT, STABLE, NULL, "stored, or average"},
    {"recipe", "recipe", IN_RECORD, FIELD_TEXT, STABLE, NULL, "what an average is made of"},
    {0},
};
static const char trajectory_names[] =
    "checkpoint_name step tokens learning_rate phase kind recipe";

static enum status add_coordinates(struct cube *c, struct err *e)
{
    for (int i = 0; results_axes[i]; i++) {
        const struct axis_labels *l = &c->all.axes.labels[i];
        struct cube_variable *x;
        int dim;
        PASS(cube_add_dim(c, "", results_axes[i]->name, l->n, &dim, e));
        PASS(cube_add_column(c, "", dim, results_axes[i]->name,
                             results_axes[i]->number ? FIELD_INTEGER : FIELD_TEXT,
                             results_axes[i]->long_name, &x, e));
        x->is_scale = true;
        const void *from = results_axes[i]->number ? (void *)l->numbers : (void *)l->texts;
        if (l->n) memcpy(x->data.any, from, (size_t)l->n * cube_element_size[x->type]);
    }
    return OK;
}

static enum status add_trajectories(struct cube *c, struct err *e)
{
    int64_t longest = c->all.axes.labels[AXIS_CHECKPOINT].n;
    for (const struct field *f = trajectory; f->name; f++) {
        struct cube_variable *x;
        PASS(cube_add_field(c, f, "", 2, (int[]){AXIS_MODEL, AXIS_CHECKPOINT}, &x, e));
        for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
            for (int64_t k = 0; k < c->all.axes.models[m].n; k++)
                cube_put(x, m * longest + k,
                         json_object_get(c->all.axes.models[m].checkpoints[k].plan, f->name));
    }
    return OK;
}

static enum status add_field(struct cube *c, const struct rows *r, const struct field *f,
                             struct err *e)
{
    struct cube_variable *x;
    int dims[CUBE_RANK], rank = 0;
    for (; r->kind->axes[rank]; rank++) dims[rank] = axis_place_of(r->kind->axes[rank]);
    if (f->place == IN_INNER) dims[rank++] = axis_place_of(r->kind->inner);
    PASS(cube_add_field(c, f, "", rank, dims, &x, e));
    x->of = r->kind;
    x->coordinates = trajectory_names;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = cube_place(c, x, &r->rows[i]);
        if (at >= 0) PASS(cube_put_field(c, x, at, r, &r->rows[i], f, e));
    }
    return OK;
}

/* All that are numbers, or all that are not. */
static enum status add_fields(struct cube *c, bool numbers, struct err *e)
{
    for (int k = 0; results_kinds[k]; k++)
        for (const struct field *f = results_kinds[k]->fields; f->name; f++) {
            bool number = f->type == FIELD_REAL || f->type == FIELD_INTEGER;
            if (kind_on_grid(results_kinds[k], f) && number == numbers)
                PASS(add_field(c, &c->all.rows[k], f, e));
        }
    return OK;
}

enum status cube_add_grid(struct cube *c, struct err *e)
{
    PASS(add_coordinates(c, e));
    PASS(add_trajectories(c, e));
    PASS(add_fields(c, false, e));
    return add_fields(c, true, e);
}
