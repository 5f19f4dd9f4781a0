/* weights_read: which weights results are of. A record names the folders that it was made from and
 * the digests of all their bytes (provenance.weights_read, docs/decisions/0002-cell-keys.md); one
 * that does not agrees with any. Results of different weights of one checkpoint are never shown
 * together: the newest count. */
#pragma once
#include "util/json.h"

/* newest: an object, empty at first. Learns the digests of a record: with `always` they are the
 * newest, else if its time is not before that of those that are known. Returns whether a known one
 * has changed. */
bool weights_read_learn(json_t *newest, const json_t *record, bool always);
/* Whether the record was made from the newest weights. */
bool weights_read_agree(const json_t *newest, const json_t *record);
/* Makes a record that is held in memory smaller: equal digests are one object, and its time is
 * forgotten. After weights_read_learn. */
void weights_read_share(const json_t *newest, json_t *record);
/* When a record was made, as a text that can be compared. Borrowed. */
const char *weights_read_time(const json_t *record);
