/* The Frobenius norm of what quantization changes. */
#include "config/sweep.h"
#include "engine/part.h"
#include <math.h>

struct change_norm_section {
    bool change_norm;
};

static const struct option keys[] = {
    OPTION(change_norm_section, change_norm, BOOL, "measure the norm of what quantization changes",
           .fallback = "false"),
};

static enum status cell_key(const struct sweep *s, json_t **own, struct err *e)
{
    const struct change_norm_section *section = s->sections[MEASURE_change_norm];
    *own = NULL; /* not asked for */
    if (!section->change_norm) return OK;
    *own = json_pack("{s:i}", "version", 1); /* and its settings, if it has any */
    NEED(*own, ERR_NOMEM, "out of memory for a key");
    return OK;
}

static const struct field fields[] = {
    {STATUS_FIELD("change_norm_status")},
    {MESSAGE_FIELD("change_norm_message")},
    {"total", "change_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Frobenius norm of the change of all quantized weights"},
    RECORD_FIELDS,
};

static enum status linear(struct part_context *c, const struct variant *v, const struct linear *l,
                          const float *q, const struct quant_grids *grids, struct err *e)
{
    double *sum = (double *)c->state[MEASURE_change_norm] + (v - c->visit->variants);
    (void)grids;
    (void)e;
    for (int64_t k = 0; k < l->rows * l->cols; k++)
        *sum += ((double)q[k] - l->w[k]) * ((double)q[k] - l->w[k]);
    return OK;
}

static enum status fill(const struct part_context *c, const struct variant *v, json_t *record,
                        struct err *e)
{
    const double *squared = c->state[MEASURE_change_norm]; /* one for each variant */
    (void)e;
    record_number(json_object_get(record, "values"), "total",
                  sqrt(squared[v - c->visit->variants]));
    return OK;
}

const struct measure measure_change_norm = {
    .name = "change_norm",
    .section = {OPTION_ROWS(keys, change_norm_section)},
    .cell_key = cell_key,
    .group = "change_norms",
    .axes = {&axis_model, &axis_checkpoint, &axis_bits, &axis_quantizer},
    .fields = fields,
    .report = REPORT_ALL,
    .prefix = "",
    .noun = "norms of changes",
    .json = "change_norms",
    .doing = "change norm",
    .of_model = true,
    .state_of_variant = sizeof(double),
    .linear = linear,
    .fill = fill,
};
