#include "tokenizer/decode.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

struct decoder_step {
    enum { BYTE_LEVEL, REPLACE, BYTE_FALLBACK, FUSE, STRIP, METASPACE } kind;
    char *from, *to; /* owned. REPLACE; METASPACE and STRIP: `from` is the character */
    size_t n_from, n_to;
    int64_t start, stop; /* STRIP: at most so many at either end */
    bool drops_first;    /* METASPACE: none at the start of the first token */
};

/* ---- reading ---- */

static enum status copy_member(const json_t *o, const char *where, const char *key, char **out,
                               size_t *n, struct err *e)
{
    enum status st = OK;
    const char *text;
    TRY(component_text(o, where, key, &text, n, e));
    TRY(mem_alloc(out, (int64_t)*n + 1, 1, "decoder", e));
    memcpy(*out, text, *n + 1);
done:
    return st;
}

static enum status read_byte_level(struct decoder_step *s, const json_t *o, struct err *e)
{
    (void)o, (void)e;
    s->kind = BYTE_LEVEL;
    return OK;
}

static enum status read_byte_fallback(struct decoder_step *s, const json_t *o, struct err *e)
{
    (void)o, (void)e;
    s->kind = BYTE_FALLBACK;
    return OK;
}

static enum status read_fuse(struct decoder_step *s, const json_t *o, struct err *e)
{
    (void)o, (void)e;
    s->kind = FUSE;
    return OK;
}

static enum status read_replace(struct decoder_step *s, const json_t *o, struct err *e)
{
    enum status st = OK;
    const char *text;
    bool regex;
    s->kind = REPLACE;
    TRY(component_pattern(o, "decoder Replace", &text, &s->n_from, &regex, e));
    ENSURE(!regex, ERR_USAGE, "decoder Replace: a Regex pattern is not supported");
    ENSURE(s->n_from > 0, ERR_FORMAT, "decoder Replace: the pattern is empty");
    TRY(mem_alloc(&s->from, (int64_t)s->n_from + 1, 1, "decoder", e));
    memcpy(s->from, text, s->n_from + 1);
    TRY(copy_member(o, "decoder Replace", "content", &s->to, &s->n_to, e));
done:
    return st;
}

static enum status read_strip(struct decoder_step *s, const json_t *o, struct err *e)
{
    enum status st = OK;
    s->kind = STRIP;
    TRY(copy_member(o, "decoder Strip", "content", &s->from, &s->n_from, e));
    ENSURE(s->n_from > 0 && s->n_from == (size_t)utf8_length(s->from[0]), ERR_FORMAT,
           "decoder Strip: \"content\" must be one character");
    TRY(component_int(o, "decoder Strip", "start", INT32_MAX, &s->start, e));
    TRY(component_int(o, "decoder Strip", "stop", INT32_MAX, &s->stop, e));
done:
    return st;
}

static enum status read_metaspace(struct decoder_step *s, const json_t *o, struct err *e)
{
    enum status st = OK;
    bool prefix;
    s->kind = METASPACE;
    TRY(copy_member(o, "decoder Metaspace", "replacement", &s->from, &s->n_from, e));
    ENSURE(s->n_from > 0 && s->n_from == (size_t)utf8_length(s->from[0]), ERR_FORMAT,
           "decoder Metaspace: \"replacement\" must be one character");
    TRY(component_bool(o, "decoder Metaspace", "add_prefix_space", true, &prefix, e));
    s->drops_first = strcmp(json_text(o, "prepend_scheme", prefix ? "always" : "never"), "never");
done:
    return st;
}

static const struct {
    const char *type;
    enum status (*read)(struct decoder_step *s, const json_t *o, struct err *e);
} types[] = {
    {"ByteLevel", read_byte_level},
    {"Replace", read_replace},
    {"ByteFallback", read_byte_fallback},
    {"Fuse", read_fuse},
    {"Strip", read_strip},
    {"Metaspace", read_metaspace},
};

static enum status read_any(struct decoder *d, const json_t *o, int depth, struct err *e)
{
    enum status st = OK;
    const char *type;
    const json_t *list;
    TRY(component_type(o, "decoder", &type, e));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].type) == 0) {
            TRY(mem_grow(&d->step, d->n, &d->cap, sizeof *d->step, e));
            struct decoder_step *s = &d->step[d->n++];
            *s = (struct decoder_step){0};
            TRY(types[i].read(s, o, e));
            bool replaces = s->kind == REPLACE;
            return component_step(d->n - 1, &d->growth, "decoder", replaces ? s->n_from : 1,
                                  replaces ? s->n_to : 1, e);
        }
    ENSURE(strcmp(type, "Sequence") == 0, ERR_USAGE,
           "decoder %s is not supported (ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, "
           "Sequence are)",
           type);
    ENSURE(depth < COMPONENT_DEPTH, ERR_FORMAT, "decoder: Sequences nested too deep");
    TRY(component_array(o, "decoder Sequence", "decoders", &list, e));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_any(d, json_array_get(list, i), depth + 1, e));
done:
    return st;
}

enum status decoder_read(struct decoder *d, const json_t *value, struct err *e)
{
    bytelevel_init(&d->alphabet);
    d->present = value && !json_is_null(value);
    return d->present ? read_any(d, value, 0, e) : OK;
}

void decoder_free(struct decoder *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        free(d->step[i].from);
        free(d->step[i].to);
    }
    free(d->step);
}

/* ---- lists of strings ---- */

/* What was put behind the last string becomes one more string. */
static enum status strings_close(struct strings *l, struct err *e)
{
    enum status st = mem_grow(&l->end, l->n, &l->cap, sizeof *l->end, e);
    if (st == OK) l->end[l->n++] = l->text.n;
    return st;
}

enum status strings_add(struct strings *l, const char *s, size_t n, struct err *e)
{
    enum status st = buf_add(&l->text, s, n, e);
    return st == OK ? strings_close(l, e) : st;
}

void strings_free(struct strings *l)
{
    buf_free(&l->text);
    free(l->end);
}

static const char *strings_get(const struct strings *l, int64_t i, size_t *n)
{
    size_t from = i ? l->end[i - 1] : 0;
    *n = l->end[i] - from;
    return l->text.data + from;
}

/* ---- steps: in is read, out is filled ---- */

/* The bytes of all tokens make one text. A token with characters outside the alphabet is an added
 * token and stands for itself. */
static enum status do_byte_level(const struct decoder *d, const struct strings *in,
                                 struct strings *out, struct err *e)
{
    enum status st = OK;
    struct buf bytes = {0};
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        bool inside;
        TRY(bytelevel_add_bytes(&d->alphabet, s, n, &bytes, &inside, e));
        if (!inside) TRY(buf_add(&bytes, s, n, e));
    }
    TRY(utf8_add_replaced(&out->text, bytes.data, bytes.n, e));
    TRY(strings_close(out, e));
done:
    buf_free(&bytes);
    return st;
}

static enum status add_replaced(const struct decoder_step *step, const char *s, size_t n,
                                const char *to, size_t n_to, struct buf *out, struct err *e)
{
    enum status st = OK;
    const char *end = s + n, *hit;
    while ((hit = memmem(s, (size_t)(end - s), step->from, step->n_from))) {
        TRY(buf_add(out, s, (size_t)(hit - s), e));
        TRY(buf_add(out, to, n_to, e));
        s = hit + step->n_from;
    }
    TRY(buf_add(out, s, (size_t)(end - s), e));
done:
    return st;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The value of "<0x41>", or -1 for other tokens. */
static int fallback_byte(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* A run of bytes is one string if it is valid UTF-8, else one U+FFFD a byte. */
static enum status flush_bytes(struct buf *run, struct strings *out, struct err *e)
{
    enum status st = OK;
    if (run->n == 0) return OK;
    if (utf8_valid_prefix(run->data, run->n) == run->n)
        TRY(strings_add(out, run->data, run->n, e));
    else
        for (size_t i = 0; i < run->n; i++) TRY(strings_add(out, "\xEF\xBF\xBD", 3, e));
    run->n = 0;
done:
    return st;
}

static enum status do_byte_fallback(const struct strings *in, struct strings *out, struct err *e)
{
    enum status st = OK;
    struct buf run = {0};
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        int value = fallback_byte(s, n);
        if (value >= 0) {
            char byte = (char)value;
            TRY(buf_add(&run, &byte, 1, e));
            continue;
        }
        TRY(flush_bytes(&run, out, e));
        TRY(strings_add(out, s, n, e));
    }
    TRY(flush_bytes(&run, out, e));
done:
    buf_free(&run);
    return st;
}

static enum status strip_one(const struct decoder_step *step, const char *s, size_t n,
                             struct strings *out, struct err *e)
{
    size_t m = step->n_from;
    for (int64_t i = 0; i < step->start && n >= m && memcmp(s, step->from, m) == 0; i++) {
        s += m;
        n -= m;
    }
    for (int64_t i = 0; i < step->stop && n >= m && memcmp(s + n - m, step->from, m) == 0; i++)
        n -= m;
    return strings_add(out, s, n, e);
}

/* Steps that turn one token into one. */
static enum status do_each(const struct decoder_step *step, const struct strings *in,
                           struct strings *out, struct err *e)
{
    enum status st = OK;
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        if (step->kind == STRIP) {
            TRY(strip_one(step, s, n, out, e));
            continue;
        }
        const char *to = step->kind == REPLACE ? step->to : " ";
        size_t n_to = step->kind == REPLACE ? step->n_to : i == 0 && step->drops_first ? 0 : 1;
        TRY(add_replaced(step, s, n, to, n_to, &out->text, e));
        TRY(strings_close(out, e));
    }
done:
    return st;
}

static enum status apply_step(const struct decoder *d, const struct decoder_step *step,
                              const struct strings *in, struct strings *out, struct err *e)
{
    switch (step->kind) {
    case BYTE_LEVEL:
        return do_byte_level(d, in, out, e);
    case BYTE_FALLBACK:
        return do_byte_fallback(in, out, e);
    case FUSE:
        return strings_add(out, in->text.data, in->text.n, e);
    default:
        return do_each(step, in, out, e);
    }
}

static enum status join_with_spaces(const struct strings *in, struct strings *out, struct err *e)
{
    enum status st = OK;
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        if (i > 0) TRY(buf_add(&out->text, " ", 1, e));
        TRY(buf_add(&out->text, s, n, e));
    }
done:
    return st;
}

enum status decoder_apply(const struct decoder *d, struct strings *tokens, struct err *e)
{
    enum status st = OK;
    struct strings out = {0}, swap;
    for (int64_t i = 0; i < d->n + !d->present; i++) {
        out.n = 0;
        out.text.n = 0;
        if (d->present)
            TRY(apply_step(d, &d->step[i], tokens, &out, e));
        else
            TRY(join_with_spaces(tokens, &out, e));
        swap = *tokens;
        *tokens = out;
        out = swap;
    }
    TRY(buf_reserve(&tokens->text, 0, e));
done:
    strings_free(&out);
    return st;
}

enum status decoder_token_bytes(const struct decoder *d, const char *s, size_t n, int32_t *bytes,
                                struct err *e)
{
    enum status st = OK;
    struct buf text = {0}, next = {0}, swap;
    bool inside;
    TRY(buf_add(&text, s, n, e));
    for (int64_t i = 0; i < d->n; i++) {
        const struct decoder_step *step = &d->step[i];
        next.n = 0;
        if (step->kind == BYTE_LEVEL) {
            TRY(bytelevel_add_bytes(&d->alphabet, text.data, text.n, &next, &inside, e));
            if (!inside) continue;
        } else if (step->kind == BYTE_FALLBACK) {
            if (fallback_byte(text.data, text.n) < 0) continue;
            TRY(buf_add(&next, "?", 1, e)); /* any one byte */
        } else if (step->kind == REPLACE) {
            TRY(add_replaced(step, text.data, text.n, step->to, step->n_to, &next, e));
        } else if (step->kind == METASPACE) {
            TRY(add_replaced(step, text.data, text.n, " ", 1, &next, e));
        } else {
            continue; /* Fuse changes nothing; Strip only acts at the ends of a text */
        }
        swap = text;
        text = next;
        next = swap;
    }
    *bytes = text.n < INT32_MAX ? (int32_t)text.n : INT32_MAX;
done:
    buf_free(&text);
    buf_free(&next);
    return st;
}
