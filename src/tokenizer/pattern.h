/* pattern: the regular expressions of pre-tokenizers, which are written for Oniguruma, matched by
 * PCRE2.
 *
 * PCRE2's tables (10.42: Unicode 14) decide which characters are letters and digits; for the few
 * that a newer Unicode adds, ids may differ from those of the library. */
#pragma once
#include "util/err.h"

struct pattern;

/* Compiles a regular expression of n bytes (literal: a plain string); a NUL must follow it. *out is
 * freed with pattern_free. Shorthands such as \s that differ between the two libraries are
 * rewritten to what Oniguruma means. ERR_USAGE for other syntax that differs; ERR_FORMAT for a
 * pattern that does not compile; ERR_NOMEM. */
MUST_USE enum status pattern_compile(const char *text, size_t n, bool literal, struct pattern **out,
                                     struct err *e);
void pattern_free(struct pattern *p);
CLEANUP_BY_VALUE(struct pattern, pattern_free);

/* Working memory of one thread, for all patterns. ERR_NOMEM. */
struct pattern_work;
MUST_USE enum status pattern_work_new(struct pattern_work **out, struct err *e);
void pattern_work_free(struct pattern_work *w);
CLEANUP_BY_VALUE(struct pattern_work, pattern_work_free);

/* [*start, *end) = the first match in the well-formed UTF-8 text s at or after byte `from`; *start
 * < 0 when there is none. Thread-safe when each thread has its own work. ERR_NUMERIC when the
 * matcher gives up: its steps are limited in proportion to n - from, so that a pattern with
 * exponential backtracking ends; ERR_NOMEM. */
MUST_USE enum status pattern_find(const struct pattern *p, struct pattern_work *w, const char *s,
                                  size_t n, size_t from, int64_t *start, int64_t *end,
                                  struct err *e);
