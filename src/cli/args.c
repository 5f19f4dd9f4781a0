#include "cli/args.h"
#include "cli/flags.h"
#include "options/nearest.h"
#include "util/mem.h"
#include "util/page.h"
#include "util/words.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void arg_list_free(struct arg_list *l)
{
    free(l->items);
    *l = (struct arg_list){0};
}

static enum status arg_list_add(struct arg_list *l, char *item, struct err *e)
{
    PASS(mem_grow(&l->items, l->n, &l->capacity, sizeof *l->items, e));
    l->items[l->n++] = item;
    return OK;
}

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
        return arg_list_add(arg->to, value, e);
    }
    return OK;
}

/* --- what there is --- */

static enum status list_flags(const struct args *a, struct flag_list *out, struct err *e)
{
    for (int i = 0; i < a->n; i++) {
        const struct arg *arg = &a->table[i];
        const struct arg_choice *choice = arg->type == ARG_CHOICE ? arg->to : NULL;
        PASS(flags_add(out, arg->name, arg->value, arg->doc, choice ? choice->words : NULL, e));
    }
    for (int i = 0; i < a->n_keys; i++) {
        const struct arg_keys *k = &a->keys[i];
        PASS(flags_add_keys(out, k->heading, k->table, k->prefix, e));
    }
    return flags_add(out, "--help", NULL, "print this (also -h)", NULL, e);
}

/* A command's doc is a sentence without capital and full stop. */
static void print_doc(const char *doc, int64_t width)
{
    printf("\n%c", doc[0] >= 'a' && doc[0] <= 'z' ? doc[0] - 'a' + 'A' : doc[0]);
    page_print(stdout, width, 0, 1, doc + 1);
}

static enum status print_help(const struct args *a, const struct call *c, struct err *e)
{
    enum status st = OK;
    struct flag_list flags = {0};
    int64_t width = page_width(stdout, 80);
    int rank = 0;
    if (c->world != MPI_COMM_NULL) MPI_Comm_rank(c->world, &rank);
    TRY(list_flags(a, &flags, e));
    if (rank != 0) goto done;
    printf("usage: ");
    const bool alone = !c->command->arguments[0];
    const int indent = printf("qtraj %s%s", c->command->name, alone ? "" : " ") + 7;
    page_print(stdout, width, indent, indent, c->command->arguments);
    print_doc(c->command->doc, width);
    putchar('\n');
    flags_print(&flags, width, stdout);
done:
    flags_free(&flags);
    return st;
}

/* --- parsing --- */

static enum status fail_unknown(const struct args *a, const struct call *c, const char *flag,
                                size_t n, struct err *e)
{
    enum status st = OK;
    struct flag_list flags = {0};
    char *name = NULL, advice[OPTION_FLAG + 20];
    TRY(list_flags(a, &flags, e));
    TRY(mem_format(&name, e, "%.*s", (int)n, flag));
    TRY(flags_advice(&flags, name, advice, sizeof advice, e));
    FAIL(ERR_USAGE, "%s: unknown flag%s (qtraj %s --help lists them)", name, advice,
         c->command->name);
done:
    flags_free(&flags);
    free(name);
    return st;
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
        if (!*used) PASS(fail_unknown(a, c, argv[0], n, e));
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
static bool has_one(const char *with, const struct arg_list *given)
{
    if (!with) return true;
    for (int64_t i = 0; i < given->n; i++)
        if (words_have(with, " ", given->items[i], strcspn(given->items[i], "="))) return true;
    return false;
}

/* Every flag that was given has an effect beside the others. */
static enum status check_effects(const struct args *a, const struct arg_list *given, struct err *e)
{
    for (int64_t i = 0; i < given->n; i++) {
        const char *flag = given->items[i], *with = NULL;
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
    enum status st = OK;
    struct arg_list given = {0};
    int found = 0, used;
    for (int i = 0; i < n; i++) positional[i] = NULL;
    c->help = c->flags || asks_for_help(c);
    if (c->flags)
        TRY(list_flags(a, c->flags, e));
    else if (c->help)
        TRY(print_help(a, c, e));
    if (c->help) return OK;
    for (int i = 1; i < c->argc; i += used) {
        char *word = c->argv[i];
        used = 1;
        if (word[0] == '-' && word[1]) {
            TRY(take(a, c, c->argc - i, c->argv + i, &used, e));
            TRY(arg_list_add(&given, word, e));
        } else {
            if (found == n && a->more) {
                TRY(arg_list_add(a->more, word, e));
                continue;
            }
            ENSURE(found < n, ERR_USAGE, "%s: unexpected; usage: qtraj %s %s", word, command->name,
                   command->arguments);
            positional[found++] = word;
        }
    }
    ENSURE(found + a->optional >= n, ERR_USAGE, "usage: qtraj %s %s", command->name,
           command->arguments);
    TRY(check_effects(a, &given, e));
done:
    arg_list_free(&given);
    return st;
}
