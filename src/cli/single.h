/* single: what eval and quantize share: they run the visit of a sweep on one folder. */
#pragma once
#include "config/sweep.h"
#include "engine/visit.h"
#include "util/err.h"
#include "util/json.h"

/* The records of one visit. Zero-initialise; owned by the caller. */
struct single {
    struct visit visit;
    struct visit_hooks hooks; /* emit, memory and ranks are set by single_run */
    double start, printed;    /* clock_seconds: of the run, and of its last line of progress */
    bool terminal;            /* which rewrites that line */
    json_t *checkpoint;       /* its record */
    json_t *cell;             /* the record of the variant, NULL: there is none */
    char *label;              /* of the text that is scored; NULL: there is none */
};
void single_free(struct single *s);

/* Adds an evaluation dataset; takes over d. ERR_USAGE (checks between its keys, which are named as
 * the flags "--PREFIXtext", ...), ERR_NOMEM. */
MUST_USE enum status single_add_evaluation(struct single *s, struct data_options *d,
                                           const char *prefix, struct err *e);

/* Sets method and width of *out from flags; *bits 0: the method's, if it has only one. calibration:
 * its text, if there is one. ERR_USAGE: no such width, a text too many or missing; errors of
 * quant_check. */
MUST_USE enum status single_variant(const char *method, const struct quant_options *options,
                                    int64_t *bits, const struct data_options *calibration,
                                    struct variant *out, struct err *e);

/* Multiplies as --products says and rounds as --rounding says; NULL: in f32. */
void single_numbers(struct single *s, const char *products, const char *rounding);

/* Runs the visit on dir, with a line of progress on standard error; a failed record becomes an
 * error with its message. hooks->context must be s. */
MUST_USE enum status single_run(struct single *s, const char *dir, const char *tokenizer,
                                struct err *e);

/* A number of a dataset of the record, as a new reference: null when it is not a number. */
json_t *single_number(const json_t *record, const char *key);
