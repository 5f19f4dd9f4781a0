/* How far the weights of one (model, checkpoint) are from those of the checkpoint before. */
#include "results/kind.h"

static const struct field fields[] = {
    {STATUS_FIELD("movement_status")},
    {MESSAGE_FIELD("movement_message")},
    {"before", "movement_from", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "name of the checkpoint before, which movement is from"},
    {"grid", "movement_quantizer", IN_RECORD, FIELD_TEXT, STABLE, NULL,
     "quantizer whose grid movement_step is of"},

    {"distance", "movement", IN_VALUES, FIELD_REAL, STABLE, "1",
     "Euclidean distance of all weights from those of the checkpoint before"},
    {"relative", "movement_relative", IN_VALUES, FIELD_REAL, STABLE, "1",
     "movement over the Euclidean norm of all weights"},
    {"distance_quantized", "movement_quantized", IN_VALUES, FIELD_REAL, STABLE, "1",
     "the same distance of the weights that quantization changes"},
    {"relative_quantized", "movement_quantized_relative", IN_VALUES, FIELD_REAL, STABLE, "1",
     "movement_quantized over the Euclidean norm of these weights"},
    {SECONDS_FIELD("seconds", "movement_seconds", "time of the measurement of movement")},

    {"step", "movement_step", IN_INNER, FIELD_REAL, STABLE, "1",
     "step of the quantizer's grid, root mean square over the weights that it changes"},
    {"in_steps", "movement_in_steps", IN_INNER, FIELD_REAL, STABLE, "1",
     "root mean square of the change of a weight since the checkpoint before, over movement_step"},

    {KEY_FIELD},
    {FINGERPRINT_FIELD},
    {PROVENANCE_FIELD},
    {0},
};

static const struct field tensors[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block; -1 outside the blocks"},
    {"elements", "elements", IN_LIST, FIELD_INTEGER, STABLE, "1", "its parameters"},
    {"quantized", "quantized", IN_LIST, FIELD_INTEGER, STABLE, "1",
     "1: quantization changes it; 0: it does not"},
    {"squared_distance", "squared_distance", IN_LIST, FIELD_REAL, STABLE, "1",
     "squared Euclidean distance from the tensor of the checkpoint before"},
    {"squared_norm", "squared_norm", IN_LIST, FIELD_REAL, STABLE, "1",
     "its squared Euclidean norm"},
    {0},
};

static const struct field grids[] = {
    {"tensor", "tensor", IN_LIST, FIELD_TEXT, STABLE, NULL, "name of the tensor"},
    {"layer", "layer", IN_LIST, FIELD_INTEGER, STABLE, "1", "its block"},
    {"bits", "bits", IN_LIST, FIELD_INTEGER, STABLE, "1", "bits of a quantized weight's code"},
    {"step", "step", IN_LIST, FIELD_REAL, STABLE, "1",
     "step of the grid, root mean square over the tensor's elements"},
    {"in_steps", "in_steps", IN_LIST, FIELD_REAL, STABLE, "1",
     "root mean square of the change of an element since the checkpoint before, over step"},
    {0},
};

static const struct record_table tables[] = {
    {"tensors", "movement_tensors", tensors},
    {"grids", "movement_grids", grids},
    {0},
};

const struct kind kind_movement = {
    .name = "movement",
    .group = "movements",
    .axes = {&axis_model, &axis_checkpoint},
    .inner = &axis_bits,
    .fields = fields,
    .tables = tables,
    .plan_key = "movement_key",
    .number = "movement_row",
    .number_long_name = "number of the record, as in movements/",
    .axis_long_names = {"trajectory of the checkpoint", "name of the checkpoint"},
    .report = REPORT_ALL,
    .prefix = "movement of ",
    .noun = "checkpoints",
    .json = "movement",
};
