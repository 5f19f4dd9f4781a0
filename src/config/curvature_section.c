/* The section `curvature`: its keys, and the text that it is measured on. */
#include "config/sweep.h"

/* In the order of enum second_order_depth. */
const char *const second_order_depths[] = {"none", "total", "layers", NULL};

static const struct option section_keys[] = {
    {.type = OPTION_KEYS,
     .table = &curvature_table,
     .offset = offsetof(struct curvature_section, options)},
    OPTION(curvature_section, sequences, INT, "sequences of the text that are used",
           .unit = "sequences", .fallback = "4", .low = 1, .high = 1000000),
    OPTION(curvature_section, length, INT,
           "tokens of each sequence that are used, the first ones; own: all", .unit = "tokens",
           .fallback = "own", .low = 2, .high = 1 << 24, OPTION_SPECIAL(0, "own")),
    OPTION(curvature_section, data, GROUP, "separate text for curvature",
           .otherwise = "the first evaluation text", .table = &data_table),
    OPTION(curvature_section, seed, INT, "seed of start vectors and probes", .fallback = "0",
           .low = 0, .high = INT64_MAX),
    OPTION(curvature_section, warm_start, BOOL,
           "the sharpness starts from the eigenvector of the previous checkpoint; results then "
           "depend on that checkpoint too",
           .fallback = "false", .with = "sharpness"),
    OPTION(curvature_section, second_order, CHOICE,
           "predict the change of loss of every cell from gradient and Hessian, with one product "
           "per cell (total), and one more per layer (layers)",
           .fallback = "none", .choices = second_order_depths),
    OPTION(curvature_section, critical, BOOL,
           "critical sharpness, from forward passes only: of each checkpoint along the direction "
           "from the previous one, of each cell along the change of its weights",
           .fallback = "false"),
};

bool curvature_section_asks(const struct curvature_section *c)
{
    return curvature_asked_for(&c->options) || c->second_order != SECOND_ORDER_NONE || c->critical;
}

static enum status section_finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct curvature_section *c = entry;
    PASS(curvature_table.finish(&c->options, scope, e));
    if (!curvature_section_asks(c))
        PASS(options_fail(scope, "sharpness", e,
                          "nothing is requested, expected sharpness, trace, density, second_order "
                          "or critical; "
                          "without the section no curvature is measured"));
    return OK;
}

const struct option_table curvature_section_table = {OPTION_ROWS(section_keys, curvature_section),
                                                     .finish = section_finish};
