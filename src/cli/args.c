#include "cli/args.h"
#include "options/nearest.h"
#include "util/comm.h"
#include "util/mem.h"
#include "util/page.h"
#include "util/words.h"
#include <errno.h>

static const struct arg *find(const struct args *a, const char *word, size_t n)
{
    for (int i = 0; i < a->n; i++)
        if (strlen(a->table[i].name) == n && strncmp(a->table[i].name, word, n) == 0)
            return &a->table[i];
    return NULL;
}

static enum status choose(const struct arg *arg, const char *value, struct err *e)
{
    struct arg_choice *choice = arg->to;
    char advice[400];
    int64_t n = 0;
    choice->word = value;
    for (; choice->words[n]; n++)
        if (strcmp(choice->words[n], value) == 0) return OK;
    nearest_advice(value, choice->words, n, advice, sizeof advice);
    RAISE(ERR_USAGE, "%s %s: unknown%s", arg->name, value, advice);
}

static enum status set(const struct arg *arg, char *value, struct err *e)
{
    char *end;
    switch (arg->type) {
    case ARG_SWITCH:
        *(bool *)arg->to = true;
        break;
    case ARG_TEXT:
        *(const char **)arg->to = value;
        break;
    case ARG_CHOICE:
        return choose(arg, value, e);
    case ARG_INTEGER:
        errno = 0;
        *(int64_t *)arg->to = strtoll(value, &end, 10);
        NEED(*value && !*end && !errno, ERR_USAGE, "%s: \"%s\" is not an integer", arg->name,
             value);
        break;
    case ARG_LIST:
        return texts_append(arg->to, value, e);
    }
    return OK;
}

/* --- what there is --- */

static json_t *words_json(const char *const *words)
{
    json_t *list = words ? json_array() : NULL;
    for (int i = 0; words && words[i]; i++) json_array_append_new(list, json_string(words[i]));
    return list;
}

static void add_flag(json_t *list, const char *name, const char *value, const char *doc,
                     const char *const *choices)
{
    json_array_append_new(list, json_pack("{s:s, s:s*, s:s, s:o*}", "name", name, "value", value,
                                          "doc", doc, "choices", words_json(choices)));
}

/* The keys of a table on their way into a list. */
struct adding {
    json_t *list;
    const char *heading; /* NULL once a flag has it */
};

/* What is expected and the default end the doc of a key. */
static void add_key(void *context, const struct option *o, const char *name, const char *opposite)
{
    static const char *const values[] = {
        [OPTION_BOOL] = NULL,    [OPTION_INT] = "N",       [OPTION_REAL] = "X",
        [OPTION_TEXT] = "TEXT",  [OPTION_TEXTS] = "TEXT",  [OPTION_PATH] = "FILE",
        [OPTION_PATHS] = "FILE", [OPTION_CHOICE] = "WORD",
    };
    struct adding *a = context;
    char expected[OPTION_EXPECTED] = "a switch";
    const char *fallback = o->otherwise ? o->otherwise : o->fallback;
    if (o->type != OPTION_BOOL) option_expected(o, expected);
    json_array_append_new(
        a->list, json_pack("{s:s*, s:s, s:s*, s:s*, s:o, s:o*}", "heading", a->heading, "name",
                           name, "opposite", opposite, "value", values[o->type], "doc",
                           json_sprintf("%s (%s%s%s)", o->doc, expected,
                                        fallback ? "; default " : "", fallback ? fallback : ""),
                           "choices", words_json(o->choices)));
    a->heading = NULL;
}

static json_t *list_flags(const struct args *a)
{
    json_t *list = json_array();
    for (int i = 0; i < a->n; i++) {
        const struct arg *arg = &a->table[i];
        const struct arg_choice *choice = arg->type == ARG_CHOICE ? arg->to : NULL;
        add_flag(list, arg->name, arg->value, arg->doc, choice ? choice->words : NULL);
    }
    for (int i = 0; i < a->n_keys; i++) {
        struct adding adding = {list, a->keys[i].heading};
        options_list_flags(a->keys[i].table, a->keys[i].prefix, add_key, &adding);
    }
    add_flag(list, "--help", NULL, "print this (also -h)", NULL);
    return list;
}

/* "  --name, --opposite VALUE", and the doc beside it, in lines of at most `width` columns. */
static void print_flag(const json_t *flag, int64_t width)
{
    enum { INDENT = 26 }; /* of docs; a longer flag has a line of its own */
    const char *opposite = json_text(flag, "opposite", NULL);
    const char *heading = json_text(flag, "heading", NULL), *value = json_text(flag, "value", NULL);
    if (heading) {
        putchar('\n');
        page_print(stdout, width, 0, 0, heading);
    }
    int64_t n = printf("  %s", json_text(flag, "name", ""));
    if (opposite && n + 2 + (int64_t)strlen(opposite) > width)
        n = printf(",\n  %s", opposite) - 2;
    else if (opposite)
        n += printf(", %s", opposite);
    if (value) n += printf(" %s", value);
    if (n + 2 > INDENT) {
        putchar('\n');
        n = 0;
    }
    printf("%*s", (int)(INDENT - n), "");
    page_print(stdout, width, INDENT, INDENT, json_text(flag, "doc", ""));
}

static void print_help(const struct args *a, const struct command *command)
{
    const int64_t width = page_width(stdout, 80);
    const char *arguments = command->arguments, *doc = command->doc;
    json_t *flags = list_flags(a), *flag;
    size_t i;
    printf("usage: ");
    const int indent = printf("qtraj %s%s", command->name, arguments[0] ? " " : "") + 7;
    page_print(stdout, width, indent, indent, arguments);
    /* a sentence without its capital and its full stop */
    printf("\n%c", doc[0] >= 'a' && doc[0] <= 'z' ? doc[0] - 'a' + 'A' : doc[0]);
    page_print(stdout, width, 0, 1, doc + 1);
    putchar('\n');
    json_array_foreach(flags, i, flag) print_flag(flag, width);
    json_decref(flags);
}

/* --- parsing --- */

/* flag: n bytes, with its hyphens. */
static enum status fail_unknown(const struct args *a, const struct call *c, const char *flag, int n,
                                struct err *e)
{
    enum { MOST = 400 };
    const char *names[MOST + 1], *near;
    char name[OPTION_FLAG];
    json_t *flags = list_flags(a), *one;
    int64_t count = 0;
    size_t i;
    json_array_foreach(flags, i, one) {
        const char *opposite = json_text(one, "opposite", NULL);
        if (count < MOST) names[count++] = json_text(one, "name", "--") + 2;
        if (count < MOST && opposite) names[count++] = opposite + 2;
    }
    snprintf(name, sizeof name, "%.*s", n, flag);
    near = nearest_name(name + strspn(name, "-"), names, count);
    err_set(e, ERR_USAGE, __FILE__, __LINE__,
            "%.*s: unknown flag%s%s%s (qtraj %s --help lists them)", n, flag,
            near ? ", did you mean --" : "", near ? near : "", near ? "?" : "", c->command->name);
    json_decref(flags);
    return ERR_USAGE;
}

/* Takes the flag at argv[0]; *used = arguments taken. */
static enum status take(const struct args *a, const struct call *c, int argc, char **argv,
                        int *used, struct err *e)
{
    size_t n = strcspn(argv[0], "=");
    const struct arg *arg = find(a, argv[0], n);
    *used = 0;
    if (!arg) {
        for (int i = 0; i < a->n_keys && !*used; i++)
            PASS(options_flag(a->keys[i].table, a->keys[i].prefix, a->keys[i].to, argc, argv, used,
                              e));
        if (!*used) PASS(fail_unknown(a, c, argv[0], (int)n, e));
        return OK;
    }
    char *value = argv[0][n] ? argv[0] + n + 1 : NULL;
    *used = 1;
    if (arg->type == ARG_SWITCH) {
        NEED(!value, ERR_USAGE, "%s takes no value", arg->name);
    } else if (!value) {
        NEED(argc > 1, ERR_USAGE, "%s needs a value: %s", arg->name, arg->value);
        value = argv[1];
        *used = 2;
    }
    return set(arg, value, e);
}

static bool asks_for_help(const struct call *c)
{
    for (int i = 1; i < c->argc; i++)
        if (strcmp(c->argv[i], "--help") == 0 || strcmp(c->argv[i], "-h") == 0) return true;
    return false;
}

/* Whether one of the words of `with` (NULL: any will do) is a flag that was given. */
static bool has_one(const char *with, const struct texts *given)
{
    if (!with) return true;
    for (int64_t i = 0; i < given->n; i++)
        if (words_have(with, " ", given->text[i], strcspn(given->text[i], "="))) return true;
    return false;
}

/* A flag that takes one value is given once. */
static enum status check_once(const struct args *a, const struct texts *given, struct err *e)
{
    for (int64_t i = 0; i < given->n; i++) {
        const struct arg *arg = find(a, given->text[i], strcspn(given->text[i], "="));
        if (!arg || arg->type == ARG_LIST || arg->type == ARG_SWITCH) continue;
        for (int64_t j = 0; j < i; j++)
            NEED(find(a, given->text[j], strcspn(given->text[j], "=")) != arg, ERR_USAGE,
                 "%s is given twice; it takes one value", arg->name);
    }
    return OK;
}

/* Every flag that was given has an effect beside the others. */
static enum status check_effects(const struct args *a, const struct texts *given, struct err *e)
{
    for (int64_t i = 0; i < given->n; i++) {
        const char *flag = given->text[i], *with = NULL;
        const size_t n = strcspn(flag, "=");
        const struct arg *arg = find(a, flag, n);
        for (const struct arg_with *w = a->with; w && w->name; w++)
            if (arg && strcmp(w->name, arg->name) == 0) with = w->with;
        for (int k = 0; !arg && k < a->n_keys; k++) {
            const struct arg_keys *keys = &a->keys[k];
            if (!options_has_flag(keys->table, keys->prefix, flag)) continue;
            with = keys->with;
            if (has_one(with, given))
                PASS(options_flag_check(keys->table, keys->prefix, keys->to, flag, e));
            break;
        }
        NEED(has_one(with, given), ERR_USAGE, "%.*s has no effect here: it goes with %s", (int)n,
             flag, with);
    }
    return OK;
}

enum status args_parse(const struct args *a, struct call *c, const char **positional, int n,
                       struct err *e)
{
    const struct command *command = c->command;
    CLEANUP(texts_free) struct texts given = {0};
    int found = 0, used;
    for (int i = 0; i < n; i++) positional[i] = NULL;
    c->help = c->flags || asks_for_help(c);
    if (c->flags)
        *c->flags = list_flags(a);
    else if (c->help && (c->world == MPI_COMM_NULL || comm_rank(c->world) == 0))
        print_help(a, command);
    if (c->help) return OK;
    for (int i = 1; i < c->argc; i += used) {
        char *word = c->argv[i];
        used = 1;
        if (word[0] == '-' && word[1]) {
            PASS(take(a, c, c->argc - i, c->argv + i, &used, e));
            PASS(texts_append(&given, word, e));
        } else {
            if (found == n && a->more) {
                PASS(texts_append(a->more, word, e));
                continue;
            }
            NEED(found < n, ERR_USAGE, "%s: unexpected; usage: qtraj %s %s", word, command->name,
                 command->arguments);
            positional[found++] = word;
        }
    }
    NEED(found + a->optional >= n, ERR_USAGE, "usage: qtraj %s %s", command->name,
         command->arguments);
    PASS(check_once(a, &given, e));
    return check_effects(a, &given, e);
}
