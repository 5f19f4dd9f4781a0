/* The JSON form of a struct that a table describes. */
#include "options/options.h"
#include <string.h>

/* Appends a value, which is taken over; without memory *array becomes NULL. */
static void append(json_t **array, json_t *value)
{
    if (!*array || json_array_append_new(*array, value) == 0) return;
    json_drop(array);
}

static json_t *ints_to_json(const int64_t *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; array && i < n; i++) append(&array, json_integer(values[i]));
    return array;
}

/* A string, or an array of the lines of a text that has several. */
static json_t *lines_to_json(const char *text)
{
    if (!strchr(text, '\n')) return json_string(text);
    json_t *array = json_array();
    for (const char *p = text; array && *p;) {
        size_t n = strcspn(p, "\n");
        append(&array, json_stringn(p, n));
        p += n + (p[n] == '\n');
    }
    return array;
}

static json_t *entries_to_json(const struct option_table *t, const char *entries, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; array && i < n; i++)
        append(&array, options_to_json(t, entries + (size_t)i * t->size));
    return array;
}

/* A text, a group or a list of numbers that is not given has no key. */
static bool is_absent(const struct option *o, const char *entry)
{
    if (option_is_text(o)) return *(char *const *)(const void *)(entry + o->offset) == NULL;
    if (o->type == OPTION_GROUP && o->table->absent) return o->table->absent(entry + o->offset);
    if (o->type == OPTION_INTS || o->type == OPTION_REALS)
        return *(const int64_t *)(const void *)(entry + o->count) == 0;
    return false;
}

static json_t *value_to_json(const struct option *o, const char *entry)
{
    const void *at = entry + o->offset, *count = entry + o->count;
    const char *entries;
    char text[32];
    switch (o->type) {
    case OPTION_BOOL:
        return json_boolean(*(const bool *)at);
    case OPTION_INT:
        return option_int_text(o, *(const int64_t *)at, text) ? json_string(text)
                                                              : json_integer(*(const int64_t *)at);
    case OPTION_REAL:
        return json_number_new(*(const double *)at);
    case OPTION_CHOICE:
        return json_string(o->choices[*(const int *)at]);
    case OPTION_TEXT:
    case OPTION_PATH:
        return json_string(*(char *const *)at);
    case OPTION_TEXTS:
    case OPTION_PATHS:
        return lines_to_json(*(char *const *)at);
    case OPTION_INTS:
        return ints_to_json(at, *(const int64_t *)count);
    case OPTION_REALS:
        return json_numbers_new(at, *(const int64_t *)count);
    case OPTION_GROUP:
    case OPTION_KEYS:
        return options_to_json(o->table, at);
    case OPTION_BOXED:
        return *(void *const *)at ? options_to_json(o->table, *(void *const *)at) : json_object();
    case OPTION_LIST:
        memcpy(&entries, at, sizeof entries);
        return entries_to_json(o->table, entries, *(const int64_t *)count);
    }
    return NULL;
}

json_t *options_to_json(const struct option_table *t, const void *entry)
{
    json_t *object = json_object();
    for (int64_t i = 0; object && i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (is_absent(o, entry)) continue;
        json_t *value = value_to_json(o, entry);
        int failed = option_is_keys(o) ? json_object_update(object, value)
                                       : json_object_set(object, o->name, value);
        json_decref(value);
        if (failed) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

enum status options_from_json(const struct option_table *t, const json_t *json, void *out,
                              struct err *e)
{
    CLEANUP(node_free_at) struct node *node = NULL;
    struct option_source source = {.code = ERR_FORMAT, .whole = true};
    memset(out, 0, t->size);
    PASS(node_from_json(json, &node, e));
    return options_read(t, node, &source, out, e);
}
