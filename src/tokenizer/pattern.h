/* pattern: the regular expressions of pre-tokenizers, written for Oniguruma, matched by PCRE2.
 *
 * Which characters are letters and digits is decided by PCRE2's tables (10.42: Unicode 14); for
 * the few digits and letters that a newer Unicode adds, ids may differ from the library's. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pattern;

/* Compiles a regular expression (or, with literal, a plain string). Shorthands whose meaning
 * differs between the two libraries are rewritten to Oniguruma's. ERR_USAGE for syntax that means
 * something else in Oniguruma and is not rewritten, ERR_FORMAT for a pattern that does not compile,
 * ERR_NOMEM. */
MUST_USE enum status pattern_compile(const char *text, size_t n, bool literal, struct pattern **out,
                                     struct err *e);
void pattern_free(struct pattern *p);

/* What one thread needs to match any pattern. ERR_NOMEM. */
struct pattern_work;
MUST_USE enum status pattern_work_new(struct pattern_work **out, struct err *e);
void pattern_work_free(struct pattern_work *w);

/* The first match in the well-formed UTF-8 text s at or after byte `from`: *start < 0 when there is
 * none. Thread-safe, each thread with its own work. ERR_NUMERIC when the matcher gives up, which it
 * does after a number of steps that grows with n - from: a pattern that explodes ends in time. */
MUST_USE enum status pattern_find(const struct pattern *p, struct pattern_work *w, const char *s,
                                  size_t n, size_t from, int64_t *start, int64_t *end,
                                  struct err *e);
