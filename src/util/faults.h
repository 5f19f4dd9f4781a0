/* faults: what is wrong, each said once with the first that it concerns and the number of others.
 * Local. */
#pragma once
#include "util/err.h"

/* Zero-initialise. */
struct fault {
    const char *noun;        /* what `who` is, in the singular; static */
    char *who, *text, *last; /* who: "" if text says it; last: the last that it was added for */
    int64_t more;            /* others of which it is true */
};
struct faults {
    int64_t n, capacity;
    struct fault *all; // (n) in the order in which they came
};
void faults_free(struct faults *f);
/* Adds what is wrong with `who`, a noun (static, in the singular); the same text about another
 * counts there. ERR_NOMEM. */
MUST_USE enum status faults_add(struct faults *f, const char *noun, const char *who,
                                const char *text, struct err *e);
/* *line (the caller frees) = "WHO: TEXT (3 more NOUNs likewise)". ERR_NOMEM. */
MUST_USE enum status faults_line(const struct faults *f, int64_t i, char **line, struct err *e);
/* Says each line by log_warn or another of util/log.h. ERR_NOMEM. */
MUST_USE enum status faults_say(const struct faults *f, void (*say)(const char *fmt, ...),
                                struct err *e);
