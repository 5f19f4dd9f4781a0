/* Reading a tree of nodes into structs by a table. */
#include "options/options.h"
#include "options/nearest.h"
#include "util/mem.h"
#include "util/words.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

static enum status fail_expected(const struct option *o, const struct option_scope *s,
                                 struct err *e)
{
    char expected[OPTION_EXPECTED], found[NODE_SHOWN];
    option_expected(o, expected);
    node_show(s->node, found);
    return options_fail(s, NULL, e, "expected %s, found %s", expected, found);
}

/* ---- scalars ---- */

static bool is_plain(const struct node *n)
{
    return n->kind == NODE_SCALAR && !n->quoted;
}

/* Decimal digits with a sign; a leading zero is refused because YAML 1.1 reads octal. */
static bool parse_int(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || digits[n] || (n > 1 && digits[0] == '0')) return false;
    errno = 0;
    long long parsed = strtoll(text, NULL, 10);
    *value = parsed;
    return errno == 0;
}

/* 1, 1.5, .5, 1e-3; not inf, nan, hexadecimal; finite. */
static bool parse_real(const char *text, double *value)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t whole = strspn(p, "0123456789"), part = 0;
    p += whole;
    if (*p == '.') {
        part = strspn(p + 1, "0123456789");
        p += 1 + part;
    }
    if (whole + part == 0) return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        size_t digits = strspn(p, "0123456789");
        if (digits == 0) return false;
        p += digits;
    }
    if (*p) return false;
    *value = strtod(text, NULL);
    return isfinite(*value);
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const words[][2] = {
        {"false", "true"}, {"False", "True"}, {"FALSE", "TRUE"}, {"no", "yes"}, {"off", "on"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int v = 0; v < 2; v++)
            if (strcmp(text, words[i][v]) == 0) {
                *value = v == 1;
                return true;
            }
    return false;
}

static bool parse_choice(const struct option *o, const char *text, int *value)
{
    for (int i = 0; o->choices[i]; i++)
        if (strcmp(text, o->choices[i]) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static bool int_fits(const struct option *o, int64_t value)
{
    for (int i = 0; i < o->n_special; i++)
        if (!o->special[i].word && value == o->special[i].value) return true;
    return value >= o->low && value <= o->high;
}

/* Whether the text is the word of a special value, and which. */
static bool parse_word(const struct option *o, const char *text, int64_t *value)
{
    for (int i = 0; i < o->n_special; i++)
        if (o->special[i].word && strcmp(text, o->special[i].word) == 0) {
            *value = o->special[i].value;
            return true;
        }
    return false;
}

static enum status read_int(const struct option *o, const struct option_scope *s, int64_t *value,
                            struct err *e)
{
    const struct node *n = s->node;
    if (n->kind == NODE_SCALAR && parse_word(o, n->text, value)) return OK;
    int64_t parsed = 0;
    if (!is_plain(n) || !parse_int(n->text, &parsed) || !int_fits(o, parsed))
        return fail_expected(o, s, e);
    *value = parsed;
    return OK;
}

static enum status read_real(const struct option *o, const struct option_scope *s, double *value,
                             struct err *e)
{
    double parsed = 0;
    if (!is_plain(s->node) || !parse_real(s->node->text, &parsed) || parsed < o->minimum ||
        parsed > o->maximum)
        return fail_expected(o, s, e);
    *value = parsed;
    return OK;
}

static enum status read_choice(const struct option *o, const struct option_scope *s, int *value,
                               struct err *e)
{
    const struct node *n = s->node;
    if (n->kind == NODE_SCALAR && parse_choice(o, n->text, value)) return OK;
    int64_t count = 0;
    while (o->choices[count]) count++;
    const char *near = n->kind == NODE_SCALAR ? nearest_name(n->text, o->choices, count) : NULL;
    if (!near) return fail_expected(o, s, e);
    char expected[OPTION_EXPECTED], found[NODE_SHOWN];
    option_expected(o, expected);
    node_show(n, found);
    return options_fail(s, NULL, e, "expected %s, found %s, did you mean %s?", expected, found,
                        near);
}

/* Names become labels and paths: UTF-8, one line. */
static const char *text_fault(const char *text)
{
    if (!*text) return "empty text";
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7F) return "a control character";
    json_t *json = json_string(text);
    bool good = json != NULL;
    json_decref(json);
    return good ? NULL : "text that is not UTF-8";
}

static enum status check_text(const struct option *o, const struct option_scope *s,
                              const char *text, struct err *e)
{
    const char *fault = text_fault(text);
    if (!fault) return OK;
    char expected[OPTION_EXPECTED];
    option_expected(o, expected);
    return options_fail(s, NULL, e, "expected %s, found %s", expected, fault);
}

static enum status read_text(const struct option *o, const struct option_scope *s, char **value,
                             struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    if (s->node->kind != NODE_SCALAR) TRY(fail_expected(o, s, e));
    TRY(check_text(o, s, s->node->text, e));
    bool path = o->type == OPTION_PATH || o->type == OPTION_PATHS;
    if (path && s->source->folder) {
        struct err why = {0};
        st = option_path(s->node->text, s->source->folder, &text, &why);
        ENSURE(st != ERR_NOMEM, st, "%s", why.text);
        if (st != OK) TRY(options_fail(s, NULL, e, "%s", why.text));
        TRY(check_text(o, s, text, e)); /* variables and the folder may hold anything */
    } else {
        TRY(mem_string(&text, s->node->text, e));
    }
    free(*value);
    *value = text;
    text = NULL;
done:
    free(text);
    return st;
}

/* Texts hold no line ends (check_text), so that one text can hold several, one a line. */
static enum status read_texts(const struct option *o, const struct option_scope *s, char **value,
                              struct err *e)
{
    enum status st = OK;
    char *all = NULL, *one = NULL;
    int64_t n = 0, capacity = 0;
    if (s->node->kind != NODE_LIST) return read_text(o, s, value, e);
    if (s->node->n == 0) TRY(fail_expected(o, s, e));
    for (int64_t i = 0; i < s->node->n; i++) {
        struct option_scope inner = options_entry(s, i);
        struct option element = {.name = o->name,
                                 .type = o->type == OPTION_PATHS ? OPTION_PATH : OPTION_TEXT};
        TRY(read_text(&element, &inner, &one, e));
        int64_t length = (int64_t)strlen(one);
        TRY(mem_grow(&all, n + length, &capacity, 1, e));
        memcpy(all + n, one, (size_t)length);
        n += length;
        all[n++] = '\n';
    }
    all[n - 1] = '\0';
    free(*value);
    *value = all;
    all = NULL;
done:
    free(all);
    free(one);
    return st;
}

/* ---- lists and groups ---- */

static enum status read_ints(const struct option *o, const struct option_scope *s, int64_t *count,
                             int64_t *values, struct err *e)
{
    const struct node *n = s->node;
    if (n->kind != NODE_LIST || n->n == 0) return fail_expected(o, s, e);
    struct option element = {.type = OPTION_INT, .low = o->low, .high = o->high};
    for (int64_t i = 0; i < n->n; i++) {
        struct option_scope inner = options_entry(s, i);
        int64_t value = 0;
        PASS(read_int(&element, &inner, &value, e));
        for (int64_t j = 0; j < i; j++)
            if (values[j] == value)
                return options_fail(&inner, NULL, e, "%lld is in the list twice", (long long)value);
        if (i >= o->capacity)
            return options_fail(&inner, NULL, e, "more than %lld values", (long long)o->capacity);
        values[i] = value;
    }
    *count = n->n;
    return OK;
}

static enum status read_reals(const struct option *o, const struct option_scope *s, int64_t *count,
                              double *values, struct err *e)
{
    const struct node *n = s->node;
    if (n->kind != NODE_LIST || n->n == 0) return fail_expected(o, s, e);
    struct option element = {.type = OPTION_REAL, .minimum = o->minimum, .maximum = o->maximum};
    for (int64_t i = 0; i < n->n; i++) {
        struct option_scope inner = options_entry(s, i);
        if (i >= o->capacity)
            return options_fail(&inner, NULL, e, "more than %lld values", (long long)o->capacity);
        PASS(read_real(&element, &inner, &values[i], e));
    }
    *count = n->n;
    return OK;
}

static enum status read_table(const struct option_table *t, const struct option_scope *s, void *out,
                              struct err *e);

static enum status read_entries(const struct option *o, const struct option_scope *s, void *entry,
                                struct err *e)
{
    const struct node *n = s->node;
    char *entries = NULL;
    int64_t *count = field(entry, o->count);
    if (n->kind != NODE_LIST || n->n < o->low || n->n > o->high) PASS(fail_expected(o, s, e));
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
    void *at = field(entry, o->offset);
    switch (o->type) {
    case OPTION_BOOL:
        return is_plain(s->node) && parse_bool(s->node->text, at) ? OK : fail_expected(o, s, e);
    case OPTION_INT:
        return read_int(o, s, at, e);
    case OPTION_REAL:
        return read_real(o, s, at, e);
    case OPTION_CHOICE:
        return read_choice(o, s, at, e);
    case OPTION_TEXT:
    case OPTION_PATH:
        return read_text(o, s, at, e);
    case OPTION_TEXTS:
    case OPTION_PATHS:
        return read_texts(o, s, at, e);
    case OPTION_INTS:
        return read_ints(o, s, field(entry, o->count), at, e);
    case OPTION_REALS:
        return read_reals(o, s, field(entry, o->count), at, e);
    case OPTION_GROUP:
    case OPTION_KEYS:
        return read_table(o->table, s, at, e);
    case OPTION_BOXED: /* its keys are found instead of it: find_holder */
        return OK;
    case OPTION_LIST:
        return read_entries(o, s, entry, e);
    }
    return OK;
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

/* options_find, also inside OPTION_BOXED; *holder: the struct that has the value. */
static const struct option *find_holder(const struct option_table *t, const char *name, void *entry,
                                        void **holder)
{
    size_t base;
    const struct option *found = options_find(t, name, &base);
    *holder = field(entry, base);
    for (int64_t i = 0; !found && i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (o->type != OPTION_BOXED || !(found = options_find(o->table, name, &base))) continue;
        *holder = field(*(void **)field(entry, o->offset), base);
    }
    return found;
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
        const struct option *o = find_holder(t, n->key, out, &holder);
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
        if (!o->fallback) continue;
        /* Defaults may lie outside the range: -1 and nan stand for "not given". */
        if (o->type == OPTION_INT && !parse_word(o, o->fallback, at))
            *(int64_t *)at = strtoll(o->fallback, NULL, 10);
        else if (o->type == OPTION_REAL)
            *(double *)at = strtod(o->fallback, NULL);
        else if (o->type == OPTION_BOOL)
            parse_bool(o->fallback, at);
        else if (o->type == OPTION_CHOICE)
            parse_choice(o, o->fallback, at);
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
