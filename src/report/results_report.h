/* results_report: results as tables for people and rows for machines. */
#pragma once
#include "results/results.h"

struct show_options {
    bool csv, json;
    const char *kind; /* rows of which kind of result (kind.h); NULL: cells */
    const char *model, *quantizer, *dataset; /* NULL: all */
    int64_t bits;                            /* 0: all */
};
/* Relative errors of cells as tables, or one row a record (and dataset) with every number of the
 * cube along its axes, as CSV or JSON. ERR_USAGE: an option that chooses nothing. */
MUST_USE enum status report_show(const struct results_view *v, const struct show_options *o,
                                 FILE *out, struct err *e);

/* Counts of done, failed, not applicable and pending records of every kind; the messages of failed
 * ones; when and how the last run ended. */
MUST_USE enum status report_status(const struct results_view *v, bool json, FILE *out,
                                   struct err *e);
