/* part_table: how far each part of a sweep is, and the running visits. */
#pragma once
#include "records/part_files.h"
#include "records/rows.h"

/* The parts with what is known of each; all borrowed. */
struct part_table {
    const struct part_places *parts;
    const struct part_look *looks; // (parts->n)
};

/* Whether any part is running. */
bool part_table_runs(const struct part_table *t);
/* One line a part: its number, node, state, results done, failed and pending, results an hour and
 * the time left, then a line for the sweep; parts of the last cut that have no journal yet are
 * counted. Of other cuts only parts that run or have results that are not merged are shown. all:
 * the records of the sweep with their states in all parts together. ERR_NOMEM. */
MUST_USE enum status part_table_print(const struct part_table *t, const struct inventory *all,
                                      FILE *out, struct err *e);
/* The same as a list of objects, a new reference; NULL: out of memory. */
json_t *part_table_json(const struct part_table *t, const struct inventory *all);

struct report_about;
/* One line for each running visit, the oldest first, of each part that runs or of
 * the one run; none if nothing is known. */
void status_running_print(const struct report_about *about, FILE *out);
/* The same as a list of objects (records/running.h), with "part": "3/8" where there are parts: a
 * new reference; NULL: out of memory. */
json_t *status_running_json(const struct report_about *about);
