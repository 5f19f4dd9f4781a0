/* show: what the forms of report_show share. */
#pragma once
#include "cube/cube.h"
#include "cube/results_report.h"

struct show {
    const struct cube *cube; /* with its grid variables built */
    const struct show_options *options;
    FILE *out;
};

/* Whether results of that label were asked for (--only); key: "model", "bits", ... */
bool show_wants_label(const struct show *s, const char *key, const char *label);
/* Whether a row was asked for: all labels that it has. */
bool show_wants(const struct show *s, const struct rows *r, const struct row *row);
/* Whether a number was asked for (--metric), by its name in the cube; without --metric all were. */
bool show_wants_metric(const struct show *s, const char *name);
/* The number of a variable (NULL: none) at the row's place; NaN: it is not there. */
double show_number(const struct show *s, const struct cube_variable *x, const struct row *row);
/* By what tables multiply a metric: loss_relative is shown in percent. */
double show_scale(const char *metric);

/* A table a model, dataset, metric and quantizer: checkpoints by bits; of one width, all quantizers
 * beside each other. */
MUST_USE enum status show_tables(const struct show *s, struct err *e);
/* A table of the kind's records, which are no cells, and whether its numbers have converged. */
MUST_USE enum status show_kind(const struct show *s, const struct rows *rows, struct err *e);
/* A table of cells with replicates: mean, standard deviation and number of these. rows: those of a
 * kind with spreads. */
MUST_USE enum status show_spread(const struct show *s, const struct rows *rows, struct err *e);
/* One row a record of the kind (and label of its inner axis), as CSV or as a JSON array. */
MUST_USE enum status show_rows(const struct show *s, const struct rows *rows, struct err *e);
