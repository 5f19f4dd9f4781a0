/* Variables that are made of others, once those are full: mean and standard deviation of cells over
 * their replicates, and means over the last axis of a kind, such as accuracies over the tasks. */
#include "cube/cube_build.h"
#include "util/num.h"
#include <math.h>
#include <string.h>

/* --- losses per token of the sweep's common tokenizer (eval/common_tokens.h) --- */

static const struct field tokens = {"common_tokens",
                                    "common_tokens",
                                    IN_RECORD,
                                    FIELD_INTEGER,
                                    STABLE,
                                    "1",
                                    "tokens of the scored text by the tokenizer of count_tokens"};

/* A loss per common token, and the variables that it is made of. */
static const struct loss {
    struct field field;
    const struct measure *kind;
    const char *per_byte;
} losses[] = {
    {{"", "baseline_loss_common", IN_INNER, FIELD_REAL, STABLE, "nat",
      "full-precision cross-entropy per common token"},
     &measure_checkpoint,
     "baseline_bits_per_byte"},
    {{"", "loss_common", IN_INNER, FIELD_REAL, STABLE, "nat",
      "cross-entropy of the quantized model per common token"},
     &measure_cell,
     "bits_per_byte"},
};
enum { LOSSES = sizeof losses / sizeof *losses };

static const json_t *counts_of(const struct cube *c, int64_t model)
{
    const json_t *models = json_object_get(c->all.axes.plan, "models");
    return json_object_get(json_array_get(models, (size_t)model), tokens.name);
}

/* --- means and spreads --- */

static enum status add(struct cube *c, const char *name, enum field_type type,
                       const struct measure *of, int rank, const int *dims, const char *units,
                       const char *long_name, struct err *e)
{
    struct cube_variable like = {.group = "",
                                 .name = name,
                                 .type = type,
                                 .rank = rank,
                                 .of = of,
                                 .may_miss = true,
                                 .units = units,
                                 .long_name = long_name,
                                 .coordinates = c->coordinates},
                         *x;
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    return cube_add(c, &like, &x, e);
}

static enum status add_spreads(struct cube *c, const struct measure *k, struct err *e)
{
    static const int dims[] = {AXIS_MODEL, AXIS_CHECKPOINT, AXIS_BITS, AXIS_QUANTIZER,
                               AXIS_DATASET};
    const struct measure *of = &measure_cell;
    for (const struct measure_spread *s = k->spreads; s->of; s++) {
        PASS(add(c, s->mean, FIELD_REAL, of, 5, dims, s->units, s->mean_long_name, e));
        PASS(add(c, s->deviation, FIELD_REAL, of, 5, dims, s->units, s->deviation_long_name, e));
    }
    return add(c, k->spread_count, FIELD_INTEGER, of, 4, dims, "1",
               "replicates that are done, the cell included", e);
}

static enum status add_means(struct cube *c, const struct measure *k, struct err *e)
{
    int dims[CUBE_RANK], n = 0; /* the last is the one that is averaged over */
    const struct measure *of = k->means_of;
    for (; k->axes[n]; n++) dims[n] = axis_place_of(k->axes[n]);
    for (const struct measure_mean *m = k->means; m->of; m++) {
        PASS(add(c, m->mean, FIELD_REAL, of, n - 1, dims, m->units, m->mean_long_name, e));
        if (m->error)
            PASS(add(c, m->error, FIELD_REAL, of, n - 1, dims, m->units, m->error_long_name, e));
    }
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

static void fill_spreads(struct cube *c, const struct measure *k)
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

static void fill_means(struct cube *c, const struct measure *k)
{
    const struct rows *r = &c->all.rows[measure_place_of(k)];
    int last = 0;
    while (k->axes[last + 1]) last++;
    const int axis = axis_place_of(k->axes[last]);
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

enum status cube_add_derived(struct cube *c, struct err *e)
{
    for (const struct measure *const *k = recorded_measures; *k; k++)
        if ((*k)->spreads && measure_is_there(*k, &c->all.axes)) PASS(add_spreads(c, *k, e));
    for (const struct measure *const *k = recorded_measures; *k; k++)
        if ((*k)->means && measure_is_there(*k, &c->all.axes)) PASS(add_means(c, *k, e));
    struct cube_variable *x;
    const struct axis_labels *texts = &c->all.axes.labels[AXIS_DATASET];
    bool any = false;
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        any = any || counts_of(c, m) != NULL;
    if (!any) return OK;
    PASS(cube_add_field(c, &tokens, "", 2, (int[]){AXIS_MODEL, AXIS_DATASET}, &x, e));
    for (int64_t m = 0; m < c->all.axes.labels[AXIS_MODEL].n; m++)
        for (int64_t d = 0; d < texts->n; d++)
            cube_put(x, m * texts->n + d, json_object_get(counts_of(c, m), texts->texts[d]));
    for (int i = 0; i < LOSSES; i++) {
        int dims[CUBE_RANK], rank = 0;
        for (; losses[i].kind->axes[rank]; rank++)
            dims[rank] = axis_place_of(losses[i].kind->axes[rank]);
        dims[rank++] = AXIS_DATASET;
        PASS(cube_add_field(c, &losses[i].field, "", rank, dims, &x, e));
        x->of = losses[i].kind;
        x->field = NULL; /* filled here, not from records */
        x->coordinates = c->coordinates;
    }
    return OK;
}

void cube_fill_derived(struct cube *c)
{
    for (const struct measure *const *k = recorded_measures; *k; k++) {
        if (!measure_is_there(*k, &c->all.axes)) continue;
        if ((*k)->spreads) fill_spreads(c, *k);
        if ((*k)->means) fill_means(c, *k);
    }
    const struct cube_variable *counts = cube_find(c, tokens.variable),
                               *bytes = cube_find(c, "baseline_bytes");
    for (int i = 0; counts && bytes && i < LOSSES; i++) {
        const struct rows *r = &c->all.rows[measure_place_of(losses[i].kind)];
        const struct cube_variable *per_byte = cube_find(c, losses[i].per_byte);
        struct cube_variable *out = cube_find_in(c, "", losses[i].field.variable);
        for (int64_t k = 0; per_byte && out && k < r->n; k++) {
            const struct row *row = &r->rows[k];
            const int64_t n = counts->data.i[cube_place(c, counts, row)],
                          b = bytes->data.i[cube_place(c, bytes, row)];
            if (n > 0 && b > 0)
                out->data.d[cube_place(c, out, row)] =
                    per_byte->data.d[cube_place(c, per_byte, row)] * M_LN2 * (double)b / (double)n;
        }
    }
}
