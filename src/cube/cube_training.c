/* Makes the group of the training curves, which the plan has of the models that `qtraj train` has
 * made (records/steps_table.h). */
#include "cube/cube_build.h"
#include "records/steps_table.h"

static const char group[] = "training_curves";

enum status cube_add_training(struct cube *c, struct err *e)
{
    size_t i, k;
    const json_t *model, *value, *models = json_object_get(c->all.axes.plan, "models");
    struct cube_variable *names, *x;
    bool any = false;
    int64_t n = 0, at;
    int dim;
    json_array_foreach(models, i, model) {
        const json_t *curve = json_object_get(model, "training");
        any = any || curve;
        n += (int64_t)json_array_size(json_object_get(curve, steps_curve_columns[0].name));
    }
    if (!any) return OK;
    PASS(cube_add_dim(c, group, "row", n, &dim, e));
    PASS(cube_add_count(c, dim, "number of the row", e));
    PASS(cube_add_column(c, group, dim, "model", FIELD_TEXT, "name of the model", &names, e));
    for (const struct field *f = steps_curve_columns; f->name; f++) {
        PASS(cube_add_field(c, f, group, 1, &dim, &x, e));
        at = 0;
        json_array_foreach(models, i, model) {
            const json_t *curve = json_object_get(model, "training");
            json_array_foreach(json_object_get(curve, f->name), k, value) {
                if (at == n) break;
                cube_put(names, at, json_object_get(model, "name"));
                cube_put(x, at++, value);
            }
        }
    }
    return OK;
}
