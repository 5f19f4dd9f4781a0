#include "results/results.h"
#include <stddef.h>

/* Name in records, name in the cube, scope, integer, volatile, units, long name. */
static const struct record_field fields[] = {
    {"parameters", "parameters", SCOPE_CHECKPOINT, true, false, "1",
     "parameters, embeddings included"},
    {"parameters_non_embedding", "parameters_non_embedding", SCOPE_CHECKPOINT, true, false, "1",
     "parameters without the token embeddings and the output matrix"},
    {"weight_norm", "weight_norm", SCOPE_CHECKPOINT, false, false, "1",
     "Euclidean norm of all weights"},
    {"seconds", "checkpoint_seconds", SCOPE_CHECKPOINT, false, true, "s",
     "wall time of the visit of the checkpoint"},
    {"seconds_read", "checkpoint_seconds_read", SCOPE_CHECKPOINT, false, true, "s",
     "time spent waiting for weights"},
    {"seconds_forward", "checkpoint_seconds_forward", SCOPE_CHECKPOINT, false, true, "s",
     "time of the full-precision forward pass"},
    {"seconds_head", "checkpoint_seconds_head", SCOPE_CHECKPOINT, false, true, "s",
     "time at the output matrix, all variants together"},
    {"peak_memory", "checkpoint_peak_memory", SCOPE_CHECKPOINT, false, true, "byte",
     "peak resident memory of a process of the group so far"},

    {"loss", "baseline_loss", SCOPE_CHECKPOINT_DATASET, false, false, "nat",
     "full-precision cross-entropy per token"},
    {"loss_stderr", "baseline_loss_stderr", SCOPE_CHECKPOINT_DATASET, false, false, "nat",
     "standard error of the full-precision cross-entropy, over sequences"},
    {"perplexity", "baseline_perplexity", SCOPE_CHECKPOINT_DATASET, false, false, "1",
     "full-precision perplexity"},
    {"bits_per_byte", "baseline_bits_per_byte", SCOPE_CHECKPOINT_DATASET, false, false,
     "bit byte-1", "full-precision cross-entropy per byte of text"},
    {"tokens", "baseline_tokens", SCOPE_CHECKPOINT_DATASET, true, false, "1", "tokens scored"},
    {"bytes", "baseline_bytes", SCOPE_CHECKPOINT_DATASET, true, false, "1", "bytes of text scored"},

    {"weight_distance", "weight_distance", SCOPE_CELL, false, false, "1",
     "Euclidean distance of the quantized weights from the weights"},
    {"bits_per_weight", "bits_per_weight", SCOPE_CELL, false, false, "bit",
     "bits per quantized weight, scales and zeros included"},
    {"seconds", "seconds", SCOPE_CELL, false, true, "s", "time of the cell's own work"},
    {"seconds_forward", "seconds_forward", SCOPE_CELL, false, true, "s",
     "time of the cell's forward passes"},
    {"seconds_hessian", "seconds_hessian", SCOPE_CELL, false, true, "s",
     "time of the Hessian sums"},
    {"seconds_factor", "seconds_factor", SCOPE_CELL, false, true, "s",
     "time of the factorisations"},
    {"seconds_sweep", "seconds_sweep", SCOPE_CELL, false, true, "s",
     "time of the quantizer's column sweeps"},
    {"peak_memory", "peak_memory", SCOPE_CELL, false, true, "byte",
     "peak resident memory of a process of the group so far"},

    {"loss", "loss", SCOPE_CELL_DATASET, false, false, "nat",
     "cross-entropy per token of the quantized model"},
    {"loss_delta", "loss_delta", SCOPE_CELL_DATASET, false, false, "nat",
     "cross-entropy of the quantized model minus that of the full-precision one"},
    {"loss_delta_stderr", "loss_delta_stderr", SCOPE_CELL_DATASET, false, false, "nat",
     "paired standard error of loss_delta, over sequences"},
    {"loss_relative", "loss_relative", SCOPE_CELL_DATASET, false, false, "1",
     "relative error CE(quantized) / CE(full precision) - 1"},
    {"loss_relative_stderr", "loss_relative_stderr", SCOPE_CELL_DATASET, false, false, "1",
     "paired standard error of loss_relative, over sequences"},
    {"perplexity", "perplexity", SCOPE_CELL_DATASET, false, false, "1",
     "perplexity of the quantized model"},
    {"bits_per_byte", "bits_per_byte", SCOPE_CELL_DATASET, false, false, "bit byte-1",
     "cross-entropy of the quantized model per byte of text"},
    {"kl_divergence", "kl_divergence", SCOPE_CELL_DATASET, false, false, "nat",
     "mean KL divergence of the quantized model's next-token distribution from the full one"},
    {"top1_agreement", "top1_agreement", SCOPE_CELL_DATASET, false, false, "1",
     "share of positions where both models put the same token first"},

    {"error", "error", SCOPE_LAYER, false, false, "1",
     "the quantizer's own loss of the layer, damping included"},
    {"relative_error", "relative_error", SCOPE_LAYER, false, false, "1",
     "tr((W-Q)H(W-Q)') / tr(W H W'), without the damping's part"},
    {"damping", "damping", SCOPE_LAYER, false, false, "1",
     "share of the mean of the Hessian's diagonal that was added to it"},
    {"squared_distance", "squared_distance", SCOPE_LAYER, false, false, "1",
     "squared Frobenius norm of W-Q"},
};

const struct record_field *record_field_at(int i)
{
    return i >= 0 && (size_t)i < sizeof fields / sizeof *fields ? &fields[i] : NULL;
}

void results_cell_key(const char *checkpoint_key, const char *variant_key, char out[HASH_HEX])
{
    /* Digests of equal length first, so that (ab, c) and (a, bc) stay apart whatever a key holds.
     */
    char text[5 + 2 * HASH_HEX] = "cell ";
    hash_text(checkpoint_key, text + 5);
    hash_text(variant_key, text + 5 + HASH_HEX - 1);
    hash_text(text, out);
}
