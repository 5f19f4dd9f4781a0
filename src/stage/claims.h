/* claims: who may use the disk space that staging has, as pure functions of the ledger's state
 * (ledger.h). docs/decisions/0026-staging.md says why everybody gets on.
 *
 *   {"models":      {MODEL: bytes of its largest checkpoint so far}
 *    "checkpoints": {PATH: {"state": "fetching"  "by" a life; without: what is left of a try
 *                                    "there"     complete
 *                                    "failed"    "message" says why; takes no space
 *                                    "own"       the user's: not counted, never removed
 *                                    "removing"  only until the caller has removed it
 *                           "bytes", "used": a run has needed it}}
 *    "users":       {USER: {"life": which process it is; without: it is gone
 *                           "needs": {PATH: after how many others it reads it}}}
 *    "visits":      {VISIT: {"user", "reads": SET, "leased": BOOL}}, in the order of asking}
 *
 * A SET is {PATH: bytes that it is expected to take}, in an order. space is in bytes. Without
 * memory a function may leave its change undone, which json_whole finds. */
#pragma once
#include "util/json.h"

/* The integer of that name; 0 if there is none. Whether it is true. */
static inline int64_t claims_number(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}
static inline bool claims_flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* What the ledger notes of a checkpoint, borrowed; NULL: nothing. Whether it is in that state. */
json_t *claims_entry(const json_t *state, const char *path);
bool claims_is(const json_t *entry, const char *word);
/* On disk, complete; what is left of a try. */
bool claims_there(const json_t *entry);
bool claims_left(const json_t *entry);
/* Whether a user, gone or not, needs it. */
bool claims_needed(const json_t *state, const char *path);

/* What users without a life had asked for or leased is nobody's; what they need is remembered. */
void claims_bury(json_t *state);
/* Whether whoever fetches it is gone, or has given it up: "by" is removed once its command has
 * ended, which until then may write. */
bool claims_orphaned(const json_t *state, const json_t *entry);
/* The user needs these (a SET; NULL: nothing). */
void claims_register(json_t *state, const char *user, const char *life, json_t *needs);

/* A visit ({"user", "life", "visit", "reads"}) asks for a lease of all that it reads; there: the
 * disk has it, too. CLAIM_LEASED: it has it, until claims_end; CLAIM_WAITS: it stands in line, or
 * that life of the user is over; CLAIM_NEVER: that is more than the space. */
enum claim { CLAIM_NEVER, CLAIM_WAITS, CLAIM_LEASED };
enum claim claims_ask(json_t *state, const json_t *visit, bool there, int64_t space);
void claims_end(json_t *state, const char *visit);

/* The checkpoint that the user is to fetch now, claimed for it: of what visits ask for, else of
 * wanted (a SET); NULL: none. Only a key of items ({PATH: {"not_before": later than now: not it}}),
 * borrowed. What is in the way is "removing" now. *full: there is no space for the next. */
const char *claims_fetch(json_t *state, const char *user, json_t *items, json_t *wanted,
                         int64_t space, double now, bool *full);
/* So many bytes of what is fetched are on disk. False: that is too much, it is given up, and its
 * command is to be ended. */
bool claims_measure(json_t *state, const char *path, int64_t bytes, int64_t space);
/* It is "there", "own", "failed" (message: why), or "fetching" by nobody. model: whose size is
 * noted then; "": not. */
void claims_set_state(json_t *state, const char *path, const char *model, const char *word,
                      int64_t bytes, const char *message);
/* What has been needed, and is no longer, is "removing". Call it last. */
void claims_tidy(json_t *state);
