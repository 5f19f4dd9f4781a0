/* component: typed members of the parts of a tokenizer.json, with messages that name them. */
#pragma once
#include "util/json.h"

enum {
    COMPONENT_DEPTH = 8,  /* of Sequences within Sequences */
    COMPONENT_STEPS = 16, /* of a normalizer or decoder */
    COMPONENT_GROWTH = 64 /* times longer that one may make a text */
};

/* One more step of a normalizer or decoder, which puts up to n_to bytes for n_from: *growth (0 at
 * first) is how many times longer all of them may make a text, n how many were there before. A
 * few hundred bytes of doubling steps would else eat all memory. ERR_USAGE. */
MUST_USE enum status component_step(int64_t n, double *growth, const char *where, size_t n_from,
                                    size_t n_to, struct err *e);

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
