#include "model/hfconfig.h"
#include <math.h>

const json_t *hf_value(const struct hfconfig *c, const char *key)
{
    const json_t *v = json_object_get(c->json, key);
    return json_is_null(v) ? NULL : v;
}

bool hf_has(const struct hfconfig *c, const char *key)
{
    return json_object_get(c->json, key) != NULL;
}

static const char *kind(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",    [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null"};
    return v ? names[json_typeof(v)] : "missing";
}

static enum status wrong(const struct hfconfig *c, const char *key, const char *expected,
                         struct err *e)
{
    RAISE(ERR_FORMAT, "%s: \"%s%s\" is %s; expected %s", c->name, c->prefix, key,
          kind(hf_value(c, key)), expected);
}

enum status hf_int(const struct hfconfig *c, const char *key, int64_t otherwise, int64_t min,
                   int64_t *out, struct err *e)
{
    const json_t *v = hf_value(c, key);
    if (!v && otherwise != HF_REQUIRED) {
        *out = otherwise;
        return OK;
    }
    double value = json_number_value(v);
    if (!json_is_number(v) || value != floor(value)) return wrong(c, key, "an integer", e);
    NEED(value >= (double)min && value <= 1e15, ERR_FORMAT,
         "%s: \"%s%s\" is %.15g; expected an integer of at least %lld", c->name, c->prefix, key,
         value, (long long)min);
    *out = (int64_t)value;
    return OK;
}

enum status hf_number(const struct hfconfig *c, const char *key, double otherwise, double *out,
                      struct err *e)
{
    const json_t *v = hf_value(c, key);
    if (!v && !isnan(otherwise)) {
        *out = otherwise;
        return OK;
    }
    if (!json_is_number(v)) return wrong(c, key, "a number", e);
    *out = json_number_value(v);
    return OK;
}

enum status hf_bool(const struct hfconfig *c, const char *key, bool otherwise, bool *out,
                    struct err *e)
{
    const json_t *v = hf_value(c, key);
    if (v && !json_is_boolean(v)) return wrong(c, key, "true or false", e);
    *out = v ? json_is_true(v) : otherwise;
    return OK;
}

enum status hf_text(const struct hfconfig *c, const char *key, const char *otherwise,
                    const char **out, struct err *e)
{
    const json_t *v = hf_value(c, key);
    if (!json_is_string(v) && (v || !otherwise)) return wrong(c, key, "a string", e);
    *out = v ? json_string_value(v) : otherwise;
    return OK;
}

enum status hf_array(const struct hfconfig *c, const char *key, int64_t n, const json_t **out,
                     struct err *e)
{
    const json_t *v = hf_value(c, key);
    *out = v;
    if (!v) return OK;
    if (!json_is_array(v)) return wrong(c, key, "a list", e);
    NEED((int64_t)json_array_size(v) >= n, ERR_FORMAT,
         "%s: \"%s%s\" has %zu entries; expected one for each of %lld layers", c->name, c->prefix,
         key, json_array_size(v), (long long)n);
    return OK;
}

enum status hf_object(const struct hfconfig *c, const char *key, const char *prefix, bool *found,
                      struct hfconfig *out, struct err *e)
{
    const json_t *v = hf_value(c, key);
    if (v && !json_is_object(v)) return wrong(c, key, "an object", e);
    *found = v != NULL;
    if (v) *out = (struct hfconfig){.json = v, .name = c->name, .prefix = prefix};
    return OK;
}
