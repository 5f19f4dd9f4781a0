/* curvature_options: options of curvature measurements; one table for flags and sweep files. */
#pragma once
#include "options/options.h"

enum sharpness_method { SHARPNESS_NONE, SHARPNESS_POWER, SHARPNESS_LANCZOS };

struct curvature_options {
    int subset;         /* enum hvp_subset */
    int sharpness;      /* enum sharpness_method */
    int stop;           /* enum power_stop */
    double tolerance;   /* of the sharpness, relative */
    int64_t products;   /* maximum for the sharpness */
    bool smallest;      /* Lanczos: the smallest eigenvalue must converge too */
    int64_t trace;      /* probes (Hutch++: products); 0: no trace */
    double trace_error; /* relative standard error to reach; 0: exactly `trace` probes */
    int64_t trace_most; /* maximum number of probes to reach it */
    bool hutchpp;
    int64_t together; /* probes that share a pass through the model */
    int64_t density;  /* Lanczos steps of a run; 0: no density */
    int64_t density_runs;
    double memory; /* GiB for stored vectors: a setting instead of what is free, so that results do
                      not depend on the machine */
};

extern const struct option_table curvature_table;
/* Checks between the flags, when all are known. ERR_USAGE. */
MUST_USE enum status curvature_options_finish(const struct curvature_options *o, struct err *e);

/* Whether anything is requested besides loss and gradient, which are always measured. */
bool curvature_asked_for(const struct curvature_options *o);
/* The maximum number of products with the Hessian; a gradient costs less than one product. */
int64_t curvature_products_max(const struct curvature_options *o);
