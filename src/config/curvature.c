#include "config/curvature.h"
#include "config/options.h"

/* In the order of enum hvp_subset, enum sharpness_method and enum power_stop. */
static const char *const subsets[] = {"all", "mat2d", "blocks2d", "quantized", NULL};
static const char *const methods[] = {"none", "power", "lanczos", NULL};
static const char *const stops[] = {"pyhessian", "residual", NULL};

#define AT(key) offsetof(struct curvature_options, key)

static const struct option keys[] = {
    {.name = "subset",
     .doc = "parameters: all, 2-D tensors (mat2d), those inside blocks (blocks2d), what "
            "quantization touches (quantized)",
     .type = OPTION_CHOICE,
     .offset = AT(subset),
     .fallback = "all",
     .choices = subsets},
    {.name = "sharpness",
     .doc = "eigenvalue of largest magnitude by power iteration, or both ends by Lanczos",
     .type = OPTION_CHOICE,
     .offset = AT(sharpness),
     .fallback = "none",
     .choices = methods},
    {.name = "stop",
     .doc = "when power iteration stops: PyHessian's rule, or the residual",
     .type = OPTION_CHOICE,
     .offset = AT(stop),
     .fallback = "pyhessian",
     .choices = stops},
    {.name = "tolerance",
     .doc = "of the sharpness: change (pyhessian) or residual, relative to the eigenvalue",
     .type = OPTION_REAL,
     .offset = AT(tolerance),
     .fallback = "0.001",
     .least = 0,
     .most = 1},
    {.name = "products",
     .doc = "Hessian-vector products that the sharpness may take",
     .type = OPTION_INT,
     .offset = AT(products),
     .fallback = "100",
     .low = 1,
     .high = 1000000},
    {.name = "trace",
     .doc = "probes of the trace, each a product; 0: no trace",
     .type = OPTION_INT,
     .offset = AT(trace),
     .fallback = "0",
     .low = 0,
     .high = 1000000},
    {.name = "trace_error",
     .doc = "go on until the trace's relative standard error is this; 0: take `trace` probes",
     .type = OPTION_REAL,
     .offset = AT(trace_error),
     .fallback = "0",
     .least = 0,
     .most = 1},
    {.name = "trace_most",
     .doc = "probes at most on the way to trace_error",
     .type = OPTION_INT,
     .offset = AT(trace_most),
     .fallback = "100",
     .low = 1,
     .high = 1000000},
    {.name = "hutchpp",
     .doc = "spend the trace's products as Hutch++ does; refused where its vectors do not fit",
     .type = OPTION_BOOL,
     .offset = AT(hutchpp),
     .fallback = "false"},
    {.name = "together",
     .doc = "probes that share a pass through the model, as far as memory allows",
     .type = OPTION_INT,
     .offset = AT(together),
     .fallback = "8",
     .low = 1,
     .high = 1024},
    {.name = "density",
     .doc = "Lanczos steps of a run of the spectral density; 0: no density",
     .type = OPTION_INT,
     .offset = AT(density),
     .fallback = "0",
     .low = 0,
     .high = 10000},
    {.name = "density_runs",
     .doc = "runs of the spectral density, each from a random vector",
     .type = OPTION_INT,
     .offset = AT(density_runs),
     .fallback = "1",
     .low = 1,
     .high = 10000},
    {.name = "memory",
     .doc = "GiB that stored vectors may take; Lanczos takes at most 32 and restarts, a density "
            "does without",
     .type = OPTION_REAL,
     .offset = AT(memory),
     .fallback = "16",
     .least = 0,
     .most = 1 << 20},
};

/* What is wrong between the keys, NULL if nothing; *key is the one to point at. */
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
    enum status st = OK;
    const char *key, *what = fault(entry, &key);
    if (what) TRY(options_fail(scope, key, e, "%s", what));
done:
    return st;
}

const struct option_table curvature_table = {.options = keys,
                                             .n = sizeof keys / sizeof *keys,
                                             .size = sizeof(struct curvature_options),
                                             .finish = finish};

void curvature_options_default(struct curvature_options *o)
{
    options_default(&curvature_table, o);
}

enum status curvature_options_flag(struct curvature_options *o, int argc, char **argv, int *used,
                                   struct err *e)
{
    return options_flag(&curvature_table, "", o, argc, argv, used, e);
}

enum status curvature_options_finish(const struct curvature_options *o, struct err *e)
{
    enum status st = OK;
    const char *key, *what = fault(o, &key);
    if (!what) goto done;
    char flag[32];
    snprintf(flag, sizeof flag, "--%s", key);
    for (char *c = flag + 2; *c; c++)
        if (*c == '_') *c = '-';
    FAIL(ERR_USAGE, "%s: %s", flag, what);
done:
    return st;
}

void curvature_options_print_flags(FILE *out)
{
    options_print_flags(&curvature_table, "", out);
}

json_t *curvature_options_to_json(const struct curvature_options *o)
{
    return options_to_json(&curvature_table, o);
}

enum status curvature_options_from_json(const json_t *json, struct curvature_options *out,
                                        struct err *e)
{
    return options_from_json(&curvature_table, json, out, e);
}
