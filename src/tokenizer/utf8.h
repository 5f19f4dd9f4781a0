/* utf8: checks and repairs UTF-8, and looks at single characters. */
#pragma once
#include "tokenizer/buf.h"

/* Bytes of the well-formed character at s (n > 0 bytes are left), or minus the bytes of the
 * maximal ill-formed subpart there (Unicode 15, table 3-7 and section 3.9). */
int utf8_step(const char *s, size_t n);

/* Number of leading bytes that are well-formed UTF-8. */
size_t utf8_valid_prefix(const char *s, size_t n);

/* Appends the text to out with every maximal ill-formed subpart replaced by U+FFFD, as Python's
 * errors="replace" and Rust's from_utf8_lossy do. ERR_NOMEM. */
MUST_USE enum status utf8_add_replaced(struct buf *out, const char *s, size_t n, struct err *e);

/* Number of such subparts. */
int64_t utf8_count_ill_formed(const char *s, size_t n);

/* Code point of the well-formed character at s. */
int32_t utf8_get(const char *s);

/* Writes the character as 1 to 4 bytes to out and returns how many. */
int utf8_put(int32_t code, char out[4]);

/* Value of n hexadecimal digits; -1 when a character is none. */
int utf8_hex(const char *s, int n);

/* Bytes of a well-formed character, from its first byte. */
static inline int utf8_length(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Bytes of the last character of well-formed s (n > 0). */
int utf8_last_length(const char *s, size_t n);

/* Whether a character has Unicode's property White_Space; whether the regular expression \w matches
 * it (Alphabetic, marks, decimal digits, connectors, joiners). */
bool utf8_is_space(int32_t code);
bool utf8_is_word(int32_t code);
