/* claims: who may use the disk space that staging has, as pure functions of the ledger's state
 * (ledger.h). docs/decisions/0026-staging.md says why everybody gets on.
 *
 *   {"models":      {MODEL: bytes of its largest checkpoint so far}
 *    "checkpoints": {PATH: {"state": "fetching"  "by" a user; without: what is left of a try
 *                                    "there"     complete
 *                                    "removing"
 *                                    "failed"    "message" says why
 *                                    "own"       the user's: not counted, never removed
 *                           "bytes", "model", "keep": never removed, "used": a run has needed it}}
 *    "users":       {USER: {"life": which process it is; without: it is gone
 *                           "needs": [PATH, what it reads next first]}}
 *    "visits":      [{"user", "visit", "reads": {PATH: MODEL}, "leased": BOOL}, as they asked]}
 *
 * An item is a checkpoint that a user may fetch: {"path", "model", "keep", "needed": by a visit of
 * the user, "later": not now}. space is in bytes, 0: no limit. Without memory a function may leave
 * its change undone, which json_whole finds. */
#pragma once
#include "util/json.h"

/* The integer of that name; 0 if there is none. */
static inline int64_t claims_number(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

/* What the ledger notes of a checkpoint, borrowed; NULL: nothing. Whether it is in that state. */
json_t *claims_entry(const json_t *state, const char *path);
bool claims_is(const json_t *entry, const char *word);
/* On disk, complete. */
bool claims_there(const json_t *entry);
/* Bytes of the largest checkpoint of the model; -1: none is known. */
int64_t claims_model_bytes(const json_t *state, const char *model);
/* Whether a user, gone or not, needs it. */
bool claims_needed(const json_t *state, const char *path);

/* What users who are gone had asked for, leased or fetched is nobody's; what they need is
 * remembered. active: {USER: BOOL}. */
void claims_bury(json_t *state, const json_t *active);
/* The user needs these ([PATH]). */
void claims_register(json_t *state, const char *user, const char *life, json_t *needs);

/* A visit ({"user", "life", "visit", "reads"}) asks for a lease of all that it reads. True: it has
 * it, until claims_end; false: it stands in line, or that life of the user is over. */
bool claims_ask(json_t *state, const json_t *visit, int64_t space);
void claims_end(json_t *state, const char *user, int64_t visit);

/* The item ([items], borrowed) that the user is to fetch now, claimed for it; NULL: none. What is
 * in the way is "removing" now. *full: there is no space for the next. */
json_t *claims_fetch(json_t *state, const char *user, const json_t *items, int64_t space,
                     bool *full);
/* So many bytes of what the user fetches are on disk. CLAIM_LOST: its command is to be ended;
 * CLAIM_NEVER: nor does it fit alone. */
enum claim { CLAIM_FITS, CLAIM_LOST, CLAIM_NEVER };
enum claim claims_measure(json_t *state, const char *user, const json_t *item, int64_t bytes,
                          int64_t space);
/* The item is "there", "own", "failed" (message: why), or "fetching" by nobody. */
void claims_settle(json_t *state, const json_t *item, const char *word, int64_t bytes,
                   const char *message);
/* What no user needs any more is "removing". */
void claims_tidy(json_t *state);
