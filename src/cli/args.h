/* args: the flags of a command, from a table. "--name value" and "--name=value"; a switch takes no
 * value, a list may be given several times. */
#pragma once
#include "cli/cli.h"
#include <stdio.h>

enum arg_type { ARG_SWITCH, ARG_TEXT, ARG_INTEGER, ARG_LIST };

/* What an ARG_LIST collects. Zero-initialise. */
struct arg_list {
    int64_t n, capacity;
    char **items; // (n) borrowed from argv
};
void arg_list_free(struct arg_list *l);

struct arg {
    const char *name; /* with its hyphens */
    enum arg_type type;
    void *to;                /* bool *, const char **, int64_t *, struct arg_list * */
    const char *value, *doc; /* for --help; value: NULL for a switch */
};

struct args {
    const struct arg *table; // (n)
    int n;
    /* Is offered the flags that are not in the table; *used = arguments taken, 0: not its flag. May
     * be NULL. */
    enum status (*other)(void *context, int argc, char **argv, int *used, struct err *e);
    void *context;
    void (*more)(FILE *out); /* prints those other flags for --help; may be NULL */
};

/* The members of struct args that say that an array is the table. */
#define ARGS(rows) .table = (rows), .n = sizeof(rows) / sizeof *(rows)

/* Parses the arguments of a call: flags, and exactly n others, into positional (n, borrowed).
 * --help on any rank sets c->help and ignores the rest; rank 0 prints usage and flags. ERR_USAGE
 * names the flag and what was expected; ERR_NOMEM. */
MUST_USE enum status args_parse(const struct args *a, struct call *c, const char **positional,
                                int n, struct err *e);
