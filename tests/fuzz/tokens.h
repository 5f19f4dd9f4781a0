/* tokens: what the two targets over tokenizers share. */
#pragma once
#include "tokenizer/tokenizer.h"

/* Encodes the text with and without special tokens, and decodes the ids again. `sound`: a published
 * kind of tokenizer, for which nothing may fail. */
void tokens_exercise(const struct tokenizer *t, const char *text, size_t n, bool sound);
