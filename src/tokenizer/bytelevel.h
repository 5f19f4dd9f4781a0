/* bytelevel: GPT-2's alphabet, in which every byte of text is one printable character, so that a
 * vocabulary of strings can hold any bytes. */
#pragma once
#include "tokenizer/buf.h"
#include <stdbool.h>

enum { BYTELEVEL_CODES = 324 }; /* the alphabet's code points lie below this one */

struct bytelevel {
    int16_t code[256];             /* byte to code point */
    int16_t byte[BYTELEVEL_CODES]; /* code point to byte, -1 for characters outside */
};

void bytelevel_init(struct bytelevel *b);

/* out += the bytes that the token (well-formed UTF-8) stands for; false, and nothing added, when a
 * character lies outside the alphabet. ERR_NOMEM. */
MUST_USE enum status bytelevel_add_bytes(const struct bytelevel *b, const char *token, size_t n,
                                         struct buf *out, bool *inside, struct err *e);
