#include "tokenizer/component.h"

enum status component_type(const json_t *o, const char *where, const char **type, struct err *e)
{
    enum status st = OK;
    ENSURE(json_is_object(o), ERR_FORMAT, "%s: expected an object", where);
    *type = json_text(o, "type", NULL);
    ENSURE(*type, ERR_FORMAT, "%s: has no \"type\"", where);
done:
    return st;
}

enum status component_bool(const json_t *o, const char *where, const char *key, bool otherwise,
                           bool *value, struct err *e)
{
    enum status st = OK;
    const json_t *v = json_object_get(o, key);
    *value = otherwise;
    if (!v || json_is_null(v)) return OK;
    ENSURE(json_is_boolean(v), ERR_FORMAT, "%s: \"%s\" must be true or false", where, key);
    *value = json_is_true(v);
done:
    return st;
}

enum status component_text(const json_t *o, const char *where, const char *key, const char **text,
                           size_t *n, struct err *e)
{
    enum status st = OK;
    const json_t *v = json_object_get(o, key);
    ENSURE(json_is_string(v), ERR_FORMAT, "%s: \"%s\" must be a string", where, key);
    *text = json_string_value(v);
    *n = json_string_length(v);
done:
    return st;
}

enum status component_int(const json_t *o, const char *where, const char *key, int64_t max,
                          int64_t *value, struct err *e)
{
    enum status st = OK;
    const json_t *v = json_object_get(o, key);
    ENSURE(json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= max,
           ERR_FORMAT, "%s: \"%s\" must be an integer in 0..%lld", where, key, (long long)max);
    *value = json_integer_value(v);
done:
    return st;
}

enum status component_array(const json_t *o, const char *where, const char *key,
                            const json_t **array, struct err *e)
{
    enum status st = OK;
    *array = json_object_get(o, key);
    ENSURE(json_is_array(*array), ERR_FORMAT, "%s: \"%s\" must be an array", where, key);
done:
    return st;
}

enum status component_pattern(const json_t *o, const char *where, const char **text, size_t *n,
                              bool *regex, struct err *e)
{
    enum status st = OK;
    const json_t *p = json_object_get(o, "pattern");
    const json_t *plain = json_object_get(p, "String"), *re = json_object_get(p, "Regex");
    const json_t *v = plain ? plain : re;
    ENSURE(json_is_string(v), ERR_FORMAT,
           "%s: \"pattern\" must be {\"String\": text} or {\"Regex\": text}", where);
    *text = json_string_value(v);
    *n = json_string_length(v);
    *regex = !plain;
done:
    return st;
}

enum status component_step(int64_t n, double *growth, const char *where, size_t n_from, size_t n_to,
                           struct err *e)
{
    enum status st = OK;
    double times = (double)n_to / (double)n_from;
    ENSURE(n < COMPONENT_STEPS, ERR_USAGE, "%s: more than %d steps", where, COMPONENT_STEPS);
    *growth = (*growth > 0 ? *growth : 1) * (times > 1 ? times : 1);
    ENSURE(*growth <= COMPONENT_GROWTH, ERR_USAGE,
           "%s: its steps may make a text %.3g times as long; at most %d times is supported", where,
           *growth, COMPONENT_GROWTH);
done:
    return st;
}
