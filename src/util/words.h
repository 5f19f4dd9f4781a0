/* words: lists of words in one text; endings; choices. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if the n bytes at `word` are a whole word of the list, whose words are separated by one of
 * the characters of `separators`. */
bool words_have(const char *list, const char *separators, const char *word, size_t n);
/* Whether the text ends with that, and has more before it. */
bool words_end(const char *text, const char *ending);

/* --- "KEY=PATTERN", which of labelled things are meant, as --only takes them --- */

/* The pattern of a choice for that key; NULL: the choice is of another key. */
const char *choice_pattern(const char *choice, const char *key);
/* Whether one of the n choices is of that key. */
bool choices_name(const char *const *choices, int64_t n, const char *key);
/* Whether all of the n choices of that key take the value. */
bool choices_take(const char *const *choices, int64_t n, const char *key, const char *value);
