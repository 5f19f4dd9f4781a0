/* positions: how long a model's sequences may be, from its config.json. */
#pragma once
#include "util/json.h"

/* The names in question; NULL behind the last. */
extern const char *const positions_keys[];

/* max_position_embeddings, or what older configurations call it (the names that GPTQModel looks
 * up); 0: none of them is there. */
int64_t positions_written(const json_t *config);

/* The tokens of a sequence that the model is made for: positions_written, or with RoPE scaled by
 * `linear` or `yarn`, whose configurations may state the length before scaling, that length times
 * the factor if it is more (as vLLM reckons). 0: not known. */
int64_t positions_usable(const json_t *config);
