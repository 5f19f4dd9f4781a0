/* tokens: common code of the two tokenizer targets. */
#pragma once
#include "tokenizer/tokenizer.h"

/* Encodes the text with and without special tokens, and decodes the ids again. `sound`: a published
 * tokenizer, for which nothing may fail. */
void tokens_exercise(const struct tokenizer *t, const char *text, size_t n, bool sound);
