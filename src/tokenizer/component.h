/* component: the parts of a tokenizer.json that have a "type" (normalizer, pre_tokenizer,
 * post_processor, decoder), and their typed members. `where` names the part in messages, as in
 * "pre_tokenizer Split". */
#pragma once
#include "util/json.h"

/* How one of the four parts is read. */
struct component {
    const char *where;        /* "pre_tokenizer" */
    const char *list;         /* member of a Sequence that holds its components */
    const char *const *types; /* supported types besides Sequence; NULL after the last */
    /* Before each component, Sequences included; NULL: nothing. */
    enum status (*check)(const void *out, const char *type, struct err *e);
    /* Reads o, whose type is types[type], into out. */
    enum status (*read)(void *out, int type, const json_t *o, struct err *e);
};

/* Reads the components of value, which may be NULL or null (none), in order; Sequences are
 * flattened. ERR_FORMAT: no object, no type, Sequences nested too deep; ERR_USAGE: a type that is
 * not supported, by name; what check and read return. */
MUST_USE enum status component_read(const struct component *c, const json_t *value, void *out,
                                    struct err *e);

/* The members below: ERR_FORMAT when one is missing or of another type. Texts and arrays are
 * borrowed from o. */

/* A member that may be missing or null: then *value = otherwise. */
MUST_USE enum status component_bool(const json_t *o, const char *where, const char *key,
                                    bool otherwise, bool *value, struct err *e);

/* A string, UTF-8, of *n bytes. */
MUST_USE enum status component_text(const json_t *o, const char *where, const char *key,
                                    const char **text, size_t *n, struct err *e);

/* A string of one character. */
MUST_USE enum status component_character(const json_t *o, const char *where, const char *key,
                                         const char **text, size_t *n, struct err *e);

/* An integer in 0..max. */
MUST_USE enum status component_int(const json_t *o, const char *where, const char *key, int64_t max,
                                   int64_t *value, struct err *e);

/* A list, borrowed. */
MUST_USE enum status component_array(const json_t *o, const char *where, const char *key,
                                     const json_t **array, struct err *e);

/* "pattern": {"String": text} or {"Regex": text}. */
MUST_USE enum status component_pattern(const json_t *o, const char *where, const char **text,
                                       size_t *n, bool *regex, struct err *e);

/* A text that replaces another. */
struct replacement {
    char *from, *to; /* owned, each followed by a NUL */
    size_t n_from, n_to;
};
/* "pattern" (a String, not empty) and "content". ERR_USAGE for a Regex; ERR_NOMEM. */
MUST_USE enum status component_replacement(const json_t *o, const char *where,
                                           struct replacement *out, struct err *e);

/* The steps of a normalizer or decoder. Zero-initialise. */
struct steps {
    struct step {
        int kind; /* index of its type in the component */
        struct replacement text;
        int64_t start, stop; /* Strip: at most so many at either end */
        bool drops_first;    /* Metaspace: none at the start of the first token */
    } * step;
    int64_t n, cap;
    double growth; /* times longer that all of them may make a text; 0 at first */
};

/* *out = one more step of that kind, to be filled before the next; borrowed. ERR_NOMEM. */
MUST_USE enum status steps_add(struct steps *s, int kind, struct step **out, struct err *e);

/* Counts the last step, which writes up to n_to bytes for n_from read: a few hundred bytes of steps
 * that double a text would else fill the memory. ERR_USAGE: more than 16 steps, or 64 times. */
MUST_USE enum status steps_count(struct steps *s, const char *where, size_t n_from, size_t n_to,
                                 struct err *e);

/* Frees the steps and their texts. */
void steps_free(struct steps *s);
