/* scores: which texts a record has been scored on, and what earlier versions recorded.
 *
 * The key of a checkpoint, cell or replicate contains no evaluation text. Its record has its
 * numbers by the digests of the texts ("datasets"), and names these in
 * "provenance": {"text DIGEST": {"name": label, ["added": true,] ["message", "inputs"]}}, where
 * `added` marks what a completion has brought, and a message a text that could not be scored
 * (docs/decisions/0035-scores-per-text.md). That of a replicate has "drawn": the digests of the
 * texts that its calibration avoids, one a line. */
#pragma once
#include "records/results.h"

/* Adds a text to a record's provenance or to what a completion "completes". failure: why it could
 * not be scored; NULL: it is. inputs: digest of the input files then. */
void scores_note(json_t *to, const char *text, const char *label, bool added, const char *failure,
                 const char *inputs);

/* What a record says of a text; NULL: nothing. Borrowed. */
const json_t *scores_find(const json_t *record, const char *text);
/* PENDING, DONE or FAILED. */
enum result_state scores_state(const json_t *record, const char *text);
/* Whether its times are those of just these n texts. */
bool scores_are(const json_t *record, const char (*texts)[HASH_HEX], int64_t n);

/* *out (a new reference) = a completion of a record with the texts of `other`, a record of the same
 * key, that it lacks; NULL: none, or one of them is not done, or of other weights. ERR_NOMEM. */
MUST_USE enum status scores_completion(const json_t *record, const json_t *other, json_t **out,
                                       struct err *e);

/* --- keys of earlier versions --- */

/* Adds to the map {former key: {"key", ["texts": {label: digest}]}} what a plan record says of
 * them. ERR_FORMAT (a malformed plan), ERR_NOMEM. */
MUST_USE enum status former_learn(json_t *map, const json_t *plan, struct err *e);
/* *out (a new reference) = the record as this version writes it, itself if it is of no former key.
 * ERR_NOMEM. */
MUST_USE enum status former_record(const json_t *map, const json_t *record, json_t **out,
                                   struct err *e);
/* Adds {"evaluation", "inputs"} of a plan record that says nothing of the texts' digests to the
 * list, once. ERR_NOMEM. */
MUST_USE enum status former_plan(json_t *list, const json_t *plan, struct err *e);
