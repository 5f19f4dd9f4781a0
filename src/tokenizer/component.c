#include "tokenizer/component.h"
#include "tokenizer/buf.h"
#include "tokenizer/utf8.h"
#include "util/mem.h"
#include <stdio.h>

/* Sequences in Sequences; steps of a normalizer or decoder; times longer that they make a text. */
enum { DEPTH_MAX = 8, STEPS_MAX = 16, GROWTH_MAX = 64 };

static enum status read_any(const struct component *c, const json_t *o, int depth, void *out,
                            struct err *e)
{
    char where[64], known[160];
    const json_t *list;
    int n = 0;
    NEED(json_is_object(o), ERR_FORMAT, "%s: expected an object", c->where);
    const char *type = json_text(o, "type", NULL);
    NEED(type, ERR_FORMAT, "%s: has no \"type\"", c->where);
    if (c->check) PASS(c->check(out, type, e));
    for (int i = 0; c->types[i]; i++)
        if (strcmp(type, c->types[i]) == 0) return c->read(out, i, o, e);
    for (int i = 0; c->types[i]; i++)
        n += snprintf(known + n, sizeof known - (size_t)n, "%s, ", c->types[i]);
    NEED(strcmp(type, "Sequence") == 0, ERR_USAGE, "%s %s is not supported (%sSequence are)",
         c->where, type, known);
    NEED(depth < DEPTH_MAX, ERR_FORMAT, "%s: Sequences nested too deep", c->where);
    snprintf(where, sizeof where, "%s Sequence", c->where);
    PASS(component_array(o, where, c->list, &list, e));
    for (size_t i = 0; i < json_array_size(list); i++)
        PASS(read_any(c, json_array_get(list, i), depth + 1, out, e));
    return OK;
}

enum status component_read(const struct component *c, const json_t *value, void *out, struct err *e)
{
    return !value || json_is_null(value) ? OK : read_any(c, value, 0, out, e);
}

enum status component_bool(const json_t *o, const char *where, const char *key, bool otherwise,
                           bool *value, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    *value = otherwise;
    if (!v || json_is_null(v)) return OK;
    NEED(json_is_boolean(v), ERR_FORMAT, "%s: \"%s\" must be true or false", where, key);
    *value = json_is_true(v);
    return OK;
}

enum status component_text(const json_t *o, const char *where, const char *key, const char **text,
                           size_t *n, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    *text = json_string_value(v);
    *n = json_string_length(v);
    NEED(*text, ERR_FORMAT, "%s: \"%s\" must be a string", where, key);
    return OK;
}

enum status component_character(const json_t *o, const char *where, const char *key,
                                const char **text, size_t *n, struct err *e)
{
    PASS(component_text(o, where, key, text, n, e));
    NEED(*n > 0 && *n == (size_t)utf8_length((*text)[0]), ERR_FORMAT,
         "%s: \"%s\" must be one character", where, key);
    return OK;
}

enum status component_int(const json_t *o, const char *where, const char *key, int64_t max,
                          int64_t *value, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    NEED(json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= max,
         ERR_FORMAT, "%s: \"%s\" must be an integer in 0..%lld", where, key, (long long)max);
    *value = json_integer_value(v);
    return OK;
}

enum status component_array(const json_t *o, const char *where, const char *key,
                            const json_t **array, struct err *e)
{
    *array = json_object_get(o, key);
    NEED(json_is_array(*array), ERR_FORMAT, "%s: \"%s\" must be an array", where, key);
    return OK;
}

enum status component_pattern(const json_t *o, const char *where, const char **text, size_t *n,
                              bool *regex, struct err *e)
{
    const json_t *p = json_object_get(o, "pattern"), *plain = json_object_get(p, "String");
    const json_t *v = plain ? plain : json_object_get(p, "Regex");
    *text = json_string_value(v);
    *n = json_string_length(v);
    *regex = !plain;
    NEED(*text, ERR_FORMAT, "%s: \"pattern\" must be {\"String\": text} or {\"Regex\": text}",
         where);
    return OK;
}

enum status component_replacement(const json_t *o, const char *where, struct replacement *out,
                                  struct err *e)
{
    const char *from, *to;
    bool regex;
    PASS(component_pattern(o, where, &from, &out->n_from, &regex, e));
    NEED(!regex, ERR_USAGE, "%s: a Regex pattern is not supported", where);
    NEED(out->n_from > 0, ERR_FORMAT, "%s: the pattern is empty", where);
    PASS(component_text(o, where, "content", &to, &out->n_to, e));
    PASS(bytes_copy(&out->from, from, out->n_from, where, e));
    return bytes_copy(&out->to, to, out->n_to, where, e);
}

enum status steps_add(struct steps *s, int kind, struct step **out, struct err *e)
{
    PASS(mem_grow(&s->step, s->n, &s->cap, sizeof *s->step, e));
    *out = &s->step[s->n++];
    **out = (struct step){.kind = kind};
    return OK;
}

enum status steps_count(struct steps *s, const char *where, size_t n_from, size_t n_to,
                        struct err *e)
{
    double times = (double)n_to / (double)n_from;
    NEED(s->n <= STEPS_MAX, ERR_USAGE, "%s: more than %d steps", where, STEPS_MAX);
    s->growth = (s->growth > 0 ? s->growth : 1) * (times > 1 ? times : 1);
    NEED(s->growth <= GROWTH_MAX, ERR_USAGE,
         "%s: its steps may make a text %.3g times as long; at most %d times is supported", where,
         s->growth, GROWTH_MAX);
    return OK;
}

void steps_free(struct steps *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        free(s->step[i].text.from);
        free(s->step[i].text.to);
    }
    free(s->step);
}
