/* run_compose: records that take parts from finished ones of other settings (struct measure_parts):
 * whole before they go to the journal. */
#pragma once
#include "plan/plan.h"
#include "run/run_journal.h"

/* The journals that such records are in, opened when the first one is wanted. Zero-initialise. */
struct run_compose {
    bool open;
    int64_t n, capacity;
    struct compose_source *sources; // (n) private to run_compose.c
};
void run_compose_free(struct run_compose *c);

/* *out (a new reference) = the record with the parts that its provenance says are from others; the
 * same record if it says nothing. Where those are of other weights than the record, it has failed,
 * and the next run tries again. results: of the whole sweep. ERR_IO, ERR_NOMEM. */
MUST_USE enum status run_compose(struct run_compose *c, const struct run_journal *own,
                                 const char *results, const json_t *record, json_t **out,
                                 struct err *e);
/* Appends the plan's p->composed to the journal; *any: there are some. */
MUST_USE enum status run_compose_whole(struct run_compose *c, const struct plan *p,
                                       struct run_journal *own, bool *any, struct err *e);
