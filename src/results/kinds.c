/* The kinds of result and the axes of the cube; a new one is a line here. */
#include "results/kind.h"
#include <string.h>

const struct kind *const results_kinds[KINDS_MAX + 1] = {
    &kind_checkpoint,
    &kind_cell,
    &kind_curvature,
    &kind_point,
};

const struct axis *const results_axes[AXES_MAX + 1] = {
    [AXIS_MODEL] = &axis_model,     [AXIS_CHECKPOINT] = &axis_checkpoint,
    [AXIS_BITS] = &axis_bits,       [AXIS_QUANTIZER] = &axis_quantizer,
    [AXIS_DATASET] = &axis_dataset,
};

const struct axis axis_model = {
    .name = "model", .plan = "models", .long_name = "trajectory: one training run"};
const struct axis axis_checkpoint = {
    .name = "checkpoint", .long_name = "place in the trajectory", .number = true};
const struct axis axis_bits = {.name = "bits",
                               .plan = "bits",
                               .long_name = "bits of a quantized weight's code",
                               .number = true};
const struct axis axis_quantizer = {
    .name = "quantizer", .plan = "quantizers", .long_name = "label of the quantization method"};
const struct axis axis_dataset = {
    .name = "dataset", .plan = "datasets", .long_name = "evaluation text"};

const struct kind *kind_find(const char *type)
{
    for (int i = 0; results_kinds[i]; i++)
        if (strcmp(results_kinds[i]->name, type) == 0) return results_kinds[i];
    return NULL;
}

int kind_place_of(const struct kind *k)
{
    int i = 0;
    while (results_kinds[i] && results_kinds[i] != k) i++;
    return i;
}

const struct field *kind_field(const struct kind *k, enum field_place place, const char *name)
{
    for (const struct field *f = k->fields; f->name; f++)
        if (f->place == place && strcmp(f->name, name) == 0) return f;
    return NULL;
}

bool kind_on_grid(const struct kind *k, const struct field *f)
{
    return k->axes[0] && (f->place == IN_RECORD || f->place == IN_VALUES || f->place == IN_INNER ||
                          f->place == IN_PROVENANCE);
}
