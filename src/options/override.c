#include "options/override.h"
#include "options/yaml.h"
#include "util/mem.h"

/* The value of the key (n bytes) in a mapping; a new one that is NODE_NULL if there is none. */
static enum status enter_key(struct node *at, const char *key, size_t n,
                             const struct node_place *place, struct node **out, struct err *e)
{
    AUTO_FREE char *name = NULL;
    char shown[NODE_SHOWN];
    struct node *child = NULL;
    PASS(mem_format(&name, e, "%.*s", (int)n, key));
    text_show(name, shown, sizeof shown);
    if (at->kind == NODE_NULL) at->kind = NODE_MAP; /* "run:" without a value */
    NEED(at->kind == NODE_MAP, ERR_USAGE, "no mapping to look up %s in", shown);
    *out = node_find(at, name);
    if (*out) return OK;
    PASS(node_new_scalar("", false, place, &child, e));
    child->key = name;
    child->key_place = *place;
    name = NULL;
    *out = child;
    return node_append(at, child, e);
}

/* Reads "[2]..." at *p and advances *p. */
static enum status enter_index(struct node *at, const char **p, struct node **out, struct err *e)
{
    char *end, shown[NODE_SHOWN];
    text_show(*p, shown, sizeof shown);
    size_t digits = strspn(*p + 1, "0123456789");
    NEED(digits > 0 && digits < 10 && (*p)[1 + digits] == ']', ERR_USAGE, "expected [number] at %s",
         shown);
    long index = strtol(*p + 1, &end, 10);
    NEED(at->kind == NODE_LIST, ERR_USAGE, "no list to take [%ld] of", index);
    NEED(index < at->n, ERR_USAGE, "[%ld] is beyond the list's %lld entries (the first is [0])",
         index, (long long)at->n);
    *out = at->items[index];
    *p = end + 1;
    return OK;
}

/* The node that a key such as a.b[0].c names. */
static enum status enter(struct node *root, const char *key, size_t n,
                         const struct node_place *place, struct node **out, struct err *e)
{
    struct node *at = root;
    char shown[NODE_SHOWN];
    const char *p = key, *end = key + n;
    for (int depth = 0; p < end; depth++) {
        NEED(depth < NODE_DEPTH, ERR_USAGE, "more than %d levels", NODE_DEPTH);
        text_show(p, shown, sizeof shown);
        if (*p == '[' && p > key) {
            PASS(enter_index(at, &p, &at, e));
        } else {
            size_t length = strcspn(p, ".[=");
            NEED(length > 0, ERR_USAGE, "expected a key at %s", shown);
            PASS(enter_key(at, p, length, place, &at, e));
            p += length;
        }
        if (*p == '.') {
            p++;
            NEED(p < end, ERR_USAGE, "expected a key after the last dot");
        } else {
            text_show(p, shown, sizeof shown);
            NEED(p == end || *p == '[', ERR_USAGE, "expected . or [ or = at %s", shown);
        }
    }
    *out = at;
    return OK;
}

enum status override_apply(struct node *root, const char *text, struct err *e)
{
    CLEANUP(node_free_at) struct node *value = NULL;
    struct node *at = NULL;
    struct node_place place = {.override = text};
    char shown[NODE_SHOWN];
    const char *equals = strchr(text, '=');
    text_show(text, shown, sizeof shown);
    NEED(equals && equals > text, ERR_USAGE, "--set %s: expected key=value", shown);
    struct err why = {0};
    enum status st = enter(root, text, (size_t)(equals - text), &place, &at, &why);
    NEED(st == OK, st, "--set %s: %s", shown, why.text);
    PASS(yaml_read_text(equals + 1, strlen(equals + 1), &place, &value, e));
    struct node old = *at; /* the content of `value` moves to `at`, which keeps its key */
    *at = *value;
    at->key = old.key;
    at->key_place = value->place;
    old.key = NULL;
    *value = old;
    return OK;
}
