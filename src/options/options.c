/* Reading a tree of nodes into structs by a table. */
#include "options/options.h"
#include "options/nearest.h"
#include "options/options_internal.h"
#include "util/mem.h"
#include "util/words.h"
#include <stdarg.h>

enum { OPTIONS_MAX = 128, KNOWN = 320 }; /* keys of one table; a list of their names */

static void *field(void *entry, size_t offset)
{
    return (char *)entry + offset;
}

bool option_is_text(const struct option *o)
{
    return o->type == OPTION_TEXT || o->type == OPTION_PATH || o->type == OPTION_TEXTS ||
           o->type == OPTION_PATHS;
}

struct option_scope options_in(const struct option_scope *scope, const char *key)
{
    const struct node *n = scope->node ? node_find(scope->node, key) : NULL;
    return (struct option_scope){scope, key, 0, n, scope->source};
}

struct option_scope options_entry(const struct option_scope *list, int64_t i)
{
    const struct node *n = list->node && i < list->node->n ? list->node->items[i] : NULL;
    return (struct option_scope){list, NULL, i, n, list->source};
}

/* "models[0].name"; returns the length. */
static size_t full_name(const struct option_scope *s, char *text, size_t size)
{
    size_t n = s->up ? full_name(s->up, text, size) : 0;
    if (n >= size) return n;
    if (!s->name && s->up)
        return n + (size_t)snprintf(text + n, size - n, "[%lld]", (long long)s->index);
    if (!s->name) return n;
    char shown[NODE_SHOWN];
    text_show(s->name, shown, sizeof shown);
    return n + (size_t)snprintf(text + n, size - n, "%s%s", n ? "." : "", shown);
}

static enum status fail(const struct option_scope *s, const struct node_place *place, struct err *e,
                        const char *fmt, va_list ap)
{
    char where[NODE_PLACE] = "", name[OPTION_NAME] = "", what[400];
    if (place) node_place_text(place, where);
    full_name(s, name, sizeof name);
    vsnprintf(what, sizeof what, fmt, ap);
    return err_set(e, s->source->code, __FILE__, __LINE__, "%s%s%s%s", where, name,
                   name[0] ? ": " : "", what);
}

void option_note_path(const struct option_scope *s, const char *path)
{
    char place[NODE_PLACE + OPTION_NAME] = "";
    if (!s->source->paths) return;
    node_place_text(&s->node->place, place);
    const size_t n = strlen(place);
    full_name(s, place + n, sizeof place - n);
    json_object_set_new(s->source->paths, path, json_string(place));
}

enum status options_fail(const struct option_scope *scope, const char *key, struct err *e,
                         const char *fmt, ...)
{
    const struct option_scope at = key ? options_in(scope, key) : *scope;
    const struct node *n = at.node ? at.node : scope->node;
    va_list ap;
    va_start(ap, fmt);
    enum status st = fail(&at, n ? &n->place : NULL, e, fmt, ap);
    va_end(ap);
    return st;
}

static enum status read_table(const struct option_table *t, const struct option_scope *s, void *out,
                              struct err *e);

static enum status read_entries(const struct option *o, const struct option_scope *s, void *entry,
                                struct err *e)
{
    const struct node *n = s->node;
    char *entries = NULL;
    int64_t *count = field(entry, o->count);
    if (n->kind != NODE_LIST || n->n < o->low || n->n > o->high)
        PASS(option_fail_expected(o, s, e));
    PASS(mem_zero(&entries, n->n, o->table->size, "config entries", e));
    memcpy(field(entry, o->offset), &entries, sizeof entries);
    for (int64_t i = 0; i < n->n; i++) {
        struct option_scope inner = options_entry(s, i);
        PASS(read_table(o->table, &inner, entries + (size_t)i * o->table->size, e));
        *count = i + 1;
    }
    return OK;
}

enum status options_read_value(const struct option *o, const struct option_scope *s, void *entry,
                               struct err *e)
{
    if (o->type == OPTION_GROUP || o->type == OPTION_KEYS)
        return read_table(o->table, s, field(entry, o->offset), e);
    return o->type == OPTION_LIST ? read_entries(o, s, entry, e) : option_read(o, s, entry, e);
}

const struct option *options_find(const struct option_table *t, const char *name, size_t *base)
{
    *base = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i], *inner;
        if (o->type == OPTION_BOXED) continue;
        if (o->type != OPTION_KEYS) {
            if (strcmp(o->name, name) == 0) return o;
        } else if ((inner = options_find(o->table, name, base)) != NULL) {
            *base += o->offset;
            return inner;
        }
    }
    return NULL;
}

/* Whether the value is one of the words, which | separates, or, without any, is not that of a key
 * that asks for nothing. */
static bool is_given(const struct option *o, const void *at, const char *words)
{
    if (option_is_text(o)) return *(char *const *)at != NULL;
    if (o->type == OPTION_BOOL) return *(const bool *)at;
    if (o->type == OPTION_REAL) return *(const double *)at != 0;
    if (o->type == OPTION_INT) return *(const int64_t *)at != 0;
    const int choice = *(const int *)at;
    const char *word = o->choices[choice];
    return *words ? words_have(words, "|", word, strlen(word)) : choice != 0;
}

bool option_has_effect(const struct option_table *t, const struct option *o, const void *entry,
                       char name[OPTION_WITH], char word[OPTION_WITH])
{
    for (const char *p = o->with; p && *p; p += *p == ' ') {
        const int n = (int)strcspn(p, " "), key = (int)strcspn(p, " =");
        size_t base;
        snprintf(name, OPTION_WITH, "%.*s", key, p);
        snprintf(word, OPTION_WITH, "%.*s", key < n ? n - key - 1 : 0, p + key + (key < n));
        const struct option *other = options_find(t, name, &base);
        if (!other) return false; /* in a list of the root */
        if (!is_given(other, (const char *)entry + base + other->offset, word)) return false;
        p += n;
    }
    return true;
}

/* Appends the table's keys to the n names there are. */
static int64_t names_of(const struct option_table *t, const char *names[OPTIONS_MAX], int64_t n)
{
    for (int64_t i = 0; i < t->n && n < OPTIONS_MAX; i++) {
        const struct option *o = &t->options[i];
        if (option_is_keys(o))
            n = names_of(o->table, names, n);
        else
            names[n++] = o->name;
    }
    return n;
}

/* "a, b, c", and "..." where there are too many. */
static void list_names(const struct option_table *t, char *text, size_t size)
{
    const char *names[OPTIONS_MAX];
    int64_t count = names_of(t, names, 0);
    size_t n = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        if (n + strlen(names[i]) + (last ? 3 : 8) > size) names[i] = "...", last = true;
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", names[i]);
        if (last) break;
    }
}

static enum status __attribute__((format(printf, 3, 4)))
fail_at_key(const struct option_scope *s, struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum status st = fail(s, &s->node->key_place, e, fmt, ap);
    va_end(ap);
    return st;
}

static enum status fail_unknown(const struct option_table *t, const struct option_scope *s,
                                struct err *e)
{
    const char *names[OPTIONS_MAX];
    char known[KNOWN];
    const char *near = nearest_name(s->name, names, names_of(t, names, 0));
    if (near) return fail_at_key(s, e, "unknown key, did you mean %s?", near);
    list_names(t, known, sizeof known);
    return fail_at_key(s, e, "unknown key; known here: %s", known);
}

/* The first of the n items that gives the key; --set key=null takes back what the file says. */
static const struct node *given(const struct node *map, int64_t n, const char *key)
{
    for (int64_t i = 0; i < n; i++) {
        const struct node *item = map->items[i];
        bool taken_back = item->kind == NODE_NULL && item->place.override;
        if (!taken_back && strcmp(item->key, key) == 0) return item;
    }
    return NULL;
}

/* Makes the structs of OPTION_BOXED that have keys, with their defaults. */
static enum status make_boxes(const struct option_table *t, void *out, struct err *e)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        void **box = field(out, o->offset);
        if (o->type != OPTION_BOXED || o->table->n == 0) continue;
        PASS(mem_zero((char **)box, 1, (int64_t)o->table->size, "config entries", e));
        options_default(o->table, *box);
    }
    return OK;
}

static enum status read_keys(const struct option_table *t, const struct option_scope *s, void *out,
                             struct err *e)
{
    for (int64_t i = 0; i < s->node->n; i++) {
        const struct node *n = s->node->items[i];
        struct option_scope inner = {s, n->key, 0, n, s->source};
        void *holder;
        /* Also inside OPTION_BOXED; holder: the struct that has the value. */
        size_t base;
        const struct option *o = options_find(t, n->key, &base);
        holder = field(out, base);
        for (int64_t k = 0; !o && k < t->n; k++) {
            const struct option *box = &t->options[k];
            if (box->type != OPTION_BOXED || !(o = options_find(box->table, n->key, &base)))
                continue;
            holder = field(*(void **)field(out, box->offset), base);
        }
        if (!o) PASS(fail_unknown(t, &inner, e));
        const struct node *seen = given(s->node, i, n->key);
        if (seen)
            PASS(fail_at_key(&inner, e, "repeated key, first on line %lld",
                             (long long)seen->key_place.line));
        if (n->kind == NODE_NULL && n->place.override) continue;
        PASS(options_read_value(o, &inner, holder, e));
    }
    return OK;
}

/* Whether --set has given or removed `name` beside a key of the file. */
static bool is_overridden(const struct option_scope *s, const struct node *key, const char *name)
{
    const struct node *other = node_find(s->node, name);
    return !key->place.override && other && other->place.override;
}

/* Whether an entry of a list of the root gives the key, "LIST[].KEY", or --set has taken it. */
static bool is_in_list(const struct option_scope *s, const char *name)
{
    char list[OPTION_WITH];
    const char *end = strstr(name, "[].");
    while (s->up) s = s->up;
    if (!end) return false;
    snprintf(list, sizeof list, "%.*s", (int)(end - name), name);
    const struct node *entries = node_find(s->node, list);
    for (int64_t i = 0; entries && i < entries->n; i++) {
        const struct node *key = node_find(entries->items[i], end + strlen("[]."));
        if (key && (key->kind != NODE_NULL || key->place.override)) return true;
    }
    return false;
}

/* What is written and changes the entry (`before`: without it) has an effect, unless --set has
 * taken it from a key of the file. */
static enum status check_effects(const struct option_table *t, const struct option_scope *s,
                                 const void *before, const void *out, struct err *e)
{
    for (int64_t i = 0; !s->source->whole && i < s->node->n; i++) {
        const struct node *n = s->node->items[i];
        char name[OPTION_WITH], word[OPTION_WITH];
        size_t base;
        const struct option *o = options_find(t, n->key, &base);
        if (!o) continue; /* inside OPTION_BOXED */
        const size_t size = o->type == OPTION_BOOL     ? sizeof(bool)
                            : o->type == OPTION_CHOICE ? sizeof(int)
                                                       : sizeof(int64_t);
        base += o->offset;
        if (option_has_effect(t, o, out, name, word) || is_overridden(s, n, name) ||
            is_in_list(s, name) ||
            memcmp((const char *)before + base, (const char *)out + base, size) == 0)
            continue;
        return options_fail(s, n->key, e, "has no effect here: it goes with %s%s%s", name,
                            *word ? ": " : "", word);
    }
    return OK;
}

static enum status read_table(const struct option_table *t, const struct option_scope *s, void *out,
                              struct err *e)
{
    enum status st = OK;
    char *before = NULL;
    options_default(t, out);
    if (s->node->kind != NODE_MAP) {
        char known[KNOWN], found[NODE_SHOWN];
        list_names(t, known, sizeof known);
        node_show(s->node, found);
        TRY(options_fail(s, NULL, e, "expected a mapping with the keys %s, found %s", known,
                         found));
    }
    TRY(make_boxes(t, out, e));
    if (t->begin) TRY(t->begin(out, s, e));
    TRY(mem_alloc(&before, (int64_t)t->size, 1, "settings", e));
    memcpy(before, out, t->size);
    TRY(read_keys(t, s, out, e));
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (!o->required || given(s->node, s->node->n, o->name)) continue;
        char expected[OPTION_EXPECTED];
        option_expected(o, expected);
        TRY(options_fail(s, o->name, e, "missing, expected %s", expected));
    }
    if (t->finish) TRY(t->finish(out, s, e));
    TRY(check_effects(t, s, before, out, e));
done:
    free(before);
    if (st != OK) options_free(t, out);
    return st;
}

enum status options_read(const struct option_table *t, const struct node *node,
                         const struct option_source *source, void *out, struct err *e)
{
    struct option_scope root = {NULL, NULL, 0, node, source};
    return read_table(t, &root, out, e);
}

/* ---- lifetime ---- */

void options_default(const struct option_table *t, void *out)
{
    memset(out, 0, t->size);
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        void *at = field(out, o->offset);
        if (o->type == OPTION_GROUP || o->type == OPTION_KEYS) options_default(o->table, at);
        if (o->fallback) option_default(o, at);
    }
}

void options_free(const struct option_table *t, void *out)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        void *at = field(out, o->offset);
        if (o->type == OPTION_GROUP || o->type == OPTION_KEYS) options_free(o->table, at);
        if (option_is_text(o)) free(*(char **)at);
        if (o->type == OPTION_BOXED && *(void **)at) options_free(o->table, *(void **)at);
        if (o->type == OPTION_BOXED) free(*(void **)at);
        if (o->type != OPTION_LIST) continue;
        char *entries;
        memcpy(&entries, at, sizeof entries);
        int64_t n = *(int64_t *)field(out, o->count);
        for (int64_t j = 0; j < n; j++)
            options_free(o->table, entries + (size_t)j * o->table->size);
        free(entries);
    }
    if (t->release) t->release(out);
    memset(out, 0, t->size);
}

/* Replaces the texts of *to, which belong to *from, by copies; NULL for the rest if memory runs
 * out. */
static enum status own_texts(const struct option_table *t, void *to, enum status st, struct err *e)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        char **text = field(to, o->offset), *copy = NULL;
        if (o->type == OPTION_GROUP || o->type == OPTION_KEYS)
            st = own_texts(o->table, text, st, e);
        if (!option_is_text(o)) continue;
        if (*text && st == OK && !(copy = strdup(*text)))
            st = err_set(e, ERR_NOMEM, __FILE__, __LINE__, "out of memory for settings");
        *text = copy;
    }
    return st;
}

enum status options_copy(const struct option_table *t, const void *from, void *to, struct err *e)
{
    memcpy(to, from, t->size);
    enum status st = own_texts(t, to, OK, e);
    if (st != OK) options_free(t, to);
    return st;
}
