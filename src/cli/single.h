/* single: what the single-checkpoint commands share. They run the sweep's own visit over one
 * folder. */
#pragma once
#include "config/sweep.h"
#include "util/err.h"
#include "util/json.h"
#include "visit/visit.h"

/* The records of one visit. Zero-initialise; owned by the caller. */
struct single {
    struct visit visit;
    struct visit_hooks hooks; /* emit is set here; context is the caller's choice, see below */
    json_t *checkpoint;       /* record */
    json_t *cell;             /* record of the only variant, NULL without one */
};
void single_free(struct single *s);

/* Adds an evaluation dataset; d is taken over. ERR_USAGE (checks between its keys, named after the
 * flags "--PREFIXtext", ...), ERR_NOMEM. */
MUST_USE enum status single_add_evaluation(struct single *s, struct data_options *d,
                                           const char *prefix, struct err *e);

/* Runs the visit on dir; a failed record becomes an error with its message. hooks->context must be
 * s. */
MUST_USE enum status single_run(struct single *s, const char *dir, const char *tokenizer,
                                struct err *e);

/* A number of a dataset of the record, as a new reference: null when it is not a number. */
json_t *single_number(const json_t *record, const char *key);
