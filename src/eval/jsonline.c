#include "eval/jsonline.h"
#include "tokenizer/utf8.h"
#include <string.h>

/* Integers as reals: a 64-bit unsigned id in another field is no reason to stop. */
enum { LENIENT = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };

/* Value of the four hex digits behind "\u" at s, -1 if they are not there. */
static int escape_value(const char *s, const char *end)
{
    return end - s >= 6 && s[0] == '\\' && s[1] == 'u' ? utf8_hex(s + 2, 4) : -1;
}

static bool is_high(int code)
{
    return code >= 0xd800 && code < 0xdc00;
}

static bool is_low(int code)
{
    return code >= 0xdc00 && code < 0xe000;
}

/* Writes \ufffd over every \u escape that is half of a surrogate pair; returns how many. */
static int64_t replace_lone_surrogates(char *s, char *end)
{
    int64_t replaced = 0;
    while (s < end) {
        if (*s != '\\') {
            s++;
            continue;
        }
        int code = escape_value(s, end);
        if (is_high(code) && is_low(escape_value(s + 6, end))) {
            s += 12;
            continue;
        }
        if (is_high(code) || is_low(code)) {
            memcpy(s + 2, "fffd", 4);
            replaced++;
        }
        s += code >= 0 ? 6 : 2;
    }
    return replaced;
}

enum status jsonline_object(const char *line, size_t size, json_t **out, int64_t *replaced,
                            struct err *e)
{
    CLEANUP(buf_free) struct buf mended = {0};
    json_error_t error;
    json_auto_t *root = json_loadb(line, size, LENIENT, &error);
    *replaced = 0;
    *out = NULL;
    if (!root) {
        PASS(utf8_add_replaced(&mended, line, size, e));
        *replaced = utf8_count_ill_formed(line, size) +
                    replace_lone_surrogates(mended.data, mended.data + mended.n);
        root = json_loadb(mended.data, mended.n, LENIENT, &error);
    }
    NEED(root, ERR_FORMAT, "not JSON: column %d: %s", error.column, error.text);
    NEED(json_is_object(root), ERR_FORMAT, "not a JSON object");
    *out = json_incref(root);
    return OK;
}

enum status jsonline_text(const char *line, size_t size, const char *field, char **text, size_t *n,
                          int64_t *replaced, struct err *e)
{
    json_auto_t *root = NULL;
    char fields[JSON_KEYS];
    PASS(jsonline_object(line, size, &root, replaced, e));
    const json_t *value = json_object_get(root, field);
    if (!value) json_keys(root, fields);
    NEED(value, ERR_FORMAT, "no field \"%s\" (its fields: %s)", field, fields);
    NEED(json_is_string(value), ERR_FORMAT, "field \"%s\" is not a string", field);
    *n = json_string_length(value);
    return bytes_copy(text, json_string_value(value), *n, "text of a document", e);
}
