#include "task/field.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

/* *value = that at a path of names with dots between. */
static enum status find(const json_t *row, const char *path, const json_t **value, struct err *e)
{
    char part[NAME_BYTES];
    for (const char *name = path; row; name += strcspn(name, ".") + 1) {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "."), name);
        row = json_object_get(row, part);
        if (!strchr(name, '.')) break;
    }
    NEED(row, ERR_FORMAT, "no field \"%s\"", path);
    *value = row;
    return OK;
}

static struct text text_of(const json_t *value)
{
    return (struct text){json_string_value(value), json_string_length(value)};
}

enum status field_text(const json_t *row, const char *name, struct text *out, struct err *e)
{
    const json_t *value;
    PASS(find(row, name, &value, e));
    NEED(json_is_string(value), ERR_FORMAT, "field \"%s\" is not a string", name);
    *out = text_of(value);
    return OK;
}

/* Whether the text is what an integer is printed as. */
static bool parse_integer(struct text t, int64_t *out)
{
    char again[24];
    *out = strtoll(t.at, NULL, 10);
    snprintf(again, sizeof again, "%lld", (long long)*out);
    return text_is(t, (struct text){again, strlen(again)});
}

enum status field_integer(const json_t *row, const char *name, int64_t *out, struct err *e)
{
    const json_t *value;
    PASS(find(row, name, &value, e));
    const double x = json_number_value(value);
    *out = fabs(x) < 1e15 ? (int64_t)x : 0;
    NEED((json_is_number(value) && (double)*out == x) ||
             (json_is_string(value) && parse_integer(text_of(value), out)),
         ERR_FORMAT, "field \"%s\" is not an integer, nor a string of its digits alone", name);
    return OK;
}

enum status field_list(const json_t *row, const char *name, const json_t **out, struct err *e)
{
    const json_t *value;
    PASS(find(row, name, &value, e));
    NEED(json_is_array(value), ERR_FORMAT, "field \"%s\" is not a list", name);
    for (size_t i = 0; i < json_array_size(value); i++)
        NEED(json_is_string(json_array_get(value, i)), ERR_FORMAT,
             "field \"%s\": item %zu is not a string", name, i);
    *out = value;
    return OK;
}

struct text field_item(const json_t *list, int64_t i)
{
    return text_of(json_array_get(list, (size_t)i));
}

/* Appends the field that the n bytes between braces name. */
static enum status add_field(const json_t *row, const char *between, size_t n, struct buf *out,
                             struct err *e)
{
    char name[NAME_BYTES];
    struct text t;
    snprintf(name, sizeof name, "%.*s", (int)n, between);
    char *how = strchr(name, ':');
    if (how) *how++ = 0;
    PASS(field_text(row, name, &t, e));
    if (how && strcmp(how, "strip") == 0) t = pytext_strip(t);
    if (how && strcmp(how, "lstrip") == 0) t = pytext_lstrip(t);
    return buf_add(out, t.at, t.n, e);
}

enum status field_format(const json_t *row, const char *template, struct buf *out, struct err *e)
{
    for (const char *p = template; *p;) {
        const size_t plain = strcspn(p, "{");
        PASS(buf_add(out, p, plain, e));
        p += plain;
        if (!*p) break;
        const size_t n = strcspn(p, "}");
        PASS(add_field(row, p + 1, n - 1, out, e));
        p += n + 1;
    }
    return OK;
}
