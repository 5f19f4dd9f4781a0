/* Curvature of the full-precision loss of one (model, checkpoint). */
#include "results/kind.h"

static const struct field fields[] = {
    {STATUS_FIELD("curvature_status")},
    {MESSAGE_FIELD("curvature_message")},
    {"subset", "curvature_subset", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "parameters whose Hessian is measured"},
    {"sharpness", "sharpness_method", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "how sharpness was found: power or lanczos"},

    {"loss", "curvature_loss", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "cross-entropy per token of the text that curvature is measured on"},
    {"tokens", "curvature_tokens", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "tokens scored by curvature_loss"},
    {"parameters", "curvature_parameters", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "parameters of the subset whose Hessian is measured"},
    {"gradient_norm", "gradient_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean norm of the gradient of curvature_loss"},
    {"sharpness", "sharpness", IN_VALUES, FIELD_REAL, STABLE, "1",
     "largest eigenvalue of the Hessian; by power iteration the one of largest magnitude"},
    {"sharpness_residual", "sharpness_residual", IN_VALUES, FIELD_REAL, STABLE, "1",
     "|Hv - lambda v| of sharpness: some eigenvalue is at most this far"},
    {"sharpness_converged", "sharpness_converged", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "1: sharpness_residual is within the tolerance, relative to sharpness; 0: it is not"},
    {"sharpness_iterations", "sharpness_iterations", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "iterations for the eigenvalues, one product each"},
    {"warm_start", "sharpness_warm_start", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "1: the iteration started from the eigenvector of the checkpoint before"},
    {"smallest_eigenvalue", "smallest_eigenvalue", IN_VALUES, FIELD_REAL, STABLE, "1",
     "smallest (most negative) eigenvalue of the Hessian, by Lanczos"},
    {"smallest_residual", "smallest_eigenvalue_residual", IN_VALUES, FIELD_REAL, STABLE, "1",
     "|Hv - lambda v| of smallest_eigenvalue"},
    {"trace", "trace", IN_VALUES, FIELD_REAL, STABLE, "1", "estimate of the Hessian's trace"},
    {"trace_stderr", "trace_stderr", IN_VALUES, FIELD_REAL, STABLE, "1",
     "standard error of trace, over probes"},
    {"trace_probes", "trace_probes", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "random probes used for trace and its standard error"},
    {"products", "curvature_products", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "Hessian-vector products, all together"},
    {"peak_memory", "curvature_peak_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak resident memory of a process of the group so far, curvature included"},
    {"planned_memory", "curvature_planned_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak memory that the visit with its curvature was planned to take"},
    {SECONDS_FIELD("seconds", "curvature_seconds", "time of the measurement of curvature")},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
};

static const struct field tensors[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block; -1 outside the blocks"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "its parameters"},
    {"gradient_norm", "gradient_norm", IN_LIST, FIELD_REAL, STABLE, "1",
     "Euclidean norm of its part of the gradient"},
    {"trace", "trace", IN_LIST, FIELD_REAL, STABLE, "1",
     "estimate of its part of the Hessian's trace"},
    {"trace_stderr", "trace_stderr", IN_LIST, FIELD_REAL, STABLE, "1",
     "standard error of that, over probes"},
    {0},
};

static const struct field traces[] = {
    {"kind", "kind", IN_LIST, FIELD_TEXT, STABLE, NULL,
     "kind of tensor: its name without the number of the layer; empty: all of the layer"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1",
     "block; -1: tensors outside the blocks, or of all layers"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "parameters of the part"},
    {"trace", "trace", IN_LIST, FIELD_REAL, STABLE, "1", "estimate of the part's trace"},
    {"trace_stderr", "trace_stderr", IN_LIST, FIELD_REAL, STABLE, "1",
     "standard error of that, over probes"},
    {0},
};

static const struct field density[] = {
    {"run", "run", IN_LIST, FIELD_INTEGER, STABLE, "1", "number of the random start"},
    {"node", "node", IN_LIST, FIELD_REAL, STABLE, "1", "Ritz value"},
    {"weight", "weight", IN_LIST, FIELD_REAL, STABLE, "1",
     "its share of the spectrum; weights of a run sum to 1"},
    {0},
};

static const struct record_table tables[] = {
    {"tensors", "curvature_tensors", tensors},
    {"traces", "curvature_traces", traces},
    {"density", "spectral_density", density},
    {0},
};

static const struct kind_iterated sharpness = {
    .noun = "sharpnesses",
    .value = "sharpness",
    .residual = "sharpness_residual",
    .converged = "sharpness_converged",
    .remedy = "more products or a looser tolerance",
};

const struct kind kind_curvature = {
    .name = "curvature",
    .group = "curvature",
    .axes = {&axis_model, &axis_checkpoint},
    .fields = fields,
    .tables = tables,
    .plan_key = "curvature_key",
    .number = "curvature_row",
    .number_long_name = "row of the checkpoint in curvature/",
    .axis_long_names = {"trajectory of the checkpoint", "name of the checkpoint"},
    .report = REPORT_ALL,
    .iterated = &sharpness,
    .prefix = "curvature of ",
    .noun = "checkpoints",
    .json = "curvature",
};
