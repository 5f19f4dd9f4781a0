/* weights_read: which weights results are of. A record names the folders that it was made from and
 * the digests of all their bytes (provenance.weights_read, docs/decisions/0002-cell-keys.md); one
 * that does not agrees with any. Results of different weights of one checkpoint are never shown
 * together: the newest count. */
#pragma once
#include "util/json.h"

/* newest: an object, empty at first. Learns the digests of the next record of a journal or cube,
 * which are the newest. Returns whether a known one has changed. */
bool weights_read_learn(json_t *newest, const json_t *record);
/* Learns what another journal or cube has. Of two digests of one checkpoint that counts whose last
 * record ended later. Returns whether a known one has changed. */
bool weights_read_join(json_t *newest, const json_t *other);
/* Whether the record was made from the newest weights. */
bool weights_read_agree(const json_t *newest, const json_t *record);
/* Whether it names weights; whether two records name the same. */
bool weights_read_any(const json_t *record);
bool weights_read_same(const json_t *a, const json_t *b);
/* Makes a record that is held in memory smaller: equal digests are one object, and its time is
 * forgotten. After weights_read_learn. */
void weights_read_share(const json_t *newest, json_t *record);
/* When a record was made, as a text that can be compared. Borrowed. */
const char *weights_read_time(const json_t *record);
