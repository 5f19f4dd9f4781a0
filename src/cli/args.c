#include "cli/args.h"
#include "util/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void arg_list_free(struct arg_list *l)
{
    free(l->items);
    *l = (struct arg_list){0};
}

static const struct arg *find(const struct args *a, const char *word, size_t n)
{
    for (int i = 0; i < a->n; i++)
        if (strlen(a->table[i].name) == n && strncmp(a->table[i].name, word, n) == 0)
            return &a->table[i];
    return NULL;
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
    case ARG_INTEGER:
        errno = 0;
        *(int64_t *)arg->to = strtoll(value, &end, 10);
        NEED(*value && !*end && !errno, ERR_USAGE, "%s: \"%s\" is not an integer", arg->name,
             value);
        break;
    case ARG_LIST: {
        struct arg_list *list = arg->to;
        PASS(mem_grow(&list->items, list->n, &list->capacity, sizeof *list->items, e));
        list->items[list->n++] = value;
        break;
    }
    }
    return OK;
}

/* Takes the flag at argv[0]; *used = words taken. */
static enum status take(const struct args *a, int argc, char **argv, int *used, struct err *e)
{
    size_t n = strcspn(argv[0], "=");
    const struct arg *arg = find(a, argv[0], n);
    *used = 0;
    if (!arg) {
        if (a->other) PASS(a->other(a->context, argc, argv, used, e));
        NEED(*used, ERR_USAGE, "%.*s: unknown flag; --help lists them", (int)n, argv[0]);
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
    PASS(set(arg, value, e));
    return OK;
}

static void print_help(const struct args *a, const struct call *c)
{
    int rank;
    MPI_Comm_rank(c->world, &rank);
    if (rank != 0) return;
    printf("usage: qtraj %s\n", c->command->arguments);
    for (int i = 0; i < a->n; i++) {
        char flag[80];
        snprintf(flag, sizeof flag, "%s %s", a->table[i].name,
                 a->table[i].value ? a->table[i].value : "");
        printf("  %-34s %s\n", flag, a->table[i].doc);
    }
    if (a->more) a->more(stdout);
}

enum status args_parse(const struct args *a, struct call *c, const char **positional, int n,
                       struct err *e)
{
    const char *usage = c->command->arguments;
    int found = 0, used;
    for (int i = 1; i < c->argc; i += used) {
        char *word = c->argv[i];
        used = 1;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            print_help(a, c);
            c->help = true;
            return OK;
        }
        if (word[0] == '-' && word[1]) {
            PASS(take(a, c->argc - i, c->argv + i, &used, e));
        } else {
            NEED(found < n, ERR_USAGE, "%s: unexpected; usage: qtraj %s", word, usage);
            positional[found++] = word;
        }
    }
    NEED(found == n, ERR_USAGE, "usage: qtraj %s", usage);
    return OK;
}
