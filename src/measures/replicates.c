/* Results of the replicates of a cell: the same weights, method and bits with other calibration
 * sequences. Replicate 0 is the cell itself. */
#include "records/rows.h"

/* Mean and deviation of a variable of cells and its variable of replicates. */
#define SPREAD(variable, unit)                                                                     \
    {                                                                                              \
        variable, variable "_replicate", variable "_replicate_mean", variable "_replicate_std",    \
            unit, "mean of " variable " over the replicates, the cell included",                   \
            "standard deviation of " variable " over the replicates, the cell included"            \
    }
static const struct measure_spread spreads[] = {
    SPREAD("loss", "nat"),          SPREAD("loss_delta", "nat"),   SPREAD("loss_relative", "1"),
    SPREAD("kl_divergence", "nat"), SPREAD("top1_agreement", "1"), {0},
};

static const struct field fields[] = {
    {STATUS_FIELD("replicate_status")},
    {MESSAGE_FIELD("replicate_message")},

    {"weight_distance", "weight_distance_replicate", IN_VALUES, FIELD_REAL, STABLE, "1",
     "weight_distance of a replicate"},
    {SECONDS_FIELD("seconds", "replicate_seconds", "time of the work for this replicate alone")},

    {"loss", "loss_replicate", IN_INNER, FIELD_REAL, STABLE, "nat", "loss of a replicate"},
    {"loss_delta", "loss_delta_replicate", IN_INNER, FIELD_REAL, STABLE, "nat",
     "loss_delta of a replicate"},
    {"loss_relative", "loss_relative_replicate", IN_INNER, FIELD_REAL, STABLE, "1",
     "loss_relative of a replicate"},
    {"kl_divergence", "kl_divergence_replicate", IN_INNER, FIELD_REAL, STABLE, "nat",
     "kl_divergence of a replicate"},
    {"top1_agreement", "top1_agreement_replicate", IN_INNER, FIELD_REAL, STABLE, "1",
     "top1_agreement of a replicate"},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
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
            results_replicate_key(cell, r, row.key);
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
