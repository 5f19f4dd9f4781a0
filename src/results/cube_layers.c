/* layers/: per-layer quantities by (cell, layer). Layers are named by their tensors; the axis holds
 * every name that some cell has, in the order in which they appear. */
#include "results/cube.h"
#include <string.h>

static bool is_first_of_cell(const struct cube_rows *rows, int64_t i)
{
    return i == 0 || rows->rows[i - 1].cell != rows->rows[i].cell;
}

/* *names: name → place, in order. The caller json_decrefs it. */
static enum status collect_names(const struct cube_rows *cells, json_t **names, struct err *e)
{
    enum status st = OK;
    size_t k;
    json_t *layer;
    ENSURE(*names = json_object(), ERR_NOMEM, "out of memory for the layers' names");
    for (int64_t i = 0; i < cells->n; i++) {
        if (!is_first_of_cell(cells, i)) continue;
        json_array_foreach(json_object_get(cells->rows[i].record, "layers"), k, layer)
        {
            const char *name = json_text(layer, "name", "");
            if (json_object_get(*names, name)) continue;
            json_t *place = json_integer((json_int_t)json_object_size(*names));
            ENSURE(json_object_set_new(*names, name, place) == 0, ERR_NOMEM,
                   "out of memory for the layers' names");
        }
    }
done:
    return st;
}

static struct cube_variable in_layers(const char *name, enum cube_type type, enum cube_dim_place d,
                                      const char *long_name)
{
    return (struct cube_variable){.group = "layers",
                                  .name = name,
                                  .type = type,
                                  .rank = 1,
                                  .dims = {d},
                                  .units = type == CUBE_TEXT ? NULL : "1",
                                  .long_name = long_name};
}

static enum status add_labels(struct cube *c, const struct axes *a, const struct cube_rows *cells,
                              struct err *e)
{
    enum status st = OK;
    struct cube_variable *cell, *model, *name, *bits, *quantizer;
    struct cube_variable like = in_layers("cell", CUBE_INTEGER, DIM_CELL, "number of the cell");
    like.is_scale = true;
    TRY(cube_add(c, &like, &cell, e));
    like = in_layers("model", CUBE_TEXT, DIM_CELL, "trajectory of the cell");
    TRY(cube_add(c, &like, &model, e));
    like = in_layers("checkpoint_name", CUBE_TEXT, DIM_CELL, "checkpoint of the cell");
    TRY(cube_add(c, &like, &name, e));
    like = in_layers("bits", CUBE_INTEGER, DIM_CELL, "bits of the cell");
    TRY(cube_add(c, &like, &bits, e));
    like = in_layers("quantizer", CUBE_TEXT, DIM_CELL, "quantizer of the cell");
    TRY(cube_add(c, &like, &quantizer, e));
    for (int64_t i = 0; i < cells->n; i++) {
        const struct cube_row *row = &cells->rows[i];
        const struct axis_model *m = &a->models[row->at[DIM_MODEL]];
        cell->data.i[row->cell] = row->cell;
        model->data.t[row->cell] = m->name;
        name->data.t[row->cell] = m->checkpoints[row->at[DIM_CHECKPOINT]].name;
        bits->data.i[row->cell] = a->bits[row->at[DIM_BITS]];
        quantizer->data.t[row->cell] = a->quantizers[row->at[DIM_QUANTIZER]];
    }
done:
    return st;
}

static enum status add_names(struct cube *c, json_t *names, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    const char *name;
    json_t *place;
    struct cube_variable like =
        in_layers("layer", CUBE_TEXT, DIM_LAYER, "tensor of the layer's weights");
    like.is_scale = true;
    TRY(cube_add(c, &like, &x, e));
    json_object_foreach(names, name, place)
    {
        /* The text in the record outlives the table of names. */
        char *copy = NULL;
        ENSURE(copy = strdup(name), ERR_NOMEM, "out of memory for the layers' names");
        TRY(cube_own(c, copy, e));
        x->data.t[json_integer_value(place)] = copy;
    }
done:
    return st;
}

static enum status add_field(struct cube *c, const struct record_field *f, const json_t *names,
                             const struct cube_rows *cells, struct err *e)
{
    enum status st = OK;
    struct cube_variable *x;
    size_t k;
    json_t *layer;
    struct cube_variable like = {.group = "layers",
                                 .name = f->variable,
                                 .type = CUBE_DOUBLE,
                                 .rank = 2,
                                 .dims = {DIM_CELL, DIM_LAYER},
                                 .volatile_ = f->volatile_,
                                 .may_miss = true,
                                 .units = f->units,
                                 .long_name = f->long_name,
                                 .coordinates = "model checkpoint_name bits quantizer"};
    TRY(cube_add(c, &like, &x, e));
    for (int64_t i = 0; i < cells->n; i++) {
        if (!is_first_of_cell(cells, i)) continue;
        json_array_foreach(json_object_get(cells->rows[i].record, "layers"), k, layer)
        {
            int64_t at = json_integer_value(json_object_get(names, json_text(layer, "name", "")));
            x->data.d[cells->rows[i].cell * c->dims[DIM_LAYER].n + at] =
                json_number_get(json_object_get(layer, f->name));
        }
    }
done:
    return st;
}

enum status cube_build_layers(struct cube *c, const struct axes *a, const struct cube_rows *cells,
                              struct err *e)
{
    enum status st = OK;
    json_t *names = NULL;
    const struct record_field *f;
    TRY(collect_names(cells, &names, e));
    c->dims[DIM_LAYER].n = (int64_t)json_object_size(names);
    TRY(add_labels(c, a, cells, e));
    TRY(add_names(c, names, e));
    for (int i = 0; (f = record_field_at(i)); i++)
        if (f->scope == SCOPE_LAYER) TRY(add_field(c, f, names, cells, e));
done:
    json_decref(names);
    return st;
}
