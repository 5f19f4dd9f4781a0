/* The tables of the measures (listed in measures.h) and of the axes of the cube. */
#include "records/measures.h"
#include <string.h>

#define AXES(X) /* as enum axis_place */                                                           \
    X(model) X(checkpoint) X(bits) X(quantizer) X(replicate) X(dataset) X(task) X(block) X(site)

#define DECLARE_AXIS(name) extern const struct axis axis_##name;
AXES(DECLARE_AXIS)

#define MEASURE(name) &measure_##name,
const struct measure *const measures[MEASURES_N] = {MEASURES(MEASURE, MEASURE)};
const struct measure *const recorded_measures[RECORDED_N + 1] = {MEASURES(MEASURE_NONE, MEASURE)};

#define NAME(name) #name,
const char *const recorded_names[RECORDED_N + 1] = {MEASURES(MEASURE_NONE, NAME)};

#define AXIS(name) &axis_##name,
const struct axis *const results_axes[AXES_MAX + 1] = {AXES(AXIS)};

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
const struct axis axis_replicate = {.name = "replicate",
                                    .plan = "replicates",
                                    .long_name = "number of the choice of calibration sequences",
                                    .number = true,
                                    .optional = true};
const struct axis axis_dataset = {
    .name = "dataset", .plan = "datasets", .long_name = "evaluation text"};
const struct axis axis_task = {
    .name = "task", .plan = "tasks", .long_name = "multiple-choice task", .optional = true};
const struct axis axis_block = {.name = "block",
                                .plan = "blocks",
                                .long_name = "number of the layer: attention and MLP",
                                .number = true,
                                .optional = true};
const struct axis axis_site = {.name = "site",
                               .plan = "sites",
                               .long_name =
                                   "place in the block: inputs of linears, keys, values, or "
                                   "the residual stream behind it",
                               .optional = true};

const struct measure *measure_find(const char *type)
{
    for (int i = 0; recorded_measures[i]; i++)
        if (strcmp(recorded_measures[i]->name, type) == 0) return recorded_measures[i];
    return NULL;
}

int measure_place_of(const struct measure *k)
{
    int i = 0;
    while (recorded_measures[i] && recorded_measures[i] != k) i++;
    return i;
}

bool measure_has_axis(const struct measure *k, const struct axis *axis)
{
    bool found = axis == k->inner || axis == k->within;
    for (int i = 0; k->axes[i]; i++) found |= axis == k->axes[i];
    return found;
}

bool measure_is_there(const struct measure *k, const struct axes *a)
{
    bool there = true;
    for (int i = 0; k->axes[i]; i++) there = there && !axis_is_absent(a, k->axes[i]);
    for (int i = 0; i < AXES_MAX && results_axes[i]; i++)
        if (measure_has_axis(k, results_axes[i]))
            there = there && !axis_is_absent(a, results_axes[i]);
    return there;
}

bool measure_on_grid(const struct measure *k, const struct field *f)
{
    return k->axes[0] && (f->place == IN_RECORD || f->place == IN_VALUES || f->place == IN_INNER ||
                          f->place == IN_PROVENANCE);
}
