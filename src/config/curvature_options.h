/* curvature: what is measured of the loss's curvature, as one table for flags and sweep files. */
#pragma once
#include "util/err.h"
#include "util/json.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum sharpness_method { SHARPNESS_NONE, SHARPNESS_POWER, SHARPNESS_LANCZOS };

struct curvature_options {
    int subset;         /* enum hvp_subset */
    int sharpness;      /* enum sharpness_method */
    int stop;           /* enum power_stop */
    double tolerance;   /* of the sharpness, relative */
    int64_t products;   /* for the sharpness at most */
    bool smallest;      /* Lanczos: the smallest eigenvalue must converge too */
    int64_t trace;      /* probes (Hutch++: products); 0: no trace */
    double trace_error; /* relative standard error to reach; 0: exactly `trace` probes */
    int64_t trace_most; /* probes at most on the way to it */
    bool hutchpp;
    int64_t together; /* probes that share a pass through the model */
    int64_t density;  /* Lanczos steps of a run; 0: no density */
    int64_t density_runs;
    double memory; /* GiB for stored vectors: a setting, not what is free, so that numbers do not
                      depend on the machine */
};

void curvature_options_default(struct curvature_options *o);
/* Flags "--subset mat2d", "--trace 8", ... as data_options_flag; finish: what holds between them.
 * ERR_USAGE. */
MUST_USE enum status curvature_options_flag(struct curvature_options *o, int argc, char **argv,
                                            int *used, struct err *e);
MUST_USE enum status curvature_options_finish(const struct curvature_options *o, struct err *e);
void curvature_options_print_flags(FILE *out);

/* Both directions, all bits kept; to_json: a new reference, NULL when out of memory. ERR_FORMAT. */
json_t *curvature_options_to_json(const struct curvature_options *o);
MUST_USE enum status curvature_options_from_json(const json_t *json, struct curvature_options *out,
                                                 struct err *e);

/* Whether anything is asked for beside loss and gradient, which come with it. */
bool curvature_asked_for(const struct curvature_options *o);
/* Products with the Hessian that the options may take at most; a gradient costs less than one. */
int64_t curvature_products_most(const struct curvature_options *o);
