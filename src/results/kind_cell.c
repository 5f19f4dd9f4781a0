/* Results of one (model, checkpoint, bits, quantizer), by evaluation text and by layer. */
#include "results/kind.h"

static const struct field fields[] = {
    {STATUS_FIELD("status")},
    {MESSAGE_FIELD("message")},

    {"weight_distance", "weight_distance", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean distance of the quantized weights from the weights"},
    {"bits_per_weight", "bits_per_weight", IN_VALUES, FIELD_REAL, STABLE, "bit",
     "bits per quantized weight, scales and zeros included"},
    {"first_order", "first_order", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "g'd: first order of the change of loss by d = Q-W, on curvature's tokens"},
    {"second_order", "second_order", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "d'Hd/2: second order of it"},
    {"true_difference", "true_difference", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "loss of the quantized model minus that of the full-precision one, on the same tokens"},
    {"curvature_along_delta", "curvature_along_delta", IN_VALUES, FIELD_REAL, STABLE, "1",
     "d'Hd/|d|^2, the curvature along the change"},
    {"critical_sharpness", "critical_sharpness_delta", IN_VALUES, FIELD_REAL, STABLE, "1",
     "2/step at which the loss begins to rise along d, in units of d, on curvature's tokens"},
    {SECONDS_FIELD("seconds", "seconds", "time of the work for this cell alone")},
    {SECONDS_FIELD("seconds_forward", "seconds_forward", "time of the cell's forward passes")},
    {SECONDS_FIELD("seconds_hessian", "seconds_hessian", "time of the Hessian sums")},
    {SECONDS_FIELD("seconds_factor", "seconds_factor", "time of the factorisations")},
    {SECONDS_FIELD("seconds_sweep", "seconds_sweep", "time of the quantizer's column sweeps")},
    {SECONDS_FIELD("seconds_read", "seconds_read", "even part of the visit's waiting for weights")},
    {SECONDS_FIELD("seconds_head", "seconds_head", "even part of the visit's time at the head")},
    {SECONDS_FIELD("seconds_second_order", "seconds_second_order",
                   "time of the second-order prediction, shared by the variants of a pass")},
    {"peak_memory", "peak_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak resident memory of a process of the group so far"},

    {"loss", "loss", IN_INNER, FIELD_REAL, STABLE, "nat",
     "cross-entropy per token of the quantized model"},
    {"loss_delta", "loss_delta", IN_INNER, FIELD_REAL, STABLE, "nat",
     "cross-entropy of the quantized model minus that of the full-precision one"},
    {"loss_delta_stderr", "loss_delta_stderr", IN_INNER, FIELD_REAL, STABLE, "nat",
     "paired standard error of loss_delta, over sequences"},
    {"loss_relative", "loss_relative", IN_INNER, FIELD_REAL, STABLE, "1",
     "relative error CE(quantized) / CE(full precision) - 1"},
    {"loss_relative_stderr", "loss_relative_stderr", IN_INNER, FIELD_REAL, STABLE, "1",
     "paired standard error of loss_relative, over sequences"},
    {"perplexity", "perplexity", IN_INNER, FIELD_REAL, STABLE, "1",
     "perplexity of the quantized model"},
    {"bits_per_byte", "bits_per_byte", IN_INNER, FIELD_REAL, STABLE, "bit byte-1",
     "cross-entropy of the quantized model per byte of text"},
    {"kl_divergence", "kl_divergence", IN_INNER, FIELD_REAL, STABLE, "nat",
     "mean KL divergence of the quantized model's next-token distribution from the full one"},
    {"top1_agreement", "top1_agreement", IN_INNER, FIELD_REAL, STABLE, "1",
     "share of positions where both models put the same token first"},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
};

static const struct field layer_fields[] = {
    {"error", "error", IN_LIST, FIELD_REAL, STABLE, "1",
     "the method's objective for the layer, damping included"},
    {"relative_error", "relative_error", IN_LIST, FIELD_REAL, STABLE, "1",
     "tr((W-Q)H(W-Q)') / tr(W H W'), without the damping's part"},
    {"damping", "damping", IN_LIST, FIELD_REAL, STABLE, "1",
     "share of the mean of the Hessian's diagonal that was added to it"},
    {"squared_distance", "squared_distance", IN_LIST, FIELD_REAL, STABLE, "1",
     "squared Frobenius norm of W-Q"},
    {"first_order", "first_order", IN_LIST, FIELD_REAL, STABLE, "nat",
     "the layer's part of the first order"},
    {"second_order", "second_order", IN_LIST, FIELD_REAL, STABLE, "nat",
     "the layer's part of the second order, interactions with other layers halved between them"},
    {"diagonal", "diagonal", IN_LIST, FIELD_REAL, STABLE, "nat",
     "second order of the layer's change alone"},
    {0},
};

static const struct record_list layers = {
    .name = "layers",
    .group = "layers",
    .axis = "layer",
    .label = "name",
    .long_name = "tensor of the layer's weights",
    .fields = layer_fields,
};

void results_cell_key(const char *checkpoint_key, const char *variant_key, char out[HASH_HEX])
{
    /* Digests of equal length, so that (ab, c) and (a, bc) give different keys. */
    char text[5 + 2 * HASH_HEX] = "cell ";
    hash_text(checkpoint_key, text + 5);
    hash_text(variant_key, text + 5 + HASH_HEX - 1);
    hash_text(text, out);
}

static enum status add_rows(const struct axes *a, int64_t m, int64_t c, struct rows *out,
                            struct err *e)
{
    for (int64_t i = 0; i < a->n_variants; i++) {
        const struct axis_variant *v = &a->variants[i];
        struct row row = {.at = {m, c, v->bits_at, v->quantizer_at}};
        out->parts[m].not_applicable += !v->applicable;
        if (!v->applicable) continue;
        results_cell_key(a->models[m].checkpoints[c].key, axes_variant_key(a, m, i), row.key);
        PASS(rows_add(out, &row, e));
    }
    return OK;
}

const struct kind kind_cell = {
    .name = "cell",
    .group = "cells",
    .axes = {&axis_model, &axis_checkpoint, &axis_bits, &axis_quantizer},
    .inner = &axis_dataset,
    .fields = fields,
    .sequences = true,
    .list = &layers,
    .add_rows = add_rows,
    .number = "cell",
    .number_long_name = "number of the cell, as in layers/",
    .axis_long_names = {"trajectory of the cell", "checkpoint of the cell", "bits of the cell",
                        "quantizer of the cell"},
    .report = REPORT_MODELS,
    .prefix = "",
    .noun = "cells",
};
