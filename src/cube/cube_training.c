/* Makes the group of the training curves, which the plan has of the models that `qtraj train` has
 * made (config/steps_table.h). */
#include "cube/cube_build.h"
#include "util/num.h"

static const struct field columns[] = {
    {"step", "step", IN_LIST, FIELD_INTEGER, STABLE, "1", "last step of the row"},
    {"steps", "steps", IN_LIST, FIELD_INTEGER, STABLE, "1", "steps that it is of"},
    {"tokens", "tokens", IN_LIST, FIELD_REAL, STABLE, "1", "training tokens seen at its end"},
    {"learning_rate", "learning_rate", IN_LIST, FIELD_REAL, STABLE, "1", "rate of its last step"},
    {"loss", "training_loss", IN_LIST, FIELD_REAL, STABLE, "nat", "loss of its batches, mean"},
    {"gradient_norm", "training_gradient_norm", IN_LIST, FIELD_REAL, STABLE, "1",
     "norm of the gradient before clipping, mean"},
    {"validation_loss", "validation_loss", IN_LIST, FIELD_REAL, STABLE, "nat",
     "loss on what is held out, at its last checkpoint"},
    {"tokens_per_second", "tokens_per_second", IN_LIST, FIELD_REAL, VOLATILE, "1/s",
     "training tokens in a second"},
    {0},
};
static const char group[] = "training_curves";

enum status cube_add_training(struct cube *c, struct err *e)
{
    size_t i, k;
    const json_t *model, *value, *models = json_object_get(c->all.axes.plan, "models");
    struct cube_variable *names, *x;
    bool any = false;
    int64_t n = 0, at;
    int dim;
    json_array_foreach(models, i, model)
    {
        const json_t *curve = json_object_get(model, "training");
        any = any || curve;
        n += (int64_t)json_array_size(json_object_get(curve, columns[0].name));
    }
    if (!any) return OK;
    PASS(cube_add_dim(c, group, "row", n, &dim, e));
    PASS(cube_add_count(c, dim, "number of the row", e));
    PASS(cube_add_column(c, group, dim, "model", FIELD_TEXT, "name of the model", &names, e));
    for (const struct field *f = columns; f->name; f++) {
        PASS(cube_add_field(c, f, group, 1, &dim, &x, e));
        at = 0;
        json_array_foreach(models, i, model)
        {
            const json_t *curve = json_object_get(model, "training");
            json_array_foreach(json_object_get(curve, f->name), k, value)
            {
                if (at == n) break;
                cube_put(names, at, json_object_get(model, "name"));
                cube_put(x, at++, value);
            }
        }
    }
    return OK;
}
