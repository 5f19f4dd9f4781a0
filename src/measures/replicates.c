/* Results of the replicates of a cell: the same weights, method and bits with other calibration
 * sequences. Replicate 0 is the cell itself. */
#include "eval/metric_table.h"
#include "records/rows.h"

/* Mean and deviation of a variable of cells and its variable of replicates. */
#define MEAN_SPREAD(name, unit)                                                                    \
    {.of = name,                                                                                   \
     .replicate = name "_replicate",                                                               \
     .mean = name "_replicate_mean",                                                               \
     .deviation = name "_replicate_std",                                                           \
     .units = unit,                                                                                \
     .mean_long_name = "mean of " name " over the replicates, the cell included",                  \
     .deviation_long_name =                                                                        \
         "standard deviation of " name " over the replicates, the cell included"},
#define MEAN_NO_SPREAD(name, units)
#define SPREADS(metric, name, spread, units, text) MEAN_##spread(#name, units)
static const struct measure_spread spreads[] = {METRIC_CELL_FIELDS(SPREADS){0}};

#define FIELD_SPREAD(name, units)                                                                  \
    {name, name "_replicate", IN_INNER, FIELD_REAL, STABLE, units, name " of a replicate"},
#define FIELD_NO_SPREAD(name, units)
#define FIELDS(metric, name, spread, units, text) FIELD_##spread(#name, units)

static const struct field fields[] = {
    {STATUS_FIELD("replicate_status")},
    {MESSAGE_FIELD("replicate_message")},

    {"weight_distance", "weight_distance_replicate", IN_VALUES, FIELD_REAL, STABLE, "1",
     "weight_distance of a replicate"},
    {SECONDS_FIELD("seconds", "replicate_seconds", "time of the work for this replicate alone")},

    METRIC_CELL_FIELDS(FIELDS) RECORD_FIELDS,
};

static enum status add_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e)
{
    for (int64_t i = 0; i < a->n_variants; i++) {
        const struct axis_variant *v = &a->variants[i];
        char cell[HASH_HEX];
        if (!v->applicable) continue;
        results_cell_key(a->models[m].checkpoints[c].key, axes_variant_key(a, m, i), cell);
        for (int64_t r = 1; r < v->replicates; r++) {
            struct row row = {.at = {m, c, v->bits_at, v->quantizer_at, r - 1}};
            results_replicate_key(cell, r, a->seed, row.key);
            PASS(rows_add(out, &row, e));
        }
    }
    return OK;
}

const struct measure measure_replicate = {
    .name = "replicate",
    .group = "replicates",
    .axes = {&axis_model, &axis_checkpoint, &axis_bits, &axis_quantizer, &axis_replicate},
    .inner = &axis_dataset,
    .fields = fields,
    .add_rows = add_rows,
    .number = "replicate_number",
    .number_long_name = "number of the record",
    .spreads = spreads,
    .spread_count = "replicates_done",
    .report = REPORT_ALL,
    .prefix = "",
    .noun = "replicates",
    .json = "replicates",
};
