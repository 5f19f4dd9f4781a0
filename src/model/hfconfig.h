/* hfconfig: typed reading of a Hugging Face config.json. A null counts as absent, as there; an
 * integer may be written 10000.0. ERR_FORMAT names file, key, what stands there and what was
 * expected. */
#pragma once
#include "util/err.h"
#include "util/json.h"
#include <stdbool.h>
#include <stdint.h>

struct hfconfig {
    const json_t *json;
    const char *name;   /* the file, for messages */
    const char *prefix; /* path of this object in it, "" or "rope_scaling." */
};

#define HF_REQUIRED        INT64_MIN
#define HF_REQUIRED_NUMBER NAN

/* The key's value, NULL when absent or null. */
const json_t *hf_value(const struct hfconfig *c, const char *key);
/* True when the key stands there, null included. */
bool hf_has(const struct hfconfig *c, const char *key);
/* *out = an integer >= min; `otherwise` when absent (HF_REQUIRED: absent is an error). */
MUST_USE enum status hf_int(const struct hfconfig *c, const char *key, int64_t otherwise,
                            int64_t min, int64_t *out, struct err *e);
/* *out = a finite number; NAN as `otherwise`: absent is an error. */
MUST_USE enum status hf_number(const struct hfconfig *c, const char *key, double otherwise,
                               double *out, struct err *e);
MUST_USE enum status hf_bool(const struct hfconfig *c, const char *key, bool otherwise, bool *out,
                             struct err *e);
/* *out is borrowed from the config; NULL as `otherwise`: absent is an error. */
MUST_USE enum status hf_text(const struct hfconfig *c, const char *key, const char *otherwise,
                             const char **out, struct err *e);
/* *out = an array of n entries, NULL when absent. */
MUST_USE enum status hf_array(const struct hfconfig *c, const char *key, int64_t n,
                              const json_t **out, struct err *e);
/* *found and *out: the object under key, as a config of its own. prefix must outlive it. */
MUST_USE enum status hf_object(const struct hfconfig *c, const char *key, const char *prefix,
                               bool *found, struct hfconfig *out, struct err *e);
