/* The tables of a record of movement (measures/movement.c): their columns, row by row. */
#include "config/sweep.h"
#include "measures/distance.h"
#include <math.h>

static void append(json_t *table, const char *column, json_t *value)
{
    json_t *list = json_object_get(table, column);
    if (!list) {
        list = json_array();
        json_object_set_new(table, column, list);
    }
    json_array_append_new(list, value);
}

static void append_tensor(json_t *table, const struct tensor_description *t)
{
    append(table, "tensor", json_string(t->name));
    append(table, "layer", json_integer((json_int_t)t->layer));
}

static json_t *tensors_table(const struct distance *d)
{
    json_t *table = json_object();
    for (int64_t i = 0; i < d->n; i++) {
        const struct tensor_description *t = &d->tensors[i];
        append_tensor(table, t);
        append(table, "elements", json_integer((json_int_t)tensor_elements(t)));
        append(table, "quantized", json_integer(t->linear));
        append(table, "squared_distance", json_number_new(d->sums[i].distance));
        append(table, "squared_norm", json_number_new(d->sums[i].norm));
    }
    return table;
}

static json_t *grids_table(const struct distance *d)
{
    json_t *table = json_object();
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t k = 0; d->tensors[i].linear && k < d->grid->n_bits; k++) {
            const double steps = d->sums[i].steps[k];
            append_tensor(table, &d->tensors[i]);
            append(table, "bits", json_integer((json_int_t)d->grid->bits[k]));
            append(table, "step",
                   json_number_new(sqrt(steps / (double)tensor_elements(&d->tensors[i]))));
            append(table, "in_steps", json_number_new(sqrt(d->sums[i].distance / steps)));
        }
    return table;
}

static json_t *single_weights(const struct distance *d)
{
    json_t *table = json_object();
    for (int64_t k = 0; k < d->grid->n_bits; k++)
        for (int64_t i = 0; i < d->n_weights; i++) {
            append_tensor(table, &d->tensors[d->places[i].tensor]);
            append(table, "element", json_integer((json_int_t)d->places[i].element));
            append(table, "bits", json_integer((json_int_t)d->grid->bits[k]));
            append(table, "before", json_number_new(d->weights[i][WEIGHT_BEFORE]));
            append(table, "weight", json_number_new(d->weights[i][WEIGHT_NOW]));
            append(table, "rounded", json_number_new(d->weights[i][WEIGHT_ROUNDED + k]));
        }
    return table;
}

json_t *movement_tables(const struct distance *d)
{
    json_t *all = json_object();
    json_object_set_new(all, "tensors", tensors_table(d));
    json_object_set_new(all, "grids", grids_table(d));
    if (d->n_weights) json_object_set_new(all, "weights", single_weights(d));
    return all;
}
