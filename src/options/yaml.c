#include "options/yaml.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <yaml.h>

struct reader {
    yaml_parser_t parser;
    struct node_place place; /* file or override */
    const char *text;
    size_t size;
    int64_t events;
};

static struct node_place place_at(const struct reader *r, size_t line, size_t column)
{
    struct node_place place = r->place;
    place.line = (int64_t)line + 1;
    place.column = (int64_t)column + 1;
    return place;
}

static struct node_place place_of(const struct reader *r, yaml_mark_t mark)
{
    return place_at(r, mark.line, mark.column);
}

static enum status fail_at(const struct reader *r, yaml_mark_t mark, const char *what,
                           struct err *e)
{
    struct node_place place = place_of(r, mark);
    char text[NODE_PLACE];
    node_place_text(&place, text);
    RAISE(ERR_USAGE, "%s%s", text, what);
}

/* Whether the given line (from 0) is indented with a tab. */
static bool indented_by_tab(const struct reader *r, size_t line)
{
    const char *p = r->text, *end = r->text + r->size;
    while (line && p < end)
        if (*p++ == '\n') line--;
    while (p < end && *p == ' ') p++;
    return p < end && *p == '\t';
}

/* The parser's message, with the location. */
static enum status parser_failure(const struct reader *r, struct err *e)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) RAISE(ERR_NOMEM, "out of memory in the YAML parser");
    struct node_place place = place_of(r, p->problem_mark);
    if (p->error == YAML_READER_ERROR) { /* a byte, not a mark */
        size_t line = 0, start = 0, end = p->problem_offset < r->size ? p->problem_offset : r->size;
        for (size_t i = 0; i < end; i++)
            if (r->text[i] == '\n') {
                line++;
                start = i + 1;
            }
        place = place_at(r, line, end - start);
    }
    char text[NODE_PLACE];
    node_place_text(&place, text);
    const char *hint = "";
    if (p->error == YAML_SCANNER_ERROR && p->problem && !strstr(p->problem, "tab") &&
        indented_by_tab(r, p->problem_mark.line))
        hint = " (YAML is indented with blanks, this line has a tab)";
    RAISE(ERR_USAGE, "%snot readable as YAML: %s%s%s%s", text,
          p->problem ? p->problem : "unknown problem", p->context ? " " : "",
          p->context ? p->context : "", hint);
}

/* What an event carries that is refused everywhere; NULL if nothing. */
static const char *refused(const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT)
        return "an alias (*name): aliases are not taken, write the value out";
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (memchr(event->data.scalar.value, '\0', event->data.scalar.length))
            return "text with a NUL character";
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor) return "an anchor (&name): anchors are not taken, write the value out";
    if (tag) return "a tag (!name): tags are not taken, the key alone gives the type";
    return NULL;
}

/* The next event; the caller deletes it, also after a failure. */
static enum status next_event(struct reader *r, yaml_event_t *event, struct err *e)
{
    memset(event, 0, sizeof *event);
    if (!yaml_parser_parse(&r->parser, event)) return parser_failure(r, e);
    if (++r->events > YAML_EVENTS)
        return fail_at(r, event->start_mark, "more than 1000000 YAML events, not a sweep file", e);
    const char *what = refused(event);
    return what ? fail_at(r, event->start_mark, what, e) : OK;
}

static enum status read_value(struct reader *r, const yaml_event_t *event, int depth,
                              struct node **out, struct err *e);

static enum status read_list(struct reader *r, int depth, struct node *n, struct err *e)
{
    CLEANUP(yaml_event_delete) yaml_event_t event = {0};
    struct node *child = NULL;
    for (;;) {
        PASS(next_event(r, &event, e));
        if (event.type == YAML_SEQUENCE_END_EVENT) break;
        PASS(read_value(r, &event, depth + 1, &child, e));
        PASS(node_append(n, child, e));
        yaml_event_delete(&event);
    }
    return OK;
}

static enum status read_map(struct reader *r, int depth, struct node *n, struct err *e)
{
    CLEANUP(yaml_event_delete) yaml_event_t key = {0}, value = {0};
    CLEANUP(node_free_at) struct node *child = NULL;
    for (;;) {
        PASS(next_event(r, &key, e));
        if (key.type == YAML_MAPPING_END_EVENT) break;
        if (key.type != YAML_SCALAR_EVENT)
            PASS(fail_at(r, key.start_mark, "a key that is no text", e));
        PASS(next_event(r, &value, e));
        PASS(read_value(r, &value, depth + 1, &child, e));
        child->key_place = place_of(r, key.start_mark);
        PASS(mem_string(&child->key, (const char *)key.data.scalar.value, e));
        struct node *owned = child;
        child = NULL;
        PASS(node_append(n, owned, e));
        yaml_event_delete(&key);
        yaml_event_delete(&value);
    }
    return OK;
}

static enum status read_value(struct reader *r, const yaml_event_t *event, int depth,
                              struct node **out, struct err *e)
{
    CLEANUP(node_free_at) struct node *n = NULL;
    struct node_place place = place_of(r, event->start_mark);
    if (event->type == YAML_SCALAR_EVENT) {
        bool quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        PASS(node_new_scalar((const char *)event->data.scalar.value, quoted, &place, &n, e));
    } else {
        bool list = event->type == YAML_SEQUENCE_START_EVENT;
        if (depth > NODE_DEPTH)
            PASS(fail_at(r, event->start_mark, "nested deeper than 64 levels", e));
        PASS(node_new(list ? NODE_LIST : NODE_MAP, &place, &n, e));
        PASS(list ? read_list(r, depth, n, e) : read_map(r, depth, n, e));
    }
    *out = TAKE(n);
    return OK;
}

/* stream start, document start, value, document end, stream end */
static enum status read_stream(struct reader *r, struct node **out, struct err *e)
{
    CLEANUP(yaml_event_delete) yaml_event_t event = {0};
    CLEANUP(node_free_at) struct node *n = NULL;
    PASS(next_event(r, &event, e));
    yaml_event_delete(&event);
    PASS(next_event(r, &event, e));
    if (event.type == YAML_STREAM_END_EVENT) {
        struct node_place place = place_of(r, event.start_mark);
        PASS(node_new(NODE_NULL, &place, &n, e));
    } else {
        yaml_event_delete(&event);
        PASS(next_event(r, &event, e));
        PASS(read_value(r, &event, 1, &n, e));
        yaml_event_delete(&event);
        PASS(next_event(r, &event, e)); /* document end */
        yaml_event_delete(&event);
        PASS(next_event(r, &event, e));
        if (event.type != YAML_STREAM_END_EVENT)
            PASS(fail_at(r, event.start_mark, "a second YAML document: one is expected", e));
    }
    *out = TAKE(n);
    return OK;
}

enum status yaml_read_text(const char *text, size_t n, const struct node_place *place,
                           struct node **out, struct err *e)
{
    struct reader r = {.place = *place, .text = text, .size = n};
    NEED(yaml_parser_initialize(&r.parser), ERR_NOMEM, "out of memory in the YAML parser");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    enum status st = read_stream(&r, out, e);
    yaml_parser_delete(&r.parser);
    return st;
}

/* A cube, or a journal's first line. */
static bool is_results(const char *text, size_t n)
{
    static const char journal[] = "\"type\":\"journal\"";
    return strncmp(text, "\x89HDF", 4) == 0 ||
           memmem(text, n < 64 ? n : 64, journal, strlen(journal));
}

enum status yaml_read_file(const char *path, struct node **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n = 0;
    struct node_place place = {.file = path};
    CLEANUP(node_free_at) struct node *root = NULL;
    struct err why = {0};
    enum status st = fsx_read(path, YAML_BYTES, &text, &n, &why);
    /* A file that is too large is bad input, not an I/O error. */
    NEED(st == OK, st == ERR_FORMAT ? ERR_USAGE : st, "%s", why.text);
    NEED(!is_results(text, n), ERR_USAGE,
         "%s: results, which qtraj show and qtraj status take; expected the .yaml file", path);
    PASS(yaml_read_text(text, n, &place, &root, e));
    NEED(root->kind != NODE_NULL, ERR_USAGE, "%s:1:1: empty: this file has no keys", path);
    *out = TAKE(root);
    return OK;
}

/* --- --set --- */

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
