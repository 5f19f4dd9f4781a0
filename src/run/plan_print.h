/* plan_print: what `qtraj plan` prints of a plan_report. */
#pragma once
#include "run/plan_report.h"
#include <stdio.h>

/* The report as JSON (a new reference, NULL: out of memory), and as text (ERR_NOMEM). */
json_t *plan_report_json(const struct plan_report *r);
MUST_USE enum status plan_report_print(const struct plan_report *r, FILE *out, struct err *e);
