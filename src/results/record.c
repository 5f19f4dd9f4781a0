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
    {"critical_sharpness", "critical_sharpness", SCOPE_CHECKPOINT, false, false, "1",
     "2/step at which the loss begins to rise along the way from the checkpoint before, in units "
     "of "
     "that way, on curvature's tokens"},
    {"seconds", "checkpoint_seconds", SCOPE_CHECKPOINT, false, true, "s",
     "wall time of the visit of the checkpoint"},
    {"seconds_read", "checkpoint_seconds_read", SCOPE_CHECKPOINT, false, true, "s",
     "time spent waiting for weights"},
    {"seconds_forward", "checkpoint_seconds_forward", SCOPE_CHECKPOINT, false, true, "s",
     "time of the full-precision forward pass"},
    {"seconds_hessian", "checkpoint_seconds_hessian", SCOPE_CHECKPOINT, false, true, "s",
     "time of the Hessian sums that variants share"},
    {"seconds_head", "checkpoint_seconds_head", SCOPE_CHECKPOINT, false, true, "s",
     "time at the output matrix, all variants together"},
    {"peak_memory", "checkpoint_peak_memory", SCOPE_CHECKPOINT, false, true, "byte",
     "peak resident memory of a process of the group so far"},
    {"planned_memory", "checkpoint_planned_memory", SCOPE_CHECKPOINT, false, true, "byte",
     "peak memory that the visit was planned to take"},

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
    {"first_order", "first_order", SCOPE_CELL, false, false, "nat",
     "g'd: first order of the change of loss by d = Q-W, on curvature's tokens"},
    {"second_order", "second_order", SCOPE_CELL, false, false, "nat", "d'Hd/2: second order of it"},
    {"true_difference", "true_difference", SCOPE_CELL, false, false, "nat",
     "loss of the quantized model minus that of the full-precision one, on the same tokens"},
    {"curvature_along_delta", "curvature_along_delta", SCOPE_CELL, false, false, "1",
     "d'Hd/|d|^2, the curvature along the change"},
    {"critical_sharpness", "critical_sharpness_delta", SCOPE_CELL, false, false, "1",
     "2/step at which the loss begins to rise along d, in units of d, on curvature's tokens"},
    {"seconds", "seconds", SCOPE_CELL, false, true, "s", "time of the cell's own work"},
    {"seconds_forward", "seconds_forward", SCOPE_CELL, false, true, "s",
     "time of the cell's forward passes"},
    {"seconds_hessian", "seconds_hessian", SCOPE_CELL, false, true, "s",
     "time of the Hessian sums"},
    {"seconds_factor", "seconds_factor", SCOPE_CELL, false, true, "s",
     "time of the factorisations"},
    {"seconds_sweep", "seconds_sweep", SCOPE_CELL, false, true, "s",
     "time of the quantizer's column sweeps"},
    {"seconds_read", "seconds_read", SCOPE_CELL, false, true, "s",
     "even part of the visit's waiting for weights"},
    {"seconds_head", "seconds_head", SCOPE_CELL, false, true, "s",
     "even part of the visit's time at the head"},
    {"seconds_second_order", "seconds_second_order", SCOPE_CELL, false, true, "s",
     "time of the second-order prediction, shared by the variants of a pass"},
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
    {"first_order", "first_order", SCOPE_LAYER, false, false, "nat",
     "the layer's part of the first order"},
    {"second_order", "second_order", SCOPE_LAYER, false, false, "nat",
     "the layer's part of the second order, interactions with other layers halved between them"},
    {"diagonal", "diagonal", SCOPE_LAYER, false, false, "nat",
     "second order of the layer's change alone"},

    {"loss", "curvature_loss", SCOPE_CURVATURE, false, false, "nat",
     "cross-entropy per token of the text that curvature is measured on"},
    {"tokens", "curvature_tokens", SCOPE_CURVATURE, true, false, "1",
     "tokens scored by curvature_loss"},
    {"parameters", "curvature_parameters", SCOPE_CURVATURE, true, false, "1",
     "parameters of the subset whose Hessian is measured"},
    {"gradient_norm", "gradient_norm", SCOPE_CURVATURE, false, false, "1",
     "Euclidean norm of the gradient of curvature_loss"},
    {"sharpness", "sharpness", SCOPE_CURVATURE, false, false, "1",
     "largest eigenvalue of the Hessian; by power iteration the one of largest magnitude"},
    {"sharpness_residual", "sharpness_residual", SCOPE_CURVATURE, false, false, "1",
     "|Hv - lambda v| of sharpness: some eigenvalue is at most this far"},
    {"sharpness_converged", "sharpness_converged", SCOPE_CURVATURE, true, false, "1",
     "1: its rule stopped the iteration for sharpness; 0: the cap on products"},
    {"sharpness_iterations", "sharpness_iterations", SCOPE_CURVATURE, true, false, "1",
     "iterations for the eigenvalues, one product each"},
    {"warm_start", "sharpness_warm_start", SCOPE_CURVATURE, true, false, "1",
     "1: the iteration started from the eigenvector of the checkpoint before"},
    {"smallest_eigenvalue", "smallest_eigenvalue", SCOPE_CURVATURE, false, false, "1",
     "smallest (most negative) eigenvalue of the Hessian, by Lanczos"},
    {"smallest_residual", "smallest_eigenvalue_residual", SCOPE_CURVATURE, false, false, "1",
     "|Hv - lambda v| of smallest_eigenvalue"},
    {"trace", "trace", SCOPE_CURVATURE, false, false, "1", "estimate of the Hessian's trace"},
    {"trace_stderr", "trace_stderr", SCOPE_CURVATURE, false, false, "1",
     "standard error of trace, over probes"},
    {"trace_probes", "trace_probes", SCOPE_CURVATURE, true, false, "1",
     "random probes behind trace and its standard error"},
    {"products", "curvature_products", SCOPE_CURVATURE, true, false, "1",
     "Hessian-vector products, all together"},
    {"peak_memory", "curvature_peak_memory", SCOPE_CURVATURE, false, true, "byte",
     "peak resident memory of a process of the group so far, curvature included"},
    {"planned_memory", "curvature_planned_memory", SCOPE_CURVATURE, false, true, "byte",
     "peak memory that the visit with its curvature was planned to take"},
    {"seconds", "curvature_seconds", SCOPE_CURVATURE, false, true, "s",
     "time of the measurement of curvature"},

    {"a", "a", SCOPE_POINT, false, false, "1",
     "place along the plane's first axis, a length in weight space; random: a multiple of the "
     "first "
     "direction"},
    {"b", "b", SCOPE_POINT, false, false, "1", "the same along the second axis"},
    {"alpha", "alpha", SCOPE_POINT, false, false, "1",
     "coefficient of the previous checkpoint's weights"},
    {"beta", "beta", SCOPE_POINT, false, false, "1", "coefficient of the quantized weights"},
    {"share_1", "share_1", SCOPE_POINT, false, false, "1",
     "share of the checkpoints' variance along the first axis"},
    {"share_2", "share_2", SCOPE_POINT, false, false, "1", "the same along the second axis"},
    {"loss", "loss", SCOPE_POINT, false, false, "nat", "cross-entropy per token at the point"},
    {"loss_stderr", "loss_stderr", SCOPE_POINT, false, false, "nat",
     "its standard error over sequences, which all points share"},
    {"seconds", "seconds", SCOPE_POINT, false, true, "s", "time of the point's forward pass"},
};

const struct record_table record_tables[RECORD_TABLES] = {
    {"tensors",
     "curvature_tensors",
     6,
     {{"tensor", COLUMN_TEXT, NULL, "name of the tensor"},
      {"layer", COLUMN_INTEGER, "1", "its block; -1 outside the blocks"},
      {"elements", COLUMN_INTEGER, "1", "its parameters"},
      {"gradient_norm", COLUMN_REAL, "1", "Euclidean norm of its part of the gradient"},
      {"trace", COLUMN_REAL, "1", "estimate of its part of the Hessian's trace"},
      {"trace_stderr", COLUMN_REAL, "1", "standard error of that, over probes"}}},
    {"traces",
     "curvature_traces",
     5,
     {{"kind", COLUMN_TEXT, NULL,
       "kind of tensor: its name without the number of the layer; empty: all of the layer"},
      {"layer", COLUMN_INTEGER, "1", "block; -1: tensors outside the blocks, or of all layers"},
      {"elements", COLUMN_INTEGER, "1", "parameters of the part"},
      {"trace", COLUMN_REAL, "1", "estimate of the part's trace"},
      {"trace_stderr", COLUMN_REAL, "1", "standard error of that, over probes"}}},
    {"density",
     "spectral_density",
     3,
     {{"run", COLUMN_INTEGER, "1", "number of the random start"},
      {"node", COLUMN_REAL, "1", "Ritz value"},
      {"weight", COLUMN_REAL, "1", "its share of the spectrum; weights of a run sum to 1"}}},
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

void results_point_place(const struct results_point *p, double *x, double *y)
{
    *x = p->columns > 1 ? (double)p->i / (double)(p->columns - 1) : 0;
    *y = p->rows > 1 ? (double)p->j / (double)(p->rows - 1) : 0;
}

void results_point_key(const char *surface_key, const struct results_point *p, char out[HASH_HEX])
{
    char text[6 + 2 * HASH_HEX] = "point ", place[64];
    double x, y;
    results_point_place(p, &x, &y);
    snprintf(place, sizeof place, "/grid %.17g %.17g", x, y); /* no label begins with a slash */
    hash_text(surface_key, text + 6);
    hash_text(p->label ? p->label : place, text + 6 + HASH_HEX - 1);
    hash_text(text, out);
}
