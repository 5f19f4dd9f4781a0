#include "tokenizer/normalize.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct normalizer_step {
    enum { NFC, PREPEND, REPLACE } kind;
    char *from, *to; /* owned; PREPEND puts `to` in front */
    size_t n_from, n_to;
};

/* A copy with a NUL behind it. */
static enum status copy_text(char **out, const char *s, size_t n, struct err *e)
{
    enum status st = mem_alloc(out, (int64_t)n + 1, 1, "normalizer", e);
    if (st != OK) return st;
    memcpy(*out, s, n);
    (*out)[n] = 0;
    return OK;
}

static enum status read_prepend(struct normalizer_step *s, const json_t *o, struct err *e)
{
    enum status st = OK;
    const char *text;
    s->kind = PREPEND;
    TRY(component_text(o, "normalizer Prepend", "prepend", &text, &s->n_to, e));
    TRY(copy_text(&s->to, text, s->n_to, e));
done:
    return st;
}

static enum status read_replace(struct normalizer_step *s, const json_t *o, struct err *e)
{
    enum status st = OK;
    const char *from, *to;
    bool regex;
    s->kind = REPLACE;
    TRY(component_pattern(o, "normalizer Replace", &from, &s->n_from, &regex, e));
    ENSURE(!regex, ERR_USAGE, "normalizer Replace: a Regex pattern is not supported");
    ENSURE(s->n_from > 0, ERR_FORMAT, "normalizer Replace: the pattern is empty");
    TRY(component_text(o, "normalizer Replace", "content", &to, &s->n_to, e));
    TRY(copy_text(&s->from, from, s->n_from, e));
    TRY(copy_text(&s->to, to, s->n_to, e));
done:
    return st;
}

static enum status read_one(struct normalizer *z, const json_t *o, const char *type, struct err *e)
{
    enum status st = OK;
    TRY(mem_grow(&z->step, z->n, &z->cap, sizeof *z->step, e));
    struct normalizer_step *s = &z->step[z->n++];
    *s = (struct normalizer_step){.kind = NFC};
    if (strcmp(type, "NFC") == 0)
        return component_step(z->n - 1, &z->growth, "normalizer", 1, 1, e);
    if (strcmp(type, "Prepend") == 0)
        TRY(read_prepend(s, o, e));
    else if (strcmp(type, "Replace") == 0)
        TRY(read_replace(s, o, e));
    else
        FAIL(ERR_USAGE, "normalizer %s is not supported (NFC, Prepend, Replace, Sequence are)",
             type);
    /* in front of a single byte, the worst case */
    TRY(component_step(z->n - 1, &z->growth, "normalizer", s->n_from ? s->n_from : 1,
                       s->n_from ? s->n_to : 1 + s->n_to, e));
done:
    return st;
}

static enum status read_any(struct normalizer *z, const json_t *o, int depth, struct err *e)
{
    enum status st = OK;
    const char *type;
    const json_t *list;
    TRY(component_type(o, "normalizer", &type, e));
    if (strcmp(type, "Sequence") != 0) return read_one(z, o, type, e);
    ENSURE(depth < COMPONENT_DEPTH, ERR_FORMAT, "normalizer: Sequences nested too deep");
    TRY(component_array(o, "normalizer Sequence", "normalizers", &list, e));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_any(z, json_array_get(list, i), depth + 1, e));
done:
    return st;
}

enum status normalizer_read(struct normalizer *z, const json_t *value, struct err *e)
{
    return !value || json_is_null(value) ? OK : read_any(z, value, 0, e);
}

void normalizer_free(struct normalizer *z)
{
    for (int64_t i = 0; i < z->n; i++) {
        free(z->step[i].from);
        free(z->step[i].to);
    }
    free(z->step);
}

/* Bytes of the stretch of text that begins at s and needs the Unicode tables: it ends before an
 * ASCII character that is followed by another one, since no ASCII character joins what precedes it.
 */
static size_t stretch_length(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && !((signed char)s[i] >= 0 && (i + 1 == n || (signed char)s[i + 1] >= 0))) i++;
    return i;
}

static enum status add_composed(struct buf *out, const char *s, size_t n, struct err *e)
{
    enum status st = OK;
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &made,
                                           UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    ENSURE(length >= 0, ERR_NOMEM, "Unicode normalisation: %s", utf8proc_errmsg(length));
    TRY(buf_add(out, (const char *)made, (size_t)length, e));
done:
    free(made);
    return st;
}

/* ASCII passes through; each other stretch, with the ASCII character in front of it (which may take
 * a mark), goes through the tables. */
static enum status compose(struct buf *out, const char *s, size_t n, struct err *e)
{
    enum status st = OK;
    size_t i = 0;
    while (i < n) {
        size_t start = i;
        while (i < n && (signed char)s[i] >= 0) i++;
        if (i < n && i > start) i--;
        TRY(buf_add(out, s + start, i - start, e));
        size_t stretch = stretch_length(s + i, n - i);
        if (stretch) TRY(add_composed(out, s + i, stretch, e));
        i += stretch;
    }
done:
    return st;
}

static enum status replace(struct buf *out, const char *s, size_t n,
                           const struct normalizer_step *step, struct err *e)
{
    enum status st = OK;
    const char *end = s + n, *hit;
    while ((hit = memmem(s, (size_t)(end - s), step->from, step->n_from))) {
        TRY(buf_add(out, s, (size_t)(hit - s), e));
        TRY(buf_add(out, step->to, step->n_to, e));
        s = hit + step->n_from;
    }
    TRY(buf_add(out, s, (size_t)(end - s), e));
done:
    return st;
}

static enum status apply_step(const struct normalizer_step *step, struct buf *out, const char *s,
                              size_t n, struct err *e)
{
    enum status st = OK;
    switch (step->kind) {
    case NFC:
        TRY(compose(out, s, n, e));
        break;
    case REPLACE:
        TRY(replace(out, s, n, step, e));
        break;
    case PREPEND:
        if (n) TRY(buf_add(out, step->to, step->n_to, e));
        TRY(buf_add(out, s, n, e));
        break;
    }
done:
    return st;
}

enum status normalizer_apply(const struct normalizer *z, const char *s, size_t n, struct buf *out,
                             struct buf *spare, struct err *e)
{
    enum status st = OK;
    out->n = 0;
    TRY(buf_reserve(out, n + n / 8, e));
    if (z->n == 0) TRY(buf_add(out, s, n, e));
    for (int64_t i = 0; i < z->n; i++) {
        if (i > 0) { /* the result so far becomes the source of the next step */
            struct buf swap = *out;
            *out = *spare;
            *spare = swap;
            s = spare->data;
            n = spare->n;
            out->n = 0;
        }
        TRY(apply_step(&z->step[i], out, s, n, e));
    }
    TRY(buf_reserve(out, 0, e));
done:
    return st;
}
