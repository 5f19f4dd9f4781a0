/* choice: "KEY=PATTERN", which of labelled things are meant, as --only takes them. PATTERN is that
 * of a shell: *, ?, [...]. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* The pattern of a choice for that key; NULL: the choice is of another key. */
const char *choice_pattern(const char *choice, const char *key);
/* Whether one of the n choices is of that key. */
bool choices_name(const char *const *choices, int64_t n, const char *key);
/* Whether all of the n choices of that key take the value. */
bool choices_take(const char *const *choices, int64_t n, const char *key, const char *value);
