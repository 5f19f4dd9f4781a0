#include "options/node.h"
#include "util/mem.h"
#include <stdio.h>

enum status node_new(enum node_kind kind, const struct node_place *place, struct node **out,
                     struct err *e)
{
    PASS(mem_zero(out, 1, sizeof **out, "a config value", e));
    (*out)->kind = kind;
    if (place) (*out)->place = *place;
    return OK;
}

enum status node_new_scalar(const char *text, bool quoted, const struct node_place *place,
                            struct node **out, struct err *e)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    CLEANUP(node_free_at) struct node *n = NULL;
    bool null = false;
    for (size_t i = 0; !quoted && i < sizeof nulls / sizeof *nulls; i++)
        null = null || strcmp(text, nulls[i]) == 0;
    PASS(node_new(null ? NODE_NULL : NODE_SCALAR, place, &n, e));
    n->quoted = quoted;
    PASS(mem_string(&n->text, text, e));
    *out = TAKE(n);
    return OK;
}

enum status node_copy(const struct node *n, struct node **out, struct err *e)
{
    CLEANUP(node_free_at) struct node *copy = NULL;
    struct node *child;
    PASS(node_new(n->kind, &n->place, &copy, e));
    copy->quoted = n->quoted;
    copy->key_place = n->key_place;
    if (n->key) PASS(mem_string(&copy->key, n->key, e));
    if (n->text) PASS(mem_string(&copy->text, n->text, e));
    for (int64_t i = 0; i < n->n; i++) {
        PASS(node_copy(n->items[i], &child, e));
        PASS(node_append(copy, child, e));
    }
    *out = TAKE(copy);
    return OK;
}

void node_free(struct node *n)
{
    if (!n) return;
    for (int64_t i = 0; i < n->n; i++) node_free(n->items[i]);
    free(n->items);
    free(n->key);
    free(n->text);
    free(n);
}

enum status node_append(struct node *n, struct node *child, struct err *e)
{
    enum status st = mem_grow(&n->items, n->n, &n->capacity, sizeof(struct node *), e);
    if (st == OK)
        n->items[n->n++] = child;
    else
        node_free(child);
    return st;
}

struct node *node_find(const struct node *n, const char *key)
{
    if (!n || n->kind != NODE_MAP) return NULL;
    for (int64_t i = 0; i < n->n; i++)
        if (strcmp(n->items[i]->key, key) == 0) return n->items[i];
    return NULL;
}

enum status node_check_kind(const struct node *root, const char *const *own,
                            const char *const *others, const char *message, struct err *e)
{
    for (int64_t i = 0; own[i]; i++)
        if (node_find(root, own[i])) return OK;
    for (int64_t i = 0; others[i]; i++)
        NEED(!node_find(root, others[i]), ERR_USAGE, "%s: it has the key %s: %s", root->place.file,
             others[i], message);
    return OK;
}

void node_place_text(const struct node_place *place, char text[NODE_PLACE])
{
    enum { FILE_MAX = 240 };
    text[0] = '\0';
    if (place->override) {
        char shown[NODE_SHOWN];
        text_show(place->override, shown, sizeof shown);
        snprintf(text, NODE_PLACE, "--set %s: ", shown);
    } else if (place->file) {
        /* The end of a long path says more than its beginning. */
        size_t n = strlen(place->file), from = n > FILE_MAX ? n - FILE_MAX : 0;
        snprintf(text, NODE_PLACE, "%s%s:%lld:%lld: ", from ? "..." : "", place->file + from,
                 (long long)place->line, (long long)place->column);
    }
}

/* Length of the UTF-8 sequence at p, 0 if it is broken. */
static size_t utf8_length(const unsigned char *p)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] > 0xF4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return n;
}

void text_show(const char *from, char *text, size_t size)
{
    size_t put = 0;
    const unsigned char *p = (const unsigned char *)from, *end = p + strlen(from);
    while (*p) {
        size_t n = utf8_length(p);
        bool plain = n > 1 || (n == 1 && *p >= 0x20 && *p != 0x7F);
        size_t width = plain ? n : 1;
        bool whole = (size_t)(end - p) < size - put;
        if (!whole && put + width + sizeof "..." > size) {
            memcpy(text + put, "...", sizeof "...");
            return;
        }
        if (plain)
            memcpy(text + put, p, n);
        else
            text[put] = '?';
        put += width;
        p += width;
    }
    text[put] = '\0';
}

void node_show(const struct node *n, char text[NODE_SHOWN])
{
    if (n->kind == NODE_NULL)
        snprintf(text, NODE_SHOWN, "nothing");
    else if (n->kind == NODE_LIST)
        snprintf(text, NODE_SHOWN, "a list of %lld", (long long)n->n);
    else if (n->kind == NODE_MAP)
        snprintf(text, NODE_SHOWN, "a mapping");
    else if (n->quoted) {
        char shown[NODE_SHOWN - 16];
        text_show(n->text, shown, sizeof shown);
        snprintf(text, NODE_SHOWN, "the text \"%s\"", shown);
    } else
        text_show(n->text, text, NODE_SHOWN);
}

static enum status json_scalar(const json_t *json, struct node **out, struct err *e)
{
    char number[64] = "";
    switch (json_typeof(json)) {
    case JSON_STRING: {
        const char *text = json_string_value(json);
        if (strlen(text) != json_string_length(json))
            RAISE(ERR_FORMAT, "text with a NUL character");
        return node_new_scalar(text, true, NULL, out, e);
    }
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(json));
        break;
    case JSON_REAL:
        snprintf(number, sizeof number, "%.17g", json_real_value(json));
        /* Keeps a real from passing for an integer. */
        if (!strpbrk(number, ".en")) strcat(number, ".0");
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(number, sizeof number, "%s", json_is_true(json) ? "true" : "false");
        break;
    default: /* null */
        break;
    }
    return node_new_scalar(number, false, NULL, out, e);
}

static enum status from_json(const json_t *json, int depth, struct node **out, struct err *e)
{
    CLEANUP(node_free_at) struct node *n = NULL;
    struct node *child = NULL;
    NEED(json, ERR_FORMAT, "no value");
    NEED(depth <= NODE_DEPTH, ERR_FORMAT, "nested deeper than %d", NODE_DEPTH);
    if (json_is_object(json)) {
        PASS(node_new(NODE_MAP, NULL, &n, e));
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)json, key, value) {
            PASS(from_json(value, depth + 1, &child, e));
            enum status st = mem_string(&child->key, key, e);
            if (st != OK) node_free(child);
            PASS(st);
            PASS(node_append(n, child, e));
        }
    } else if (json_is_array(json)) {
        PASS(node_new(NODE_LIST, NULL, &n, e));
        for (size_t i = 0; i < json_array_size(json); i++) {
            PASS(from_json(json_array_get(json, i), depth + 1, &child, e));
            PASS(node_append(n, child, e));
        }
    } else {
        PASS(json_scalar(json, &n, e));
    }
    *out = TAKE(n);
    return OK;
}

enum status node_from_json(const json_t *json, struct node **out, struct err *e)
{
    return from_json(json, 1, out, e);
}
