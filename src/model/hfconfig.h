/* hfconfig: typed reading of a Hugging Face config.json. As in transformers, null counts as absent
 * and an integer may be written 10000.0. All functions fail with ERR_FORMAT only; the text names
 * file, key, what was found and what was expected. Strings and objects are borrowed from the
 * config. */
#pragma once
#include "util/err.h"
#include "util/json.h"

struct hfconfig {
    const json_t *json;
    const char *name;   /* the file, for messages */
    const char *prefix; /* path of this object in the file: "" or "rope_scaling.", for messages */
};

/* As `otherwise`: the key must be there. */
#define HF_REQUIRED        INT64_MIN
#define HF_REQUIRED_NUMBER NAN

/* The key's value, NULL when absent or null. */
const json_t *hf_value(const struct hfconfig *c, const char *key);
/* Whether the key is there, even if null. */
bool hf_has(const struct hfconfig *c, const char *key);
/* *out = an integer of at least min; `otherwise` (or HF_REQUIRED) when absent. */
MUST_USE enum status hf_int(const struct hfconfig *c, const char *key, int64_t otherwise,
                            int64_t min, int64_t *out, struct err *e);
/* *out = a number; `otherwise` (or HF_REQUIRED_NUMBER) when absent. */
MUST_USE enum status hf_number(const struct hfconfig *c, const char *key, double otherwise,
                               double *out, struct err *e);
/* *out = true or false; `otherwise` when absent. */
MUST_USE enum status hf_bool(const struct hfconfig *c, const char *key, bool otherwise, bool *out,
                             struct err *e);
/* *out = a string; `otherwise` when absent (NULL: the key must be there). */
MUST_USE enum status hf_text(const struct hfconfig *c, const char *key, const char *otherwise,
                             const char **out, struct err *e);
/* *out = an array of at least n entries, one per layer; NULL when absent. */
MUST_USE enum status hf_array(const struct hfconfig *c, const char *key, int64_t n,
                              const json_t **out, struct err *e);
/* *found = whether there is an object under the key; then *out reads it. prefix must outlive *out.
 */
MUST_USE enum status hf_object(const struct hfconfig *c, const char *key, const char *prefix,
                               bool *found, struct hfconfig *out, struct err *e);
