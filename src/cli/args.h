/* args: flags of a command, from a table. "--name value" and "--name=value"; a switch takes no
 * value; a list may repeat. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum arg_type { ARG_SWITCH, ARG_TEXT, ARG_INTEGER, ARG_LIST };

struct arg_list {
    int64_t n, capacity;
    char **items; /* borrowed from argv */
};

struct arg {
    const char *name; /* with its dashes */
    enum arg_type type;
    void *to; /* bool *, const char **, int64_t *, struct arg_list * */
    const char *value, *doc;
};

struct args {
    const struct arg *table;
    int n;
    /* Flags that are not in the table are offered to this; *used = 0: not taken. May be NULL. */
    enum status (*other)(void *context, int argc, char **argv, int *used, struct err *e);
    void *context;
    void (*more)(FILE *out); /* prints those other flags for --help; may be NULL */
    bool silent;             /* another rank answers --help */
};

/* Parses argv[1..]; what is no flag goes into positional, between min and max of them. ERR_USAGE
 * names the flag and what was expected. --help prints the command's usage to stdout and sets *help.
 */
MUST_USE enum status args_parse(const struct args *a, const char *usage, int argc, char **argv,
                                const char **positional, int min, int max, int *n_positional,
                                bool *help, struct err *e);
void arg_list_free(struct arg_list *l);
