/* args: the flags of a command, from a table. "--name value" and "--name=value"; a switch takes no
 * value, a list may be given several times, other flags once. */
#pragma once
#include "cli/cli.h"
#include "options/options.h"
#include "util/texts.h"

enum arg_type { ARG_SWITCH, ARG_TEXT, ARG_CHOICE, ARG_INTEGER, ARG_LIST };

/* One of some words. */
struct arg_choice {
    const char *const *words; /* NULL behind the last */
    const char *word;         /* the one that was given, NULL: none was */
};

struct arg {
    const char *name; /* with its hyphens */
    enum arg_type type;
    void *to; /* bool *, const char **, struct arg_choice *, int64_t *, struct texts * */
    const char *value, *doc; /* for --help; value: NULL for a switch */
};

/* A flag, and those without one of which it has no effect and is an error, separated by blanks. */
struct arg_with {
    const char *name, *with;
};

/* Keys of an options table that are flags as well (options_flag). */
struct arg_keys {
    const char *heading; /* stands above them in --help */
    const struct option_table *table;
    const char *prefix; /* of the flags: "", "calibration-", ... */
    void *to;           /* the table's struct */
    const char *with; /* of all of them, as in struct arg_with; NULL: they always have an effect */
};

struct args {
    const struct arg *table; // (n)
    int n, n_keys;
    const struct arg_keys *keys; // (n_keys)
    const struct arg_with *with; /* {NULL} behind the last; NULL: none */
    int optional;       /* so many of the last arguments that are no flags may be missing */
    struct texts *more; /* takes those behind the n of args_parse; NULL: there are none */
};

/* The members of struct args that say that arrays are the table and the keys. */
#define ARGS(rows)     .table = (rows), .n = sizeof(rows) / sizeof *(rows)
#define ARGS_KEYS(all) .keys = (all), .n_keys = sizeof(all) / sizeof *(all)

/* Parses the arguments of a call: flags, and exactly n others (or `more`), into positional (n,
 * borrowed; NULL: missing). --help or -h on any rank sets c->help and ignores the rest; rank 0
 * prints usage and flags. If c->flags is not NULL, *c->flags becomes a list of the flags (a new
 * reference) and c->help is set, no more: an object each with "name" ("--name"), "doc"; "value",
 * the word for its value, unless it is a switch; "opposite" of a switch that has one; "choices",
 * the values that there are; "heading" of the flags from it on. ERR_USAGE names the flag and what
 * was expected; ERR_NOMEM. */
MUST_USE enum status args_parse(const struct args *a, struct call *c, const char **positional,
                                int n, struct err *e);
