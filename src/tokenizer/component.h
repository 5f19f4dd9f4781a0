/* component: typed members of the parts of a tokenizer.json, with messages that name them. */
#pragma once
#include "util/json.h"

enum { COMPONENT_DEPTH = 8 }; /* of Sequences within Sequences */

/* The "type" of a component; `where` ("pre_tokenizer") stands in messages. ERR_FORMAT when it is no
 * object or has no type. */
MUST_USE enum status component_type(const json_t *o, const char *where, const char **type,
                                    struct err *e);

/* A member that may be absent or null (then `otherwise`). ERR_FORMAT for another type. */
MUST_USE enum status component_bool(const json_t *o, const char *where, const char *key,
                                    bool otherwise, bool *value, struct err *e);

/* The string member `key` (borrowed); ERR_FORMAT when absent or of another type. */
MUST_USE enum status component_text(const json_t *o, const char *where, const char *key,
                                    const char **text, size_t *n, struct err *e);

/* An integer in 0..max. ERR_FORMAT. */
MUST_USE enum status component_int(const json_t *o, const char *where, const char *key, int64_t max,
                                   int64_t *value, struct err *e);

/* The array member `key` (borrowed). ERR_FORMAT. */
MUST_USE enum status component_array(const json_t *o, const char *where, const char *key,
                                     const json_t **array, struct err *e);

/* "pattern": {"String": ...} or {"Regex": ...}. ERR_FORMAT. */
MUST_USE enum status component_pattern(const json_t *o, const char *where, const char **text,
                                       size_t *n, bool *regex, struct err *e);
