#include "cli/flags.h"
#include "options/nearest.h"
#include "util/mem.h"
#include "util/page.h"
#include <stdlib.h>
#include <string.h>

void flags_free(struct flag_list *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        free(l->flags[i].name);
        free(l->flags[i].opposite);
        free(l->flags[i].doc);
    }
    free(l->flags);
    *l = (struct flag_list){0};
}

/* --- making --- */

/* A new flag of that name at the end of the list. */
static enum status append(struct flag_list *l, const char *name, struct flag **out, struct err *e)
{
    PASS(mem_grow(&l->flags, l->n, &l->capacity, sizeof *l->flags, e));
    *out = &l->flags[l->n];
    **out = (struct flag){0};
    PASS(mem_string(&(*out)->name, name, e));
    l->n++;
    return OK;
}

enum status flags_add(struct flag_list *l, const char *name, const char *value, const char *doc,
                      const char *const *choices, struct err *e)
{
    struct flag *flag;
    PASS(append(l, name, &flag, e));
    flag->value = value;
    flag->choices = choices;
    return mem_string(&flag->doc, doc, e);
}

/* A table on its way into a list. */
struct adding {
    struct flag_list *list;
    const char *heading; /* NULL once a flag has it */
    enum status st;
    struct err *e;
};

static const char *value_word(enum option_type type)
{
    static const char *const words[] = {
        [OPTION_BOOL] = NULL,    [OPTION_INT] = "N",       [OPTION_REAL] = "X",
        [OPTION_TEXT] = "TEXT",  [OPTION_TEXTS] = "TEXT",  [OPTION_PATH] = "FILE",
        [OPTION_PATHS] = "FILE", [OPTION_CHOICE] = "WORD",
    };
    return words[type];
}

static enum status add_key(struct adding *a, const struct option *o, const char *name,
                           const char *opposite, struct err *e)
{
    char expected[OPTION_EXPECTED] = "a switch";
    const char *fallback = o->otherwise ? o->otherwise : o->fallback;
    struct flag *flag;
    PASS(append(a->list, name, &flag, e));
    flag->heading = a->heading;
    a->heading = NULL;
    flag->value = value_word(o->type);
    flag->choices = o->type == OPTION_CHOICE ? o->choices : NULL;
    if (opposite) PASS(mem_string(&flag->opposite, opposite, e));
    if (o->type != OPTION_BOOL) option_expected(o, expected);
    return mem_format(&flag->doc, e, "%s (%s%s%s)", o->doc, expected, fallback ? "; default " : "",
                      fallback ? fallback : "");
}

static void take_key(void *context, const struct option *o, const char *name, const char *opposite)
{
    struct adding *a = context;
    if (a->st == OK) a->st = add_key(a, o, name, opposite, a->e);
}

enum status flags_add_keys(struct flag_list *l, const char *heading, const struct option_table *t,
                           const char *prefix, struct err *e)
{
    struct adding adding = {.list = l, .heading = heading, .e = e};
    options_list_flags(t, prefix, take_key, &adding);
    return adding.st;
}

/* --- telling --- */

/* "  --name, --opposite VALUE"; the columns that its last line takes. */
static int64_t print_names(const struct flag *f, int64_t width, FILE *out)
{
    int64_t n = fprintf(out, "  %s", f->name);
    if (f->opposite && n + 2 + (int64_t)strlen(f->opposite) > width)
        n = fprintf(out, ",\n  %s", f->opposite) - 2;
    else if (f->opposite)
        n += fprintf(out, ", %s", f->opposite);
    if (f->value) n += fprintf(out, " %s", f->value);
    return n;
}

void flags_print(const struct flag_list *l, int64_t width, FILE *out)
{
    enum { INDENT = 26 }; /* of docs; a longer flag has a line of its own */
    for (int64_t i = 0; i < l->n; i++) {
        const struct flag *f = &l->flags[i];
        if (f->heading) {
            putc('\n', out);
            page_print(out, width, 0, 0, f->heading);
        }
        int64_t n = print_names(f, width, out);
        if (n + 2 > INDENT) {
            putc('\n', out);
            n = 0;
        }
        fprintf(out, "%*s", (int)(INDENT - n), "");
        page_print(out, width, INDENT, INDENT, f->doc);
    }
}

enum status flags_advice(const struct flag_list *l, const char *name, char *text, size_t size,
                         struct err *e)
{
    enum status st = OK;
    const char **names = NULL;
    int64_t n = 0;
    TRY(mem_zero(&names, 2 * l->n, sizeof *names, "flags", e));
    for (int64_t i = 0; i < l->n; i++) {
        names[n++] = l->flags[i].name + 2;
        if (l->flags[i].opposite) names[n++] = l->flags[i].opposite + 2;
    }
    const char *near = nearest_name(name + strspn(name, "-"), names, n);
    snprintf(text, size, "%s%s%s", near ? ", did you mean --" : "", near ? near : "",
             near ? "?" : "");
done:
    free(names);
    return st;
}
