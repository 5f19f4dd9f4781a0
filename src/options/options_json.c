/* The JSON form of a struct that a table describes. */
#include "options/options.h"
#include "util/mem.h"

static json_t *to_json(const struct option_table *t, const void *entry, bool key);

static json_t *ints_to_json(const int64_t *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(array, json_integer(values[i]));
    return array;
}

/* A string, or an array of the lines of a text that has several. */
static json_t *lines_to_json(const char *text)
{
    if (!strchr(text, '\n')) return json_string(text);
    json_t *array = json_array();
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        json_array_append_new(array, json_stringn(text, n));
    }
    return array;
}

static json_t *entries_to_json(const struct option_table *t, const char *entries, int64_t n,
                               bool key)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(array, to_json(t, entries + (size_t)i * t->size, key));
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

static json_t *value_to_json(const struct option *o, const char *entry, bool key)
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
        return to_json(o->table, at, key);
    case OPTION_BOXED:
        return *(void *const *)at ? to_json(o->table, *(void *const *)at, key) : json_object();
    case OPTION_LIST:
        memcpy(&entries, at, sizeof entries);
        return entries_to_json(o->table, entries, *(const int64_t *)count, key);
    }
    return NULL;
}

/* Whether the value is the default of a key that results are older than. */
static bool is_later(const struct option_table *t, const struct option *o, const json_t *value)
{
    AUTO_FREE char *plain = o->later ? calloc(1, t->size) : NULL;
    if (!plain) return false;
    options_default(t, plain);
    json_auto_t *otherwise = is_absent(o, plain) ? NULL : value_to_json(o, plain, false);
    return json_equal(value, otherwise);
}

static json_t *to_json(const struct option_table *t, const void *entry, bool key)
{
    json_t *object = json_object();
    for (const struct option *o = t->options; o < t->options + t->n; o++) {
        json_auto_t *value = is_absent(o, entry) ? NULL : value_to_json(o, entry, key);
        if (!value || (key && is_later(t, o, value))) continue;
        if (option_is_keys(o))
            json_object_update(object, value);
        else
            json_object_set(object, o->name, value);
    }
    return object;
}

json_t *options_to_json(const struct option_table *t, const void *entry)
{
    return to_json(t, entry, false);
}

json_t *options_to_key(const struct option_table *t, const void *entry)
{
    return to_json(t, entry, true);
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
