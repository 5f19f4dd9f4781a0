/* What a table says of its keys, in words. */
#include "options/options.h"
#include <math.h>

bool option_int_text(const struct option *o, int64_t value, char text[32])
{
    bool word = o->has_special && o->word && value == o->special;
    if (word)
        snprintf(text, 32, "%s", o->word);
    else
        snprintf(text, 32, "%lld", (long long)value);
    return word;
}

/* "from 2 to 8", ">= 1" or "" */
static void int_range(const struct option *o, char *text, size_t size)
{
    text[0] = '\0';
    if (o->low > INT64_MIN && o->high < INT64_MAX)
        snprintf(text, size, " from %lld to %lld", (long long)o->low, (long long)o->high);
    else if (o->low > INT64_MIN)
        snprintf(text, size, " >= %lld", (long long)o->low);
}

static void expected_int(const struct option *o, const char *what, char text[OPTION_EXPECTED])
{
    char range[64], special[32] = "";
    int_range(o, range, sizeof range);
    if (o->has_special) option_int_text(o, o->special, special);
    snprintf(text, OPTION_EXPECTED, "%s%s%s%s", what, range, *special ? " or " : "", special);
}

static void expected_choice(const struct option *o, char text[OPTION_EXPECTED])
{
    size_t n = (size_t)snprintf(text, OPTION_EXPECTED, "one of ");
    for (int i = 0; o->choices[i] && n < OPTION_EXPECTED; i++)
        n += (size_t)snprintf(text + n, OPTION_EXPECTED - n, "%s%s", i ? ", " : "", o->choices[i]);
}

void option_expected(const struct option *o, char text[OPTION_EXPECTED])
{
    static const char *const fixed[] = {
        [OPTION_BOOL] = "true or false", [OPTION_TEXT] = "a text of one line",
        [OPTION_PATH] = "a path",        [OPTION_PATHS] = "a path or a list of paths",
        [OPTION_GROUP] = "a mapping",    [OPTION_KEYS] = "a mapping",
    };
    if (o->type == OPTION_INT)
        expected_int(o, "an integer", text);
    else if (o->type == OPTION_INTS)
        expected_int(o, "a list of integers, each", text);
    else if (o->type == OPTION_REAL && isfinite(o->most))
        snprintf(text, OPTION_EXPECTED, "a number from %.9g to %.9g", o->least, o->most);
    else if (o->type == OPTION_REAL)
        snprintf(text, OPTION_EXPECTED, "a finite number >= %g", o->least);
    else if (o->type == OPTION_CHOICE)
        expected_choice(o, text);
    else if (o->type == OPTION_LIST)
        snprintf(text, OPTION_EXPECTED, "a list of %lld to %lld mappings", (long long)o->low,
                 (long long)o->high);
    else
        snprintf(text, OPTION_EXPECTED, "%s", fixed[o->type]);
}

static void print_tail(const struct option *o, FILE *out)
{
    if (o->required)
        fputs("; required", out);
    else if (o->otherwise)
        fprintf(out, "; default: %s", o->otherwise);
    else if (o->fallback)
        fprintf(out, "; default %s", o->fallback);
    fprintf(out, "\n      %s\n", o->doc);
}

static void print_keys(const struct option_table *t, FILE *out)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        char expected[OPTION_EXPECTED];
        if (o->type == OPTION_KEYS) {
            print_keys(o->table, out);
            continue;
        }
        option_expected(o, expected);
        fprintf(out, "  %-16s  %s", o->name, expected);
        print_tail(o, out);
    }
}

void options_print(const struct option_table *t, FILE *out)
{
    fputs("top level\n", out);
    print_keys(t, out);
    for (int64_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (!o->table) continue;
        fprintf(out, "\n%s%s\n", o->name, o->type == OPTION_LIST ? "[] (each entry)" : "");
        print_keys(o->table, out);
    }
}
