#include "tokenizer/utf8.h"
#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

/* Whether the second byte is in the range that the first one asks for: table 3-7 of the standard.
 */
static bool second_fits(unsigned char first, unsigned char second)
{
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

int utf8_step(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) return 1;
    if (u[0] < 0xC2 || u[0] > 0xF4) return -1;
    int want = utf8_length(s[0]);
    if (n < 2 || !second_fits(u[0], u[1])) return -1;
    for (int i = 2; i < want; i++)
        if ((size_t)i >= n || (u[i] & 0xC0) != 0x80) return -i;
    return want;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (i + 8 <= n) {
            memcpy(&eight, s + i, 8);
            if (!(eight & 0x8080808080808080u)) {
                i += 8;
                continue;
            }
        }
        int step = utf8_step(s + i, n - i);
        if (step < 0) break;
        i += (size_t)step;
    }
    return i;
}

enum status utf8_add_replaced(struct buf *out, const char *s, size_t n, struct err *e)
{
    size_t i = 0;
    PASS(buf_reserve(out, n, e));
    while (i < n) {
        size_t good = utf8_valid_prefix(s + i, n - i);
        PASS(buf_add(out, s + i, good, e));
        i += good;
        if (i == n) break;
        PASS(buf_add(out, "\xEF\xBF\xBD", 3, e));
        i += (size_t)-utf8_step(s + i, n - i);
    }
    return OK;
}

int64_t utf8_count_ill_formed(const char *s, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; (i += utf8_valid_prefix(s + i, n - i)) < n; count++)
        i += (size_t)-utf8_step(s + i, n - i);
    return count;
}

int32_t utf8_get(const char *s)
{
    utf8proc_int32_t code;
    utf8proc_iterate((const utf8proc_uint8_t *)s, utf8_length(s[0]), &code);
    return code;
}

int utf8_hex(const char *s, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        const char c = s[i];
        if (!isxdigit((unsigned char)c)) return -1;
        value = 16 * value + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

int utf8_put(int32_t code, char out[4])
{
    return (int)utf8proc_encode_char(code, (utf8proc_uint8_t *)out);
}

int utf8_last_length(const char *s, size_t n)
{
    int length = 1;
    while ((size_t)length < n && ((unsigned char)s[n - (size_t)length] & 0xC0) == 0x80) length++;
    return length;
}

bool utf8_is_space(int32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    if (code == 0x85) return true;
    utf8proc_category_t c = utf8proc_category(code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

/* Other_Alphabetic characters that are neither letters nor marks: circled and squared letters. */
static bool is_letter_symbol(int32_t c)
{
    return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool utf8_is_word(int32_t code)
{
    utf8proc_category_t c = utf8proc_category(code); /* in order: letters, marks, Nd, Nl, No, Pc */
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC ||
           is_letter_symbol(code) || code == 0x200C || code == 0x200D;
}
