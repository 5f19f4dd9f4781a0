/* Full-precision results of one (model, checkpoint), by evaluation text. */
#include "results/kind.h"

static const struct field fields[] = {
    {STATUS_FIELD("checkpoint_status")},
    {MESSAGE_FIELD("checkpoint_message")},
    {"weights_hash", "weights_hash", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "digest of config.json and of samples of the checkpoint's weights"},
    {"weights_digest", "weights_digest", IN_PROVENANCE, FIELD_TEXT, STABLE, NULL,
     "digest of all bytes of the weights that were read"},

    {"soup_text", "soup_text", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "text that the members of a greedy soup are chosen by"},
    {"soup_members", "soup_members", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "members of a greedy soup, the best first"},

    {"soup_loss", "soup_loss", IN_VALUES, FIELD_REAL, STABLE, "nat",
     "cross-entropy per token of a greedy soup on the text that it is chosen by"},
    {"parameters", "parameters", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "parameters, embeddings included"},
    {"parameters_non_embedding", "parameters_non_embedding", IN_VALUES, FIELD_INTEGER, STABLE, "1",
     "parameters without the token embeddings and the output matrix"},
    {"weight_norm", "weight_norm", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean norm of the weights that quantization changes"},
    {"critical_sharpness", "critical_sharpness", IN_VALUES, FIELD_REAL, STABLE, "1",
     "2/step at which the loss begins to rise along the direction from the previous checkpoint, in "
     "units "
     "of that way, on curvature's tokens"},
    {SECONDS_FIELD("seconds", "checkpoint_seconds", "wall time of the visit of the checkpoint")},
    {SECONDS_FIELD("seconds_read", "checkpoint_seconds_read", "time spent waiting for weights")},
    {SECONDS_FIELD("seconds_forward", "checkpoint_seconds_forward",
                   "time of the full-precision forward pass")},
    {SECONDS_FIELD("seconds_hessian", "checkpoint_seconds_hessian",
                   "time of the Hessian sums that variants share")},
    {SECONDS_FIELD("seconds_head", "checkpoint_seconds_head",
                   "time at the output matrix, all variants together")},
    {"peak_memory", "checkpoint_peak_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak resident memory of a process of the group so far"},
    {"planned_memory", "checkpoint_planned_memory", IN_VALUES, FIELD_REAL, VOLATILE, "byte",
     "peak memory that the visit was planned to take"},

    {"loss", "baseline_loss", IN_INNER, FIELD_REAL, STABLE, "nat",
     "full-precision cross-entropy per token"},
    {"loss_stderr", "baseline_loss_stderr", IN_INNER, FIELD_REAL, STABLE, "nat",
     "standard error of the full-precision cross-entropy, over sequences"},
    {"perplexity", "baseline_perplexity", IN_INNER, FIELD_REAL, STABLE, "1",
     "full-precision perplexity"},
    {"bits_per_byte", "baseline_bits_per_byte", IN_INNER, FIELD_REAL, STABLE, "bit byte-1",
     "full-precision cross-entropy per byte of text"},
    {"tokens", "baseline_tokens", IN_INNER, FIELD_INTEGER, STABLE, "1", "tokens scored"},
    {"bytes", "baseline_bytes", IN_INNER, FIELD_INTEGER, STABLE, "1", "bytes of text scored"},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
};

static const struct field candidates[] = {
    {"candidate", "candidate", IN_LIST, FIELD_TEXT, STABLE, NULL,
     "checkpoint that a greedy soup may have as a member, in the order of trial"},
    {"heldout_loss", "heldout_loss", IN_LIST, FIELD_REAL, STABLE, "nat",
     "its own cross-entropy per token on the text that the soup is chosen by"},
    {"soup_loss", "soup_loss", IN_LIST, FIELD_REAL, STABLE, "nat", "that of the soup with it"},
    {"kept", "kept", IN_LIST, FIELD_INTEGER, STABLE, "1", "1: it is a member; 0: it is not"},
    {0},
};

static const struct record_table tables[] = {
    {"candidates", "soup_candidates", candidates},
    {0},
};

const struct kind kind_checkpoint = {
    .name = "checkpoint",
    .group = "checkpoints",
    .axes = {&axis_model, &axis_checkpoint},
    .inner = &axis_dataset,
    .fields = fields,
    .sequences = true,
    .tables = tables,
    .plan_key = "key",
    .number = "checkpoint_number",
    .number_long_name = "number of the checkpoint",
    .axis_long_names = {"trajectory of the checkpoint", "name of the checkpoint"},
    .whole_grid = true,
    .report = REPORT_NONE,
    .noun = "checkpoints",
};
