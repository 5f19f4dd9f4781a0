/* claims: who may use the disk space that staging has, as pure functions of the ledger's state
 * (ledger.h). docs/decisions/0026-staging.md says why everybody gets on.
 *
 *   {"models":      {MODEL: bytes of its largest checkpoint so far}
 *    "checkpoints": {PATH: {"state": "fetching"  "by" a user
 *                                    "ending"    given up, its command may still write
 *                                    "left"      what is left of a try
 *                                    "there"     complete
 *                                    "failed"    "message" says why; takes no space
 *                                    "own"       the user's: not counted, never removed
 *                                    "removing"  only until the caller has removed it
 *                           "bytes", "used": a run has needed it}}
 *    "users":       {USER: {"life": which process it is; without: it is gone
 *                           "needs": {PATH: after how many others it reads it}}}
 *    "visits":      {VISIT: {"user", "reads": SET, "leased": BOOL}}, in the order of asking}
 *
 * A SET is {PATH: MODEL}, in an order. space is in bytes. Without memory a function may leave its
 * change undone, which json_whole finds. */
#pragma once
#include "util/json.h"

/* What the ledger notes of a checkpoint, borrowed; NULL: nothing. Whether it is in that state; on
 * disk, complete; needed by a user, gone or not. */
json_t *claims_entry(const json_t *state, const char *path);
bool claims_is(const json_t *entry, const char *word);
bool claims_there(const json_t *entry);
bool claims_needed(const json_t *state, const char *path);
/* Bytes that a SET takes on disk once it is fetched, as far as is known: a checkpoint is expected
 * to be as large as the largest of its model. */
int64_t claims_bytes(const json_t *state, json_t *set);

/* It is in that state now, with so many bytes. Returns its entry, borrowed. */
json_t *claims_set(json_t *state, const char *path, const char *word, int64_t bytes);
/* What users without a life had asked for, leased or fetched is nobody's; what they need is
 * remembered. */
void claims_bury(json_t *state);
/* The user needs these (a SET; NULL: nothing), all that its visits read that have not ended. */
void claims_register(json_t *state, const char *user, const char *life, json_t *needs);

/* A visit ({"user", "life", "visit", "reads", "space"}) asks for a lease of all that it reads;
 * there: the disk has it, too. CLAIM_LEASED: it has it, until it is removed from "visits";
 * CLAIM_WAITS: it stands in line, or that life of the user is over; CLAIM_NEVER: that is not to be
 * had, why says so. */
enum claim { CLAIM_NEVER, CLAIM_WAITS, CLAIM_LEASED };
enum claim claims_ask(json_t *state, const json_t *visit, bool there, char why[512]);

/* The checkpoint that the user is to fetch now, claimed for it: of what visits ask for, else of
 * wanted (a SET); NULL: none. Only a key of items ({PATH: {"model", "not_before": later than now:
 * not it}}), borrowed. What is in the way is "removing" now. *full: there is no space for the next.
 */
const char *claims_fetch(json_t *state, const char *user, json_t *items, json_t *wanted,
                         int64_t space, double now, bool *full);
/* So many bytes of what is fetched are on disk. False: that is too much, it is given up, and its
 * command is to be ended. */
bool claims_measure(json_t *state, const char *path, int64_t bytes, int64_t space);
/* What has been needed, and is no longer, is "removing". Call it last. */
void claims_tidy(json_t *state);
