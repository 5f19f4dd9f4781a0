/* The tables of the kinds of result (listed in kind.h) and of the axes of the cube. */
#include "results/kind.h"
#include <string.h>

#define AXES(X) /* as enum axis_place */                                                           \
    X(model) X(checkpoint) X(bits) X(quantizer) X(replicate) X(dataset) X(task)

#define DECLARE_KIND(name) extern const struct kind kind_##name;
#define DECLARE_AXIS(name) extern const struct axis axis_##name;
KINDS(DECLARE_KIND)
AXES(DECLARE_AXIS)

#define KIND(name) &kind_##name,
#define AXIS(name) &axis_##name,
#define NAME(name) #name,
const struct kind *const results_kinds[KINDS_N + 1] = {KINDS(KIND)};
const char *const results_kind_names[KINDS_N + 1] = {KINDS(NAME)};
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

bool kind_has_axis(const struct kind *k, const struct axis *axis)
{
    bool found = axis == k->inner;
    for (int i = 0; k->axes[i]; i++) found |= axis == k->axes[i];
    return found;
}

bool kind_is_there(const struct kind *k, const struct axes *a)
{
    bool there = true;
    for (int i = 0; k->axes[i]; i++) there = there && !axis_is_absent(a, k->axes[i]);
    return there;
}

bool kind_on_grid(const struct kind *k, const struct field *f)
{
    return k->axes[0] && (f->place == IN_RECORD || f->place == IN_VALUES || f->place == IN_INNER ||
                          f->place == IN_PROVENANCE);
}
