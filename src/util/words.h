/* words: lists of words in one text; endings. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* True if the n bytes at `word` are a whole word of the list, whose words are separated by one of
 * the characters of `separators`. */
bool words_have(const char *list, const char *separators, const char *word, size_t n);
/* Whether the text ends with that, and has more before it. */
bool words_end(const char *text, const char *ending);
