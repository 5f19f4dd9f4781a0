/* words: lists of words in one text. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* True if the n bytes at `word` are a whole word of the list, whose words are separated by one of
 * the characters of `separators`. */
bool words_have(const char *list, const char *separators, const char *word, size_t n);
