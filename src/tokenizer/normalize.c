#include "tokenizer/normalize.h"
#include "util/mem.h"
#include <utf8proc.h>

/* The order of `types`. PREPEND puts `to` in front. */
enum { NFC, PREPEND, REPLACE };

static enum status read_step(void *out, int type, const json_t *o, struct err *e)
{
    struct step *s;
    const char *text;
    size_t from = 1, to = 1; /* at worst: bytes written for bytes read */
    PASS(steps_add(out, type, &s, e));
    if (type == PREPEND) {
        PASS(component_text(o, "normalizer Prepend", "prepend", &text, &s->text.n_to, e));
        PASS(bytes_copy(&s->text.to, text, s->text.n_to, "normalizer", e));
        to = 1 + s->text.n_to;
    } else if (type == REPLACE) {
        PASS(component_replacement(o, "normalizer Replace", &s->text, e));
        from = s->text.n_from;
        to = s->text.n_to;
    }
    return steps_count(out, "normalizer", from, to, e);
}

enum status normalizer_read(struct steps *z, const json_t *value, struct err *e)
{
    static const char *const types[] = {"NFC", "Prepend", "Replace", NULL};
    static const struct component component = {
        .where = "normalizer", .list = "normalizers", .types = types, .read = read_step};
    return component_read(&component, value, z, e);
}

static enum status add_composed(struct buf *out, const char *s, size_t n, struct err *e)
{
    AUTO_FREE utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &made,
                                           UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    NEED(length >= 0, ERR_NOMEM, "Unicode normalisation: %s", utf8proc_errmsg(length));
    return buf_add(out, (const char *)made, (size_t)length, e);
}

/* NFC. ASCII is copied; each other stretch goes through the Unicode tables, together with the ASCII
 * character in front of it, which may combine with a mark. */
static enum status compose(struct buf *out, const char *s, size_t n, struct err *e)
{
    size_t i = 0;
    while (i < n) {
        size_t start = i;
        while (i < n && (signed char)s[i] >= 0) i++;
        if (i < n && i > start) i--;
        PASS(buf_add(out, s + start, i - start, e));
        /* Up to an ASCII character that is followed by another one, since no ASCII character
         * combines with what precedes it. */
        for (start = i;
             i < n && !((signed char)s[i] >= 0 && (i + 1 == n || (signed char)s[i + 1] >= 0));)
            i++;
        if (i > start) PASS(add_composed(out, s + start, i - start, e));
    }
    return OK;
}

static enum status apply_step(const struct step *step, struct buf *out, const char *s, size_t n,
                              struct err *e)
{
    const struct replacement *r = &step->text;
    switch (step->kind) {
    case NFC:
        return compose(out, s, n, e);
    case REPLACE:
        return buf_add_replaced(out, s, n, r->from, r->n_from, r->to, r->n_to, e);
    case PREPEND:
        if (n) PASS(buf_add(out, r->to, r->n_to, e));
        PASS(buf_add(out, s, n, e));
    }
    return OK;
}

enum status normalizer_apply(const struct steps *z, const char *s, size_t n, struct buf *out,
                             struct buf *spare, struct err *e)
{
    out->n = 0;
    PASS(buf_reserve(out, n + n / 8, e));
    if (z->n == 0) PASS(buf_add(out, s, n, e));
    for (int64_t i = 0; i < z->n; i++) {
        if (i > 0) { /* the result so far becomes the source of the next step */
            struct buf swap = *out;
            *out = *spare;
            *spare = swap;
            s = spare->data;
            n = spare->n;
            out->n = 0;
        }
        PASS(apply_step(&z->step[i], out, s, n, e));
    }
    return buf_reserve(out, 0, e);
}
