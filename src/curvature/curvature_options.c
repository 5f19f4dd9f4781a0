#include "curvature/curvature_options.h"
#include "curvature/hvp.h"

/* In the order of enum sharpness_method and enum power_stop. */
static const char *const methods[] = {"none", "power", "lanczos", NULL};
static const char *const stops[] = {"pyhessian", "residual", NULL};

static const struct option keys[] = {
    OPTION(curvature_options, subset, CHOICE,
           "parameters: all, 2-D tensors (mat2d), 2-D tensors inside blocks (blocks2d), quantized "
           "weights (quantized)",
           .fallback = "all", .choices = hvp_subsets),
    OPTION(curvature_options, sharpness, CHOICE,
           "eigenvalue of largest magnitude by power iteration, or the largest (and an estimate of "
           "the smallest) by Lanczos",
           .fallback = "none", .choices = methods),
    OPTION(curvature_options, stop, CHOICE,
           "when power iteration stops: PyHessian's rule, or the residual", .fallback = "pyhessian",
           .choices = stops, .with = "sharpness=power"),
    OPTION(curvature_options, tolerance, REAL,
           "of the sharpness: change (pyhessian) or residual, relative to the eigenvalue",
           .fallback = "0.001", .minimum = 0, .maximum = 1, .with = "sharpness"),
    OPTION(curvature_options, products, INT,
           "maximum number of Hessian-vector products for the sharpness", .unit = "products",
           .fallback = "100", .low = 1, .high = 1000000, .with = "sharpness"),
    OPTION(curvature_options, smallest, BOOL,
           "Lanczos: continue until the smallest eigenvalue has converged too", .fallback = "false",
           .with = "sharpness=lanczos"),
    OPTION(curvature_options, trace, INT, "probes of the trace, each one product; 0: no trace",
           .unit = "probes", .fallback = "0", .low = 0, .high = 1000000),
    OPTION(curvature_options, trace_error, REAL,
           "continue until the trace's relative standard error is this; 0: exactly `trace` probes",
           .fallback = "0", .minimum = 0, .maximum = 1, .with = "trace"),
    OPTION(curvature_options, trace_most, INT, "maximum number of probes to reach trace_error",
           .unit = "probes", .fallback = "100", .low = 1, .high = 1000000, .with = "trace_error"),
    OPTION(curvature_options, hutchpp, BOOL,
           "use the trace's products for Hutch++; an error if its vectors do not fit",
           .fallback = "false"),
    OPTION(curvature_options, together, INT,
           "maximum number of probes that share a pass, if memory allows", .unit = "probes",
           .fallback = "8", .low = 1, .high = 1024),
    OPTION(curvature_options, density, INT,
           "Lanczos steps per run of the spectral density; 0: no density", .unit = "steps",
           .fallback = "0", .low = 0, .high = 10000),
    OPTION(curvature_options, density_runs, INT,
           "runs of the spectral density, each from a random vector", .unit = "runs",
           .fallback = "1", .low = 1, .high = 10000, .with = "density"),
    OPTION(curvature_options, memory, REAL,
           "GiB for stored vectors per rank; if they do not fit, Lanczos (at most 32) restarts, "
           "and a density does without",
           .unit = "GiB", .fallback = "16", .minimum = 0, .maximum = 1 << 20),
};

/* A conflict between the keys, NULL: none; *key: the key to name in the message. */
static const char *fault(const struct curvature_options *o, const char **key)
{
    *key = "hutchpp";
    if (o->hutchpp && o->trace < 6) return "spends the products of `trace`, expected at least 6";
    if (o->hutchpp && o->trace_error > 0)
        return "takes a fixed number of products, expected no trace_error";
    *key = "trace_error";
    if (o->trace_error > 0 && o->trace < 2)
        return "needs `trace` probes to start with, expected at least 2";
    return NULL;
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const char *key, *what = fault(entry, &key);
    if (what) PASS(options_fail(scope, key, e, "%s", what));
    return OK;
}

const struct option_table curvature_table = {OPTION_ROWS(keys, curvature_options),
                                             .finish = finish};

enum status curvature_options_finish(const struct curvature_options *o, struct err *e)
{
    const char *key, *what = fault(o, &key);
    if (!what) return OK;
    char flag[OPTION_FLAG];
    option_flag_name("", key, flag);
    RAISE(ERR_USAGE, "%s: %s", flag, what);
}

bool curvature_asked_for(const struct curvature_options *o)
{
    return o->sharpness != SHARPNESS_NONE || o->trace > 0 || o->density > 0;
}

int64_t curvature_products_max(const struct curvature_options *o)
{
    int64_t trace = o->trace_error > 0 && o->trace_most > o->trace ? o->trace_most : o->trace;
    return (o->sharpness != SHARPNESS_NONE ? o->products : 0) + trace +
           o->density * o->density_runs;
}
