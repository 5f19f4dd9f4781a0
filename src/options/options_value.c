/* Reading the value of one key: scalars, texts, and lists of them. */
#include "options/nearest.h"
#include "options/options_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>

enum status option_fail_expected(const struct option *o, const struct option_scope *s,
                                 struct err *e)
{
    char expected[OPTION_EXPECTED], found[NODE_SHOWN];
    option_expected(o, expected);
    node_show(s->node, found);
    return options_fail(s, NULL, e, "expected %s, found %s", expected, found);
}

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
        return option_fail_expected(o, s, e);
    *value = parsed;
    return OK;
}

static enum status read_real(const struct option *o, const struct option_scope *s, double *value,
                             struct err *e)
{
    double parsed = 0;
    if (!is_plain(s->node) || !parse_real(s->node->text, &parsed) || parsed < o->minimum ||
        parsed > o->maximum)
        return option_fail_expected(o, s, e);
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
    if (!near) return option_fail_expected(o, s, e);
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
    AUTO_FREE char *text = NULL;
    if (s->node->kind != NODE_SCALAR) PASS(option_fail_expected(o, s, e));
    PASS(check_text(o, s, s->node->text, e));
    bool path = o->type == OPTION_PATH || o->type == OPTION_PATHS;
    if (path && s->source->folder) {
        struct err why = {0};
        st = option_path(s->node->text, s->source->folder, &text, &why);
        NEED(st != ERR_NOMEM, st, "%s", why.text);
        if (st != OK) PASS(options_fail(s, NULL, e, "%s", why.text));
        PASS(check_text(o, s, text, e)); /* variables and the folder may hold anything */
        option_note_path(s, text);
    } else {
        PASS(mem_string(&text, s->node->text, e));
    }
    free(*value);
    *value = TAKE(text);
    return st;
}

/* Texts hold no line ends (check_text), so that one text can hold several, one a line. */
static enum status read_texts(const struct option *o, const struct option_scope *s, char **value,
                              struct err *e)
{
    AUTO_FREE char *all = NULL, *one = NULL;
    int64_t n = 0, capacity = 0;
    if (s->node->kind != NODE_LIST) return read_text(o, s, value, e);
    if (s->node->n == 0) PASS(option_fail_expected(o, s, e));
    for (int64_t i = 0; i < s->node->n; i++) {
        struct option_scope inner = options_entry(s, i);
        struct option element = {.name = o->name,
                                 .type = o->type == OPTION_PATHS ? OPTION_PATH : OPTION_TEXT};
        PASS(read_text(&element, &inner, &one, e));
        int64_t length = (int64_t)strlen(one);
        PASS(mem_grow(&all, n + length, &capacity, 1, e));
        memcpy(all + n, one, (size_t)length);
        n += length;
        all[n++] = '\n';
    }
    all[n - 1] = '\0';
    free(*value);
    *value = TAKE(all);
    return OK;
}

/* Integers are all different. */
static enum status read_numbers(const struct option *o, const struct option_scope *s, void *entry,
                                struct err *e)
{
    const struct node *n = s->node;
    const bool whole = o->type == OPTION_INTS;
    struct option element = *o;
    int64_t *ints = (int64_t *)(void *)((char *)entry + o->offset);
    double *reals = (double *)(void *)ints;
    if (n->kind != NODE_LIST || n->n == 0) return option_fail_expected(o, s, e);
    element.type = whole ? OPTION_INT : OPTION_REAL;
    for (int64_t i = 0; i < n->n; i++) {
        struct option_scope inner = options_entry(s, i);
        int64_t value = 0;
        if (whole) PASS(read_int(&element, &inner, &value, e));
        for (int64_t j = 0; whole && j < i; j++)
            if (ints[j] == value)
                return options_fail(&inner, NULL, e, "%lld is in the list twice", (long long)value);
        if (i >= o->capacity)
            return options_fail(&inner, NULL, e, "more than %lld values", (long long)o->capacity);
        if (whole)
            ints[i] = value;
        else
            PASS(read_real(&element, &inner, &reals[i], e));
    }
    memcpy((char *)entry + o->count, &n->n, sizeof n->n);
    return OK;
}

enum status option_read(const struct option *o, const struct option_scope *s, void *entry,
                        struct err *e)
{
    void *at = (char *)entry + o->offset;
    switch (o->type) {
    case OPTION_BOOL:
        return is_plain(s->node) && parse_bool(s->node->text, at) ? OK
                                                                  : option_fail_expected(o, s, e);
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
    case OPTION_REALS:
        return read_numbers(o, s, entry, e);
    default:
        return OK;
    }
}

void option_default(const struct option *o, void *at)
{
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

/* --- paths: ${VAR}, and relative to the file --- */

static bool is_name(const char *text, size_t n)
{
    if (n == 0 || isdigit((unsigned char)text[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
    return true;
}

/* Replaces the first ${VAR} at or behind *from in *text; *from becomes what follows it, or -1. */
static enum status expand_one(char **text, ptrdiff_t *from, struct err *e)
{
    AUTO_FREE char *name = NULL;
    char *longer = NULL;
    const char *start = strstr(*text + *from, "${");
    if (!start) {
        *from = -1;
        return OK;
    }
    size_t n = strcspn(start + 2, "}");
    char shown[NODE_SHOWN];
    text_show(start, shown, sizeof shown);
    NEED(start[2 + n] == '}' && is_name(start + 2, n), ERR_USAGE,
         "expected ${NAME} (letters, digits, _) at %s", shown);
    PASS(mem_format(&name, e, "%.*s", (int)n, start + 2));
    const char *value = getenv(name);
    NEED(value, ERR_USAGE, "the environment variable %s is not set", name);
    ptrdiff_t head = start - *text;
    PASS(mem_format(&longer, e, "%.*s%s%s", (int)head, *text, value, start + 3 + n));
    free(*text);
    *text = longer;
    *from = head + (ptrdiff_t)strlen(value);
    return OK;
}

enum status option_path(const char *text, const char *folder, char **out, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(mem_string(&path, text, e));
    for (ptrdiff_t from = 0; from >= 0;) PASS(expand_one(&path, &from, e));
    NEED(path[0], ERR_USAGE, "expected a path, found nothing after its variables");
    /* A sweep file of the current folder gives "data/x", not "./data/x". */
    return fsx_join(strcmp(folder, ".") == 0 ? "" : folder, path, out, e);
}
