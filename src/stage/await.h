/* await: whether the checkpoints of a visit are there, for those who run it. */
#pragma once
#include "util/json.h"

enum await_state { AWAIT_FAILED, AWAIT_WAITS, AWAIT_THERE };
/* stage: {"folder": the ledger's, "paths": [the checkpoints' folders], "user", "visit": whose grant
 * of the space is waited for, too; may be missing}. message: AWAIT_FAILED: why.
 * Only reads; what cannot be read is waited for. */
enum await_state await_look(const json_t *stage, char message[512]);
