/* Means of variables over the last axis of their kind, such as accuracies over the tasks. */
#include "cube/cube_build.h"
#include <math.h>

static int rank_of(const struct measure *k)
{
    int rank = 0;
    while (k->axes[rank]) rank++;
    return rank;
}

static enum status add(struct cube *c, const struct measure *k, const char *name, const char *units,
                       const char *long_name, struct err *e)
{
    struct cube_variable like = {.group = "",
                                 .name = name,
                                 .type = FIELD_REAL,
                                 .rank = rank_of(k) - 1,
                                 .of = k->means_of,
                                 .may_miss = true,
                                 .units = units,
                                 .long_name = long_name,
                                 .coordinates = c->coordinates},
                         *x;
    if (!name) return OK;
    for (int i = 0; i < like.rank; i++) like.dims[i] = axis_place_of(k->axes[i]);
    return cube_add(c, &like, &x, e);
}

enum status cube_add_means(struct cube *c, struct err *e)
{
    for (int i = 0; recorded_measures[i]; i++) {
        const struct measure *k = recorded_measures[i];
        if (!k->means || !measure_is_there(k, &c->all.axes)) continue;
        for (const struct measure_mean *m = k->means; m->of; m++) {
            PASS(add(c, k, m->mean, m->units, m->mean_long_name, e));
            PASS(add(c, k, m->error, m->units, m->error_long_name, e));
        }
    }
    return OK;
}

/* Sums over the axis of x or of its squares; NaN if an element is missing. */
static double sum_along(const struct cube *c, const struct cube_variable *x, struct row row,
                        int axis, bool squares)
{
    double sum = 0;
    for (row.at[axis] = 0; row.at[axis] < c->dims[axis].n; row.at[axis]++) {
        const double value = x->data.d[cube_place(c, x, &row)];
        sum += squares ? value * value : value;
    }
    return sum;
}

static void fill_of_kind(struct cube *c, const struct measure *k)
{
    const struct rows *r = &c->all.rows[measure_place_of(k)];
    const int axis = axis_place_of(k->axes[rank_of(k) - 1]);
    const double n = (double)c->dims[axis].n;
    for (const struct measure_mean *m = k->means; m->of; m++) {
        const struct cube_variable *of = cube_find(c, m->of);
        const struct cube_variable *of_error = m->error ? cube_find(c, m->of_error) : NULL;
        struct cube_variable *mean = cube_find_in(c, "", m->mean);
        struct cube_variable *error = m->error ? cube_find_in(c, "", m->error) : NULL;
        for (int64_t i = 0; of && mean && i < r->n; i++) {
            const struct row *row = &r->rows[i];
            if (row->at[axis] != 0) continue;
            mean->data.d[cube_place(c, mean, row)] = sum_along(c, of, *row, axis, false) / n;
            if (of_error && error)
                error->data.d[cube_place(c, error, row)] =
                    sqrt(sum_along(c, of_error, *row, axis, true)) / n;
        }
    }
}

void cube_fill_means(struct cube *c)
{
    for (int i = 0; recorded_measures[i]; i++)
        if (recorded_measures[i]->means && measure_is_there(recorded_measures[i], &c->all.axes))
            fill_of_kind(c, recorded_measures[i]);
}
