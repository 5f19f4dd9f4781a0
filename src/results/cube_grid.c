/* The grid: coordinates, what a trajectory table says, and every quantity of the field table along
 * its axes. */
#include "results/cube.h"
#include <string.h>

static const char trajectory_names[] =
    "checkpoint_name step tokens learning_rate phase kind recipe";

/* The axes of a scope, in the cube's order. */
static const struct scope_dims {
    int rank;
    enum cube_dim_place dims[CUBE_RANK];
} scope_dims[] = {
    [SCOPE_CHECKPOINT] = {2, {DIM_MODEL, DIM_CHECKPOINT}},
    [SCOPE_CHECKPOINT_DATASET] = {3, {DIM_MODEL, DIM_CHECKPOINT, DIM_DATASET}},
    [SCOPE_CELL] = {4, {DIM_MODEL, DIM_CHECKPOINT, DIM_BITS, DIM_QUANTIZER}},
    [SCOPE_CURVATURE] = {2, {DIM_MODEL, DIM_CHECKPOINT}},
    [SCOPE_CELL_DATASET] = {5, {DIM_MODEL, DIM_CHECKPOINT, DIM_BITS, DIM_QUANTIZER, DIM_DATASET}},
};

static struct cube_variable on_grid(enum record_scope scope, const char *name, enum cube_type type,
                                    const char *units, const char *long_name)
{
    struct cube_variable x = {.group = "",
                              .name = name,
                              .type = type,
                              .rank = scope_dims[scope].rank,
                              .units = units,
                              .long_name = long_name,
                              .of_curvature = scope == SCOPE_CURVATURE,
                              .may_miss = type == CUBE_DOUBLE || type == CUBE_INTEGER,
                              .coordinates = trajectory_names};
    memcpy(x.dims, scope_dims[scope].dims, sizeof x.dims);
    return x;
}

/* --- coordinates --- */

static enum status add_scale(struct cube *c, enum cube_dim_place dim, enum cube_type type,
                             const char *long_name, struct cube_variable **out, struct err *e)
{
    const struct cube_variable like = {.group = "",
                                       .name = c->dims[dim].name,
                                       .type = type,
                                       .rank = 1,
                                       .dims = {dim},
                                       .is_scale = true,
                                       .units = type == CUBE_TEXT ? NULL : "1",
                                       .long_name = long_name};
    return cube_add(c, &like, out, e);
}

static enum status add_coordinates(struct cube *c, const struct axes *a, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    TRY(add_scale(c, DIM_MODEL, CUBE_TEXT, "trajectory: one training run", &x, e));
    for (int64_t i = 0; i < a->n_models; i++) x->data.t[i] = a->models[i].name;
    TRY(add_scale(c, DIM_CHECKPOINT, CUBE_INTEGER, "place in the trajectory", &x, e));
    for (int64_t i = 0; i < a->n_checkpoints; i++) x->data.i[i] = i;
    TRY(add_scale(c, DIM_BITS, CUBE_INTEGER, "bits of a quantized weight's code", &x, e));
    memcpy(x->data.i, a->bits, (size_t)a->n_bits * sizeof *a->bits);
    TRY(add_scale(c, DIM_QUANTIZER, CUBE_TEXT, "label of the quantization method", &x, e));
    memcpy(x->data.t, a->quantizers, (size_t)a->n_quantizers * sizeof *a->quantizers);
    TRY(add_scale(c, DIM_DATASET, CUBE_TEXT, "evaluation text", &x, e));
    memcpy(x->data.t, a->datasets, (size_t)a->n_datasets * sizeof *a->datasets);
done:
    return st;
}

/* --- what the trajectory tables say --- */

static enum status add_of_trajectory(struct cube *c, const char *name, enum cube_type type,
                                     const char *units, const char *long_name,
                                     struct cube_variable **out, struct err *e)
{
    struct cube_variable like = on_grid(SCOPE_CHECKPOINT, name, type, units, long_name);
    like.coordinates = NULL;
    like.in_cells = true;
    return cube_add(c, &like, out, e);
}

static enum status add_trajectories(struct cube *c, const struct axes *a, struct err *e)
{
    enum status st = OK;
    struct cube_variable *name, *step, *tokens, *rate, *phase, *kind, *recipe;
    TRY(add_of_trajectory(c, "checkpoint_name", CUBE_TEXT, NULL, "name of the checkpoint", &name,
                          e));
    TRY(add_of_trajectory(c, "step", CUBE_INTEGER, "1", "training step", &step, e));
    TRY(add_of_trajectory(c, "tokens", CUBE_DOUBLE, "1", "training tokens seen", &tokens, e));
    TRY(add_of_trajectory(c, "learning_rate", CUBE_DOUBLE, "1", "learning rate", &rate, e));
    TRY(add_of_trajectory(c, "phase", CUBE_TEXT, NULL, "phase of the training", &phase, e));
    TRY(add_of_trajectory(c, "kind", CUBE_TEXT, NULL, "stored, or average", &kind, e));
    TRY(add_of_trajectory(c, "recipe", CUBE_TEXT, NULL, "what an average is made of", &recipe, e));
    for (int64_t m = 0; m < a->n_models; m++)
        for (int64_t k = 0; k < a->models[m].n; k++) {
            const struct axis_checkpoint *from = &a->models[m].checkpoints[k];
            int64_t at = m * a->n_checkpoints + k;
            name->data.t[at] = from->name;
            step->data.i[at] = from->step;
            tokens->data.d[at] = from->tokens;
            rate->data.d[at] = from->learning_rate;
            phase->data.t[at] = from->phase;
            kind->data.t[at] = from->kind;
            recipe->data.t[at] = from->recipe;
        }
done:
    return st;
}

/* --- status and message --- */

static enum status add_status(struct cube *c, enum record_scope scope, const char *status_name,
                              const char *message_name, const struct cube_rows *rows, struct err *e)
{
    enum status st = OK;
    struct cube_variable *status, *message;
    struct cube_variable like = on_grid(scope, status_name, CUBE_STATUS, NULL,
                                        "how far it is; NaN beside done is a result");
    TRY(cube_add(c, &like, &status, e));
    like = on_grid(scope, message_name, CUBE_TEXT, NULL, "why it failed");
    TRY(cube_add(c, &like, &message, e));
    for (int64_t i = 0; i < rows->n; i++) {
        int64_t at = cube_place(c, status, &rows->rows[i]);
        status->data.s[at] = (uint8_t)cube_status_of(rows->rows[i].record);
        message->data.t[at] = json_text(rows->rows[i].record, "message", "");
    }
done:
    return st;
}

/* A text of the records' provenance. */
static enum status add_text(struct cube *c, enum record_scope scope, const char *name,
                            const char *key, const char *long_name, const struct cube_rows *rows,
                            struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    struct cube_variable like = on_grid(scope, name, CUBE_TEXT, NULL, long_name);
    TRY(cube_add(c, &like, &x, e));
    for (int64_t i = 0; i < rows->n; i++)
        x->data.t[cube_place(c, x, &rows->rows[i])] =
            json_text(json_object_get(rows->rows[i].record, "provenance"), key, "");
done:
    return st;
}

/* --- quantities --- */

static void put_number(struct cube_variable *x, int64_t at, const json_t *value)
{
    if (x->type == CUBE_DOUBLE)
        x->data.d[at] = json_number_get(value);
    else if (json_is_integer(value))
        x->data.i[at] = json_integer_value(value);
}

static enum status add_field(struct cube *c, const struct axes *a, const struct record_field *f,
                             const struct cube_rows *rows, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    bool of_dataset = f->scope == SCOPE_CHECKPOINT_DATASET || f->scope == SCOPE_CELL_DATASET;
    struct cube_variable like = on_grid(
        f->scope, f->variable, f->integer ? CUBE_INTEGER : CUBE_DOUBLE, f->units, f->long_name);
    like.volatile_ = f->volatile_;
    TRY(cube_add(c, &like, &x, e));
    for (int64_t i = 0; i < rows->n; i++) {
        const struct cube_row *row = &rows->rows[i];
        int64_t at = cube_place(c, x, row), d = row->at[DIM_DATASET];
        const json_t *values = json_object_get(row->record, of_dataset ? "datasets" : "values");
        if (at < 0 || !values) continue;
        if (of_dataset) values = json_object_get(values, a->datasets[d]);
        put_number(x, at, json_object_get(values, f->name));
    }
done:
    return st;
}

enum status cube_build_grid(struct cube *c, const struct axes *a,
                            const struct cube_rows *checkpoints, const struct cube_rows *cells,
                            const struct cube_rows *curvature, struct err *e)
{
    enum status st = OK;
    const struct record_field *f;
    TRY(add_coordinates(c, a, e));
    TRY(add_trajectories(c, a, e));
    TRY(add_status(c, SCOPE_CHECKPOINT, "checkpoint_status", "checkpoint_message", checkpoints, e));
    TRY(add_text(c, SCOPE_CHECKPOINT, "weights_hash", "weights_hash",
                 "digest of the checkpoint's weights", checkpoints, e));
    TRY(add_status(c, SCOPE_CELL, "status", "message", cells, e));
    TRY(add_status(c, SCOPE_CURVATURE, "curvature_status", "curvature_message", curvature, e));
    TRY(add_text(c, SCOPE_CURVATURE, "curvature_subset", "subset",
                 "parameters whose Hessian is measured", curvature, e));
    TRY(add_text(c, SCOPE_CURVATURE, "sharpness_method", "sharpness",
                 "how sharpness was found: power or lanczos", curvature, e));
    for (int i = 0; (f = record_field_at(i)); i++) {
        if (f->scope == SCOPE_LAYER || f->scope == SCOPE_POINT) continue;
        bool of_cell = f->scope == SCOPE_CELL || f->scope == SCOPE_CELL_DATASET;
        TRY(add_field(c, a, f,
                      of_cell                       ? cells
                      : f->scope == SCOPE_CURVATURE ? curvature
                                                    : checkpoints,
                      e));
    }
done:
    return st;
}
