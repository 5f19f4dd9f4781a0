/* axes: the axes of a plan record as plain structs. Texts are borrowed from the record. */
#pragma once
#include "util/err.h"
#include "util/json.h"
#include <stdbool.h>
#include <stdint.h>

struct axis_checkpoint {
    const char *name, *phase, *kind, *recipe, *key;
    const char *curvature_key;    /* NULL: not asked for */
    int64_t step;                 /* -1: not given */
    double tokens, learning_rate; /* NaN: not given */
};

struct axis_model {
    const char *name;
    int64_t n;
    struct axis_checkpoint *checkpoints;
};

struct axis_variant {
    int64_t bits_at, quantizer_at; /* places on the axes */
    const char *key;
    bool applicable;
};

struct axis_surface {
    const char *name, *plane, *model, *checkpoint, *quantizer, *dataset, *key;
    int64_t bits; /* -1: none */
    int64_t columns, rows;
    const json_t *exact; /* labels */
};

struct axes {
    int64_t n_models, n_checkpoints /* of the longest trajectory */, n_bits, n_quantizers,
        n_datasets, n_variants, n_surfaces;
    struct axis_model *models;
    int64_t *bits;
    const char **quantizers, **datasets;
    struct axis_variant *variants;
    struct axis_surface *surfaces;
};

/* ERR_FORMAT names the key of the plan that is missing or of a wrong type. */
MUST_USE enum status axes_of_plan(const json_t *plan, struct axes *out, struct err *e);
void axes_free(struct axes *a);
