/* show: what the two forms of results_show share. */
#pragma once
#include "results/cube.h"

struct show {
    const struct results_view *view;
    const struct show_options *options;
    struct axes axes;
    FILE *out;
};

bool show_wants_model(const struct show *s, int64_t model);
bool show_wants_dataset(const struct show *s, int64_t dataset);
bool show_wants_variant(const struct show *s, const struct axis_variant *v);

/* One table a model and dataset: relative errors, checkpoints by variants. */
MUST_USE enum status show_tables(const struct show *s, struct err *e);
/* One row a (cell, dataset), as CSV or as a JSON array of objects. */
MUST_USE enum status show_rows(const struct show *s, struct err *e);
