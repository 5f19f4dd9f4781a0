/* show: what the two forms of report_show share. */
#pragma once
#include "report/results_report.h"
#include "results/cube.h"

struct show {
    const struct cube *cube; /* its grid is there */
    const struct show_options *options;
    int64_t wanted[AXES_MAX]; /* the place on each axis that was asked for; -1: all */
    FILE *out;
};

/* Whether the place on an axis (-1: not on it) was asked for. */
bool show_wants(const struct show *s, int axis, int64_t at);

/* One table a model and dataset: relative errors, checkpoints by variants. */
MUST_USE enum status show_tables(const struct show *s, struct err *e);
/* One row a record of the kind (and label of its inner axis), as CSV or as a JSON array. */
MUST_USE enum status show_rows(const struct show *s, const struct rows *rows, struct err *e);
