/* axes: the axes of the cube's grid and their labels in a plan record, from which texts are
 * borrowed. */
#pragma once
#include "util/err.h"
#include "util/json.h"

enum { AXES_MAX = 10 };

/* An axis: a dimension of the cube with a coordinate of the same name. */
struct axis {
    const char *name;
    const char *plan; /* key of the plan's list of labels; for an inner axis (measures.h) also the
                         key in records. NULL: 0, 1, ..., indices in the longest trajectory */
    const char *long_name;
    bool number;   /* labels are integers, else texts or objects with a "name" */
    bool optional; /* plans without the list have no labels, and a cube of them has no such axis */
};

/* All axes, in the order of a variable's dimensions; NULL after the last (measures.c). The first
 * ones have constants. */
extern const struct axis *const results_axes[AXES_MAX + 1];
enum axis_place {
    AXIS_MODEL,
    AXIS_CHECKPOINT,
    AXIS_BITS,
    AXIS_QUANTIZER,
    AXIS_REPLICATE,
    AXIS_DATASET,
    AXIS_TASK,
    AXIS_BLOCK,
    AXIS_SITE
};
/* Its index in results_axes. */
int axis_place_of(const struct axis *axis);

struct axis_labels {
    int64_t n;
    const char **texts; // (n), or
    int64_t *numbers;   // (n)
};

struct axis_checkpoint {
    const char *name, *key;
    const json_t *plan; /* its entry in the plan */
};

struct axis_model {
    int64_t n;
    struct axis_checkpoint *checkpoints; // (n)
    const json_t *variant_keys; /* texts by variant, where they differ from the plan's; or NULL */
    const json_t *texts; /* digests of the evaluation texts; NULL: records name them by labels */
};

struct axis_variant {
    int64_t bits_at, quantizer_at; /* indices on the axes */
    const char *key;
    bool applicable;
    int64_t replicates; /* the variant itself included; 1: there are no others */
};

struct axes {
    const json_t *plan;
    struct axis_labels labels[AXES_MAX]; /* by index in results_axes */
    struct axis_model *models;           // (labels[AXIS_MODEL].n)
    int64_t n_variants;
    struct axis_variant *variants; // (n_variants), in the order of the plan
    int64_t seed;                  /* in the keys of replicates (results_replicate_key) */
};

/* Borrows the plan; axes_free *out, also after a failure. ERR_FORMAT names the key of the plan that
 * is missing or of a wrong type. */
MUST_USE enum status axes_of_plan(const json_t *plan, struct axes *out, struct err *e);
void axes_free(struct axes *a);

/* Whether the axis is optional and the plan does not have it. */
bool axis_is_absent(const struct axes *a, const struct axis *axis);

/* The checkpoint's key without evaluation texts: in plans of earlier versions its "task_key". */
const char *axes_scoreless_key(const struct axes *a, int64_t model, int64_t checkpoint);
/* Key of variant i for a model. */
const char *axes_variant_key(const struct axes *a, int64_t model, int64_t i);
/* Digest of evaluation text i for a model; NULL: its label stands for it in records. */
const char *axes_text_key(const struct axes *a, int64_t model, int64_t i);
