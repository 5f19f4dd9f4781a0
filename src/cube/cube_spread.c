/* Mean and standard deviation of cells over their replicates. */
#include "cube/cube_build.h"
#include "util/num.h"
#include <math.h>

static enum status add(struct cube *c, const char *name, enum field_type type, int rank,
                       const int *dims, const char *units, const char *long_name, struct err *e)
{
    struct cube_variable like = {.group = "",
                                 .name = name,
                                 .type = type,
                                 .rank = rank,
                                 .of = &measure_cell,
                                 .may_miss = true,
                                 .units = units,
                                 .long_name = long_name,
                                 .coordinates = c->coordinates},
                         *x;
    for (int i = 0; i < rank; i++) like.dims[i] = dims[i];
    return cube_add(c, &like, &x, e);
}

static enum status add_of_kind(struct cube *c, const struct measure *k, struct err *e)
{
    static const int dims[] = {AXIS_MODEL, AXIS_CHECKPOINT, AXIS_BITS, AXIS_QUANTIZER,
                               AXIS_DATASET};
    for (const struct measure_spread *s = k->spreads; s->of; s++) {
        PASS(add(c, s->mean, FIELD_REAL, 5, dims, s->units, s->mean_long_name, e));
        PASS(add(c, s->deviation, FIELD_REAL, 5, dims, s->units, s->deviation_long_name, e));
    }
    return add(c, k->spread_count, FIELD_INTEGER, 4, dims, "1",
               "replicates that are done, the cell included", e);
}

enum status cube_add_spreads(struct cube *c, struct err *e)
{
    for (int k = 0; recorded_measures[k]; k++)
        if (recorded_measures[k]->spreads && measure_is_there(recorded_measures[k], &c->all.axes))
            PASS(add_of_kind(c, recorded_measures[k], e));
    return OK;
}

/* Of the cell of `row`, whose elements of these variables are NaN where nothing is done. */
static void put_spread(const struct cube *c, const struct row *row, const struct cube_variable *of,
                       const struct cube_variable *replicate, struct cube_variable *mean,
                       struct cube_variable *deviation, struct cube_variable *count)
{
    struct row at = *row;
    double sum = 0, squares = 0, value = of->data.d[cube_place(c, of, row)];
    const double cell = value;
    int64_t n = 0;
    if (isnan(cell)) return;
    for (int64_t r = -1; r < c->dims[AXIS_REPLICATE].n; r++) {
        at.at[AXIS_REPLICATE] = r;
        if (r >= 0) value = replicate->data.d[cube_place(c, replicate, &at)];
        if (isnan(value)) continue;
        n++;
        sum += value - cell; /* from the cell, so that nothing cancels */
        squares += (value - cell) * (value - cell);
    }
    int64_t *done = &count->data.i[cube_place(c, count, row)];
    *done = max64(*done, n);
    if (n < 2) return;
    const double middle = sum / (double)n;
    mean->data.d[cube_place(c, mean, row)] = cell + middle;
    deviation->data.d[cube_place(c, deviation, row)] =
        sqrt(fmax(squares - (double)n * middle * middle, 0) / (double)(n - 1));
}

static void fill_of_kind(struct cube *c, const struct measure *k)
{
    const struct rows *cells = &c->all.rows[measure_place_of(&measure_cell)];
    for (const struct measure_spread *s = k->spreads; s->of; s++) {
        const struct cube_variable *of = cube_find(c, s->of),
                                   *replicate = cube_find(c, s->replicate);
        struct cube_variable *mean = cube_find_in(c, "", s->mean),
                             *deviation = cube_find_in(c, "", s->deviation),
                             *count = cube_find_in(c, "", k->spread_count);
        if (!of || !replicate || !mean || !deviation || !count) continue;
        for (int64_t i = 0; i < cells->n; i++)
            put_spread(c, &cells->rows[i], of, replicate, mean, deviation, count);
    }
}

void cube_fill_spreads(struct cube *c)
{
    for (int k = 0; recorded_measures[k]; k++)
        if (recorded_measures[k]->spreads && measure_is_there(recorded_measures[k], &c->all.axes))
            fill_of_kind(c, recorded_measures[k]);
}
