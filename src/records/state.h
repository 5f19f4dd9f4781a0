/* state: whether a record is there, and done. */
#pragma once
#include "util/json.h"

/* State of a record; NULL: pending. */
enum result_state { STATE_PENDING, STATE_DONE, STATE_FAILED, STATE_NOT_APPLICABLE, STATE_N };
extern const char *const result_state_words[STATE_N];
enum result_state result_state_of(const json_t *record);
