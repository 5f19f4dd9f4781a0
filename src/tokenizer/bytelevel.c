#include "tokenizer/bytelevel.h"
#include "tokenizer/utf8.h"

/* Printable Latin-1 characters are their own code points; the other bytes, in order, are U+0100 on.
 */
void bytelevel_init(struct bytelevel *b)
{
    int next = 256;
    for (int i = 0; i < BYTELEVEL_CODES; i++) b->byte[i] = -1;
    for (int i = 0; i < 256; i++) {
        bool printable = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xFF && i != 0xAD);
        b->code[i] = (int16_t)(printable ? i : next++);
        b->byte[b->code[i]] = (int16_t)i;
    }
}

enum status bytelevel_add_bytes(const struct bytelevel *b, const char *token, size_t n,
                                struct buf *out, bool *inside, struct err *e)
{
    PASS(buf_reserve(out, n, e));
    size_t start = out->n;
    *inside = true;
    for (size_t i = 0; i < n; i += (size_t)utf8_length(token[i])) {
        int32_t code = utf8_get(token + i);
        if (code >= BYTELEVEL_CODES || b->byte[code] < 0) {
            out->n = start;
            *inside = false;
            break;
        }
        out->data[out->n++] = (char)b->byte[code];
    }
    out->data[out->n] = 0;
    return OK;
}
