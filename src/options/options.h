/* options: a table of keys from which all handling of settings is made.
 *
 * A line of a table has a key's name, type, offset in its struct, default, range and meaning. It
 * drives reading and checking (YAML, JSON, --set, flags), defaults, the JSON form, the listing of
 * `qtraj options`, and freeing. A new key is one line of a table and one field of its struct. */
#pragma once
#include "options/node.h"
#include <math.h>
#include <stdio.h>

enum option_type {
    OPTION_BOOL,   /* bool */
    OPTION_INT,    /* int64_t */
    OPTION_REAL,   /* double, finite */
    OPTION_CHOICE, /* int: index into choices */
    OPTION_TEXT,   /* char *, NULL when not given */
    OPTION_PATH,   /* char *, resolved */
    OPTION_TEXTS,  /* char *, one or several of them, one a line */
    OPTION_PATHS,  /* the same, resolved */
    OPTION_INTS,   /* int64_t array inside the struct, all different */
    OPTION_REALS,  /* double array inside the struct */
    OPTION_GROUP,  /* a struct inside the struct */
    OPTION_KEYS,   /* like GROUP, but its keys are keys of the parent table */
    OPTION_BOXED,  /* like KEYS, but of a struct that a pointer is to; without `required`, `with` */
    OPTION_LIST    /* pointer to an array of structs */
};

struct option_table;

/* A value of an INT outside its range, and the word that it is written as (NULL: its digits). */
struct option_special {
    int64_t value;
    const char *word;
};
enum { OPTION_SPECIALS_MAX = 2 };

struct option {
    const char *name, *doc;
    const char *unit; /* of a number, such as "tokens"; NULL: it has none */
    enum option_type type;
    size_t offset;
    size_t count;          /* INTS, REALS, LIST: offset of the int64_t number of elements */
    int64_t capacity;      /* INTS, REALS: maximum number of elements */
    bool required;         /* must be given */
    const char *fallback;  /* the default as text; NULL: none (NULL, 0 elements) */
    const char *otherwise; /* the listing's words for the default */
    int64_t low, high;     /* INT, INTS: range of a value; LIST: of the number of entries */
    int n_special;         /* INT: values outside the range */
    struct option_special special[OPTION_SPECIALS_MAX];
    double minimum, maximum;    /* REAL, REALS */
    const char *const *choices; /* CHOICE: NULL after the last */
    bool file_only;             /* no flag */
    /* It has an effect only with these keys of its table, separated by blanks: "text" is given (not
     * null, false, 0 or the first word), "plane=random|trajectory" is one of these words; and
     * "models[].stage" of the root is given by an entry of that list (the last here). A flag
     * without them is an error, and so is a key that would change its default or its preset's,
     * unless --set has taken them from it. NULL: with any. */
    const char *with;
    bool later; /* results are older than it: in their keys only where it is not the default */
    const char *unset;                /* BOOL: the flag that makes it false; NULL: "no-" + name */
    const struct option_table *table; /* GROUP, KEYS, BOXED, LIST; without keys: ignored */
};

/* A line of a table: key and member of struct ENTRY with the same name, type, meaning, and further
 * fields as designators. OPTION_AT: the key has another name than the member. */
#define OPTION(entry, member, kind, ...) OPTION_AT(#member, entry, member, kind, __VA_ARGS__)
#define OPTION_AT(key, entry, member, kind, meaning, ...)                                          \
    {                                                                                              \
        .name = key, .type = OPTION_##kind, .offset = offsetof(struct entry, member),              \
        .doc = meaning, __VA_ARGS__                                                                \
    }
/* Ranges that take every INT, every finite REAL, every length of a LIST. */
#define OPTION_ANY_INT  .low = INT64_MIN, .high = INT64_MAX
#define OPTION_ANY_REAL .minimum = -HUGE_VAL, .maximum = HUGE_VAL
/* A LIST: the member that counts it, the table of its entries. */
#define OPTION_ENTRIES(entry, member, of)                                                          \
    .count = offsetof(struct entry, member), .table = (of), .high = INT64_MAX
/* An INT's value outside its range and the word for it (NULL: none), or two of them. */
#define OPTION_SPECIAL(value, text)            .n_special = 1, .special = {{value, text}}
#define OPTION_SPECIAL_2(a, text_a, b, text_b) .n_special = 2, .special = {{a, text_a}, {b, text_b}}

/* Whether its keys are keys of the table that it is in. */
static inline bool option_is_keys(const struct option *o)
{
    return o->type == OPTION_KEYS || o->type == OPTION_BOXED;
}

/* Whether its value is a char *. */
bool option_is_text(const struct option *o);

/* The location of a value in the settings. */
struct option_scope {
    const struct option_scope *up; /* NULL: the root */
    const char *name;              /* key; NULL at the root and for an element of a list */
    int64_t index;                 /* of an element */
    const struct node *node;       /* NULL: not in the source */
    const struct option_source *source;
};

struct option_source {
    enum status code;   /* of errors in the settings: ERR_USAGE or ERR_FORMAT */
    const char *folder; /* paths are relative to it, and ${VAR} is expanded; NULL: paths are already
                           resolved */
    bool whole;         /* keys are there whether they have an effect or not */
    json_t *paths;      /* gets the place of each path that is read, {PATH: "FILE:LINE:COLUMN: KEY",
                           ...}; NULL: nobody asks */
    const void *context; /* for the tables' own functions */
};

/* The scope of a key of a mapping, and of entry i of a list; both borrow the scope above. */
struct option_scope options_in(const struct option_scope *scope, const char *key);
struct option_scope options_entry(const struct option_scope *list, int64_t i);

struct option_table {
    const struct option *options;
    int64_t n;
    size_t size; /* of the struct */
    /* Before the keys of one entry are read: defaults that depend on what is written elsewhere. May
     * be NULL. */
    enum status (*begin)(void *entry, const struct option_scope *scope, struct err *e);
    /* After the keys of one entry are read: checks between keys, defaults that depend on others.
     * May be NULL. */
    enum status (*finish)(void *entry, const struct option_scope *scope, struct err *e);
    /* Whether the entry is empty; an empty GROUP is not in the JSON form. May be NULL. */
    bool (*absent)(const void *entry);
    /* Frees what no key describes; may be NULL. */
    void (*release)(void *entry);
};

/* The members of a table that name the array of its keys and the struct. */
#define OPTION_ROWS(rows, entry)                                                                   \
    .options = (rows), .n = sizeof(rows) / sizeof *(rows), .size = sizeof(struct entry)

/* Fills *out from a mapping. On failure *out is zeroed and owns nothing. source->code with place,
 * the key's full name, what was expected and the nearest known key; ERR_NOMEM. */
MUST_USE enum status options_read(const struct option_table *t, const struct node *node,
                                  const struct option_source *source, void *out, struct err *e);
/* Fills *out (size bytes) with the defaults, which own nothing: texts are NULL, lists empty. */
void options_default(const struct option_table *t, void *out);
/* Frees what *out owns and zeroes it. */
void options_free(const struct option_table *t, void *out);

/* *to = a deep copy, owned by the caller (options_free); for tables without lists, BOXED and
 * release. ERR_NOMEM. */
MUST_USE enum status options_copy(const struct option_table *t, const void *from, void *to,
                                  struct err *e);

/* The key of that name, also inside OPTION_KEYS; NULL: none. *base is the offset of the struct that
 * holds its value inside the table's struct. */
const struct option *options_find(const struct option_table *t, const char *name, size_t *base);

/* Whether all that the key goes with is there; else name and word of the first that is not (word is
 * "" where it only has to be given). */
enum { OPTION_WITH = 64 };
bool option_has_effect(const struct option_table *t, const struct option *o, const void *entry,
                       char name[OPTION_WITH], char word[OPTION_WITH]);

/* Reads the scope's node into the option's member of *entry (for flags and table cells). Errors: as
 * of options_read. */
MUST_USE enum status options_read_value(const struct option *o, const struct option_scope *scope,
                                        void *entry, struct err *e);

/* An error at a key of the scope's mapping (NULL or not written: at the mapping itself). Returns
 * the source's code. */
MUST_USE enum status options_fail(const struct option_scope *scope, const char *key, struct err *e,
                                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A new object, keys in the table's order, without keys that are not set; without memory, parts may
 * be missing (json_whole). options_to_key: also without `later` keys that are the default. */
json_t *options_to_json(const struct option_table *t, const void *entry);
json_t *options_to_key(const struct option_table *t, const void *entry);

/* options_read of a JSON object; ERR_FORMAT. */
MUST_USE enum status options_from_json(const struct option_table *t, const json_t *json, void *out,
                                       struct err *e);

/* Takes the flag at argv[0]: "--PREFIXname value", "--PREFIXname=value", or for a bool
 * "--PREFIXname" and its opposite; underscores of names are hyphens. Groups and lists have no
 * flags. *used = arguments taken, 0: not a flag of this table. ERR_USAGE names the flag and what
 * was expected; ERR_NOMEM. */
MUST_USE enum status options_flag(const struct option_table *t, const char *prefix, void *entry,
                                  int argc, char **argv, int *used, struct err *e);
/* Whether `arg` ("--PREFIXname" or "--PREFIXname=value") is a flag of the table. */
bool options_has_flag(const struct option_table *t, const char *prefix, const char *arg);
/* ERR_USAGE: the flag `arg`, which has been taken, is one of this table and has no effect without
 * another that is not given (struct option.with). */
MUST_USE enum status options_flag_check(const struct option_table *t, const char *prefix,
                                        const void *entry, const char *arg, struct err *e);
/* Calls `take` for each flag of the table, in its order. opposite: of a bool the flag that makes it
 * false, else NULL. */
void options_list_flags(const struct option_table *t, const char *prefix,
                        void (*take)(void *context, const struct option *o, const char *flag,
                                     const char *opposite),
                        void *context);
/* Appends every key to a JSON list, an object each with all that the table says of it. Keys are
 * named from the root: "SECTIONname", those of sections as in "run.threads" and "models[].name".
 * Without memory, some may be missing (json_whole). */
void options_describe_keys(const struct option_table *t, const char *section, json_t *list);
/* Lists the keys of a table without those of its sections: name, what it takes, unit, default,
 * meaning; in lines as wide as the terminal. */
void options_print_keys(const struct option_table *t, FILE *out);
/* The same of every key, by section. */
void options_print(const struct option_table *t, FILE *out);

enum { OPTION_EXPECTED = 200, OPTION_NAME = 160, OPTION_FLAG = 2 * OPTION_NAME };
enum { OPTION_PAGE = 80 }; /* columns of a listing that goes to no terminal */
/* The flag of a key: "--PREFIXname", underscores as hyphens. */
void option_flag_name(const char *prefix, const char *key, char name[OPTION_FLAG]);
/* "an integer from 2 to 8", "one of none, activation", ... */
void option_expected(const struct option *o, char text[OPTION_EXPECTED]);
/* text = an INT's digits or (returns true) the word of a special value. */
bool option_int_text(const struct option *o, int64_t value, char text[32]);

/* *out (owned by the caller) = `text` with ${VAR} expanded and, if it is relative, folder
 * prepended. ERR_USAGE names the variable. */
MUST_USE enum status option_path(const char *text, const char *folder, char **out, struct err *e);
