#include "tokenizer/decode.h"
#include "tokenizer/utf8.h"
#include "util/mem.h"

/* The order of `types`. */
enum { BYTE_LEVEL, REPLACE, BYTE_FALLBACK, FUSE, STRIP, METASPACE };

/* ---- reading ---- */

static enum status read_character(struct replacement *r, const json_t *o, const char *where,
                                  const char *key, struct err *e)
{
    const char *text;
    PASS(component_character(o, where, key, &text, &r->n_from, e));
    return bytes_copy(&r->from, text, r->n_from, "decoder", e);
}

static enum status read_metaspace(struct step *s, const json_t *o, struct err *e)
{
    bool prefix;
    PASS(read_character(&s->text, o, "decoder Metaspace", "replacement", e));
    PASS(bytes_copy(&s->text.to, " ", s->text.n_to = 1, "decoder", e));
    PASS(component_bool(o, "decoder Metaspace", "add_prefix_space", true, &prefix, e));
    s->drops_first = strcmp(json_text(o, "prepend_scheme", prefix ? "always" : "never"), "never");
    return OK;
}

static enum status read_step(void *out, int type, const json_t *o, struct err *e)
{
    struct step *s;
    PASS(steps_add(out, type, &s, e));
    if (type == REPLACE) PASS(component_replacement(o, "decoder Replace", &s->text, e));
    if (type == STRIP) {
        PASS(read_character(&s->text, o, "decoder Strip", "content", e));
        PASS(component_int(o, "decoder Strip", "start", INT32_MAX, &s->start, e));
        PASS(component_int(o, "decoder Strip", "stop", INT32_MAX, &s->stop, e));
    }
    if (type == METASPACE) PASS(read_metaspace(s, o, e));
    bool replaces = type == REPLACE;
    return steps_count(out, "decoder", replaces ? s->text.n_from : 1, replaces ? s->text.n_to : 1,
                       e);
}

enum status decoder_read(struct decoder *d, const json_t *value, struct err *e)
{
    static const char *const types[] = {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip",
                                        "Metaspace", NULL};
    static const struct component component = {
        .where = "decoder", .list = "decoders", .types = types, .read = read_step};
    bytelevel_init(&d->alphabet);
    d->present = value && !json_is_null(value);
    return component_read(&component, value, &d->steps, e);
}

/* ---- lists of strings ---- */

/* Makes what was appended to the text since the last string one more string. */
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

/* Joins the bytes of all tokens. A token with characters outside the alphabet is an added token and
 * is copied. */
static enum status do_byte_level(const struct decoder *d, const struct strings *in,
                                 struct strings *out, struct err *e)
{
    CLEANUP(buf_free) struct buf bytes = {0};
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        bool inside;
        PASS(bytelevel_add_bytes(&d->alphabet, s, n, &bytes, &inside, e));
        if (!inside) PASS(buf_add(&bytes, s, n, e));
    }
    PASS(utf8_add_replaced(&out->text, bytes.data, bytes.n, e));
    return strings_close(out, e);
}

/* The value of "<0x41>", or -1 for other tokens. */
static int fallback_byte(const char *s, size_t n)
{
    return n == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>' ? utf8_hex(s + 3, 2) : -1;
}

/* Appends a run of bytes: one string if it is valid UTF-8, else one U+FFFD per byte. */
static enum status flush_bytes(struct buf *run, struct strings *out, struct err *e)
{
    if (run->n == 0) return OK;
    if (utf8_valid_prefix(run->data, run->n) == run->n)
        PASS(strings_add(out, run->data, run->n, e));
    else
        for (size_t i = 0; i < run->n; i++) PASS(strings_add(out, "\xEF\xBF\xBD", 3, e));
    run->n = 0;
    return OK;
}

static enum status do_byte_fallback(const struct strings *in, struct strings *out, struct err *e)
{
    CLEANUP(buf_free) struct buf run = {0};
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        int value = fallback_byte(s, n);
        if (value >= 0) {
            char byte = (char)value;
            PASS(buf_add(&run, &byte, 1, e));
            continue;
        }
        PASS(flush_bytes(&run, out, e));
        PASS(strings_add(out, s, n, e));
    }
    return flush_bytes(&run, out, e);
}

static enum status strip_one(const struct step *step, const char *s, size_t n, struct strings *out,
                             struct err *e)
{
    size_t m = step->text.n_from;
    for (int64_t i = 0; i < step->start && n >= m && memcmp(s, step->text.from, m) == 0; i++) {
        s += m;
        n -= m;
    }
    for (int64_t i = 0; i < step->stop && n >= m && memcmp(s + n - m, step->text.from, m) == 0; i++)
        n -= m;
    return strings_add(out, s, n, e);
}

/* Steps that turn one token into one. */
static enum status do_each(const struct step *step, const struct strings *in, struct strings *out,
                           struct err *e)
{
    const struct replacement *r = &step->text;
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        if (step->kind == STRIP) {
            PASS(strip_one(step, s, n, out, e));
            continue;
        }
        bool drops = step->kind == METASPACE && i == 0 && step->drops_first;
        PASS(buf_add_replaced(&out->text, s, n, r->from, r->n_from, r->to, drops ? 0 : r->n_to, e));
        PASS(strings_close(out, e));
    }
    return OK;
}

static enum status apply_step(const struct decoder *d, const struct step *step,
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
    for (int64_t i = 0; i < in->n; i++) {
        size_t n;
        const char *s = strings_get(in, i, &n);
        if (i > 0) PASS(buf_add(&out->text, " ", 1, e));
        PASS(buf_add(&out->text, s, n, e));
    }
    return OK;
}

enum status decoder_apply(const struct decoder *d, struct strings *tokens, struct err *e)
{
    CLEANUP(strings_free) struct strings out = {0};
    struct strings swap;
    for (int64_t i = 0; i < d->steps.n + !d->present; i++) {
        out.n = 0;
        out.text.n = 0;
        if (d->present)
            PASS(apply_step(d, &d->steps.step[i], tokens, &out, e));
        else
            PASS(join_with_spaces(tokens, &out, e));
        swap = *tokens;
        *tokens = out;
        out = swap;
    }
    return buf_reserve(&tokens->text, 0, e);
}

enum status decoder_token_bytes(const struct decoder *d, const char *s, size_t n, int32_t *bytes,
                                struct err *e)
{
    CLEANUP(buf_free) struct buf text = {0}, next = {0};
    struct buf swap;
    bool inside;
    PASS(buf_add(&text, s, n, e));
    for (int64_t i = 0; i < d->steps.n; i++) {
        const struct step *step = &d->steps.step[i];
        next.n = 0;
        if (step->kind == BYTE_LEVEL) {
            PASS(bytelevel_add_bytes(&d->alphabet, text.data, text.n, &next, &inside, e));
            if (!inside) continue;
        } else if (step->kind == BYTE_FALLBACK) {
            if (fallback_byte(text.data, text.n) < 0) continue;
            PASS(buf_add(&next, "?", 1, e)); /* any one byte */
        } else if (step->kind == REPLACE || step->kind == METASPACE) {
            const struct replacement *r = &step->text;
            PASS(buf_add_replaced(&next, text.data, text.n, r->from, r->n_from, r->to, r->n_to, e));
        } else {
            continue; /* Fuse changes nothing; Strip only acts at the ends of a text */
        }
        swap = text;
        text = next;
        next = swap;
    }
    *bytes = text.n < INT32_MAX ? (int32_t)text.n : INT32_MAX;
    return OK;
}
