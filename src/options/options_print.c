/* What a table says of its keys, in words and as JSON. */
#include "options/options.h"
#include "util/json.h"
#include "util/page.h"
#include <math.h>
#include <stdlib.h>

bool option_int_text(const struct option *o, int64_t value, char text[32])
{
    for (int i = 0; i < o->n_special; i++)
        if (o->special[i].word && value == o->special[i].value) {
            snprintf(text, 32, "%s", o->special[i].word);
            return true;
        }
    snprintf(text, 32, "%lld", (long long)value);
    return false;
}

static void expected_int(const struct option *o, const char *what, char text[OPTION_EXPECTED])
{
    char range[64] = "", special[32];
    if (o->low > INT64_MIN && o->high < INT64_MAX)
        snprintf(range, sizeof range, " from %lld to %lld", (long long)o->low, (long long)o->high);
    else if (o->low > INT64_MIN)
        snprintf(range, sizeof range, " >= %lld", (long long)o->low);
    int n = snprintf(text, OPTION_EXPECTED, "%s%s", what, range);
    for (int i = 0; i < o->n_special; i++) {
        option_int_text(o, o->special[i].value, special);
        n += snprintf(text + n, OPTION_EXPECTED - (size_t)n, " or %s", special);
    }
}

void option_expected(const struct option *o, char text[OPTION_EXPECTED])
{
    static const char *const fixed[] = {
        [OPTION_BOOL] = "true or false",
        [OPTION_TEXT] = "a text of one line",
        [OPTION_TEXTS] = "a text of one line or a list of them",
        [OPTION_PATH] = "a path",
        [OPTION_PATHS] = "a path or a list of paths",
        [OPTION_GROUP] = "a mapping",
        [OPTION_KEYS] = "a mapping",
        [OPTION_BOXED] = "a mapping",
    };
    if (o->type == OPTION_INT)
        expected_int(o, "an integer", text);
    else if (o->type == OPTION_INTS)
        expected_int(o, "a list of integers, each", text);
    else if (o->type == OPTION_REALS)
        snprintf(text, OPTION_EXPECTED, "a list of numbers");
    else if (o->type == OPTION_REAL && isfinite(o->maximum))
        snprintf(text, OPTION_EXPECTED, "a number from %.9g to %.9g", o->minimum, o->maximum);
    else if (o->type == OPTION_REAL)
        snprintf(text, OPTION_EXPECTED, "a finite number >= %g", o->minimum);
    else if (o->type == OPTION_CHOICE) {
        size_t n = (size_t)snprintf(text, OPTION_EXPECTED, "one of ");
        for (int i = 0; o->choices[i] && n < OPTION_EXPECTED; i++)
            n += (size_t)snprintf(text + n, OPTION_EXPECTED - n, "%s%s", i ? ", " : "",
                                  o->choices[i]);
    } else if (o->type == OPTION_LIST)
        snprintf(text, OPTION_EXPECTED, "a list of %lld to %lld mappings", (long long)o->low,
                 (long long)o->high);
    else
        snprintf(text, OPTION_EXPECTED, "%s", fixed[o->type]);
}

void options_print_keys(const struct option_table *t, FILE *out)
{
    int64_t width = page_width(out, OPTION_PAGE);
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (option_is_keys(o))
            options_print_keys(o->table, out);
        else {
            /* "  name   what it takes (unit); default" and the doc below. */
            enum { NAME = 16, DOC = 6, CONTINUED = NAME + 4 };
            char expected[OPTION_EXPECTED], line[2 * OPTION_EXPECTED];
            const char *fallback = o->otherwise ? o->otherwise : o->fallback;
            option_expected(o, expected);
            snprintf(line, sizeof line, "%s%s%s%s%s%s%s", expected, o->unit ? " (" : "",
                     o->unit ? o->unit : "", o->unit ? ")" : "", o->required ? "; required" : "",
                     fallback && !o->required ? (o->otherwise ? "; default: " : "; default ") : "",
                     fallback && !o->required ? fallback : "");
            int n = fprintf(out, "  %-*s  ", NAME, o->name);
            page_print(out, width, CONTINUED, n, line);
            fprintf(out, "%*s", DOC, "");
            page_print(out, width, DOC, DOC, o->doc);
        }
    }
}

static void print_sections(const struct option_table *t, FILE *out)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (o->type == OPTION_BOXED) print_sections(o->table, out);
        if (!o->table || o->type == OPTION_BOXED) continue;
        fprintf(out, "\n%s%s\n", o->name, o->type == OPTION_LIST ? "[] (each entry)" : "");
        options_print_keys(o->table, out);
    }
}

void options_print(const struct option_table *t, FILE *out)
{
    fputs("top level\n", out);
    options_print_keys(t, out);
    print_sections(t, out);
}

/* --- JSON --- */

/* A default as the JSON that it would be in the results; null for none, or one that takes words. */
static json_t *default_json(const struct option *o)
{
    char *end;
    if (!o->fallback || o->otherwise) return json_null();
    if (o->type == OPTION_BOOL) return json_boolean(o->fallback[0] == 't');
    if (o->type == OPTION_INT) {
        long long value = strtoll(o->fallback, &end, 10);
        if (!*end) return json_integer(value);
    }
    if (o->type == OPTION_REAL) return json_real(strtod(o->fallback, NULL));
    return json_string(o->fallback);
}

/* [low, high], each null where there is no bound; null for what is no number. */
static json_t *range_json(const struct option *o)
{
    json_t *low = NULL, *high = NULL;
    if (o->type == OPTION_REAL || o->type == OPTION_REALS) {
        if (isfinite(o->minimum)) low = json_real(o->minimum);
        if (isfinite(o->maximum)) high = json_real(o->maximum);
    } else if (o->type == OPTION_INT || o->type == OPTION_INTS || o->type == OPTION_LIST) {
        if (o->low > INT64_MIN) low = json_integer(o->low);
        if (o->high < INT64_MAX) high = json_integer(o->high);
    } else {
        return json_null();
    }
    return json_pack("[o, o]", low ? low : json_null(), high ? high : json_null());
}

static json_t *choices_json(const struct option *o)
{
    if (o->type != OPTION_CHOICE) return json_null();
    json_t *choices = json_array();
    for (int i = 0; o->choices[i]; i++) json_array_append_new(choices, json_string(o->choices[i]));
    return choices;
}

static json_t *special_json(const struct option *o)
{
    if (o->n_special == 0) return json_null();
    json_t *list = json_array();
    for (int i = 0; i < o->n_special; i++)
        json_array_append_new(list, o->special[i].word ? json_string(o->special[i].word)
                                                       : json_integer(o->special[i].value));
    return list;
}

static json_t *key_json(const char *section, const struct option *o)
{
    static const char *const types[] = {
        [OPTION_BOOL] = "bool",     [OPTION_INT] = "integer",   [OPTION_REAL] = "number",
        [OPTION_CHOICE] = "choice", [OPTION_TEXT] = "text",     [OPTION_PATH] = "path",
        [OPTION_TEXTS] = "texts",   [OPTION_PATHS] = "paths",   [OPTION_INTS] = "integers",
        [OPTION_REALS] = "numbers", [OPTION_GROUP] = "mapping", [OPTION_KEYS] = "mapping",
        [OPTION_BOXED] = "mapping", [OPTION_LIST] = "list",
    };
    char key[2 * OPTION_NAME], expected[OPTION_EXPECTED];
    snprintf(key, sizeof key, "%s%s", section, o->name);
    option_expected(o, expected);
    return json_pack("{s:s, s:s, s:s, s:s?, s:b, s:o, s:s?, s:o, s:o, s:o, s:s}", "key", key,
                     "type", types[o->type], "expected", expected, "unit", o->unit, "required",
                     o->required, "default", default_json(o), "otherwise", o->otherwise, "range",
                     range_json(o), "special", special_json(o), "choices", choices_json(o), "doc",
                     o->doc);
}

void options_describe_keys(const struct option_table *t, const char *section, json_t *list)
{
    for (const struct option *o = t->options; o < t->options + t->n; o++) {
        char inner[2 * OPTION_NAME];
        if (option_is_keys(o)) {
            options_describe_keys(o->table, section, list);
            continue;
        }
        json_array_append_new(list, key_json(section, o));
        snprintf(inner, sizeof inner, "%s%s%s.", section, o->name,
                 o->type == OPTION_LIST ? "[]" : "");
        if (o->table) options_describe_keys(o->table, inner, list);
    }
}
