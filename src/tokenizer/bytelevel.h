/* bytelevel: GPT-2's alphabet, which writes every byte of a text as one printable character, so
 * that a vocabulary of strings can contain any bytes. */
#pragma once
#include "tokenizer/buf.h"

enum { BYTELEVEL_CODES = 324 }; /* larger than all code points of the alphabet */

struct bytelevel {
    int16_t code[256];             /* byte to code point */
    int16_t byte[BYTELEVEL_CODES]; /* code point to byte; -1: not in the alphabet */
};

/* Fills both tables. Source: bytes_to_unicode of openai/gpt-2, encoder.py. */
void bytelevel_init(struct bytelevel *b);

/* Appends the bytes that the token (n bytes of well-formed UTF-8) stands for to out. *inside =
 * false, and nothing is appended, when a character is not in the alphabet. ERR_NOMEM. */
MUST_USE enum status bytelevel_add_bytes(const struct bytelevel *b, const char *token, size_t n,
                                         struct buf *out, bool *inside, struct err *e);
