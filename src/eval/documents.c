#include "eval/documents.h"
#include "eval/jsonline.h"
#include "eval/textfile.h"
#include "tokenizer/utf8.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/rng.h"

/* Bytes of text per batch. The first batch is small, since calibration often needs a few documents
 * of a large file; each next one is twice as large, so that all threads have work. */
enum { BATCH_FIRST = 1 << 20, BATCH_LAST = 32 << 20 };

/* Fewer documents than this are kept beside those that a draw has for now. */
enum { DRAWN_SPARE = 1024 };

struct document {
    const char *path;
    int64_t line; /* 0: a whole file */
    bool parsed;  /* text is the document, not a line of JSON */
    char *text;
    size_t n;
    int32_t *ids;
    int64_t n_ids, replaced; /* replaced: ill-formed UTF-8 sequences of the text */
    uint64_t place;          /* in the order of a draw */
};

struct batch {
    const struct data_options *options;
    const struct tokenizer *tokenizer;
    struct collector *collector;
    struct document *documents;
    int64_t n, capacity;
    size_t bytes, limit;
    int64_t pushed;          /* documents so far */
    int64_t left;            /* bytes that are still to be read; with options->bytes */
    uint64_t last;           /* no document behind this place is drawn */
    int64_t drawn;           /* those that are, at least */
    const char *replaced_in; /* the file of the last document, */
    int64_t replaced;        /* and the ill-formed sequences replaced in it so far */
};

static void clear(struct batch *b, int64_t from)
{
    for (int64_t i = from; i < b->n; i++) {
        free(b->documents[i].text);
        free(b->documents[i].ids);
    }
    b->n = from;
}

static void batch_free(struct batch *b)
{
    clear(b, 0);
    free(b->documents);
}

static enum status name_place(const struct document *d, enum status st, struct err *e)
{
    if (st != OK && d->line > 0) err_prefix(e, "%s:%lld", d->path, (long long)d->line);
    if (st != OK && d->line == 0) err_prefix(e, "%s", d->path);
    return st;
}

static enum status parse(const struct batch *b, struct document *d, struct err *e)
{
    char *own = NULL;
    size_t n;
    if (d->parsed) return OK;
    d->parsed = true;
    if (d->line == 0) {
        d->replaced = utf8_count_ill_formed(d->text, d->n); /* the tokenizer replaces them */
        return OK;
    }
    PASS(name_place(d, jsonline_text(d->text, d->n, b->options->field, &own, &n, &d->replaced, e),
                    e));
    free(d->text);
    d->text = own;
    d->n = n;
    return OK;
}

static enum status encode(const struct batch *b, struct document *d, struct err *e)
{
    return name_place(
        d, tokenizer_encode(b->tokenizer, d->text, d->n, false, &d->ids, &d->n_ids, e), e);
}

/* Does that with the first n documents; the number of those before the first bad one, whose error
 * is *bad. */
static int64_t each(struct batch *b, int64_t n,
                    enum status (*work)(const struct batch *, struct document *, struct err *),
                    struct err *bad)
{
    int64_t first_bad = n;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        struct err mine = {0};
        if (work(b, &b->documents[i], &mine) != OK) err_first(bad, &first_bad, i, &mine);
    }
    return first_bad;
}

/* Of the first n documents the number that is read, the last of them cut. */
static int64_t cut(struct batch *b, int64_t n)
{
    for (int64_t i = 0; b->options->bytes && i < n; i++) {
        struct document *d = &b->documents[i];
        const bool whole = (int64_t)d->n <= b->left;
        if (b->left == 0) return i;
        if (!whole) d->n = (size_t)b->left;
        while (!whole && d->n > 0 && ((unsigned char)d->text[d->n] & 0xC0) == 0x80) d->n--;
        b->left = whole ? b->left - (int64_t)d->n : 0;
    }
    return n;
}

/* Warns once per file: at the first document of the next file, and at the end. */
static void report_replaced(struct batch *b)
{
    if (b->replaced > 0)
        log_warn("%s: %lld invalid UTF-8 sequences replaced", b->replaced_in,
                 (long long)b->replaced);
    b->replaced = 0;
}

static bool is_read(const struct batch *b)
{
    return b->collector->full || (b->options->bytes && b->left == 0);
}

/* Tokenizes the batch and adds it to the collector. Of several bad documents the first is reported,
 * and none when the collector is full or all bytes are read before it. */
static enum status flush(struct batch *b, struct err *e)
{
    enum status st = OK;
    struct err bad = {0};
    const int64_t parsed = each(b, b->n, parse, &bad);
    int64_t n = cut(b, parsed);
    if (n < parsed || is_read(b)) err_clear(&bad);
    n = each(b, n, encode, &bad);
    for (int64_t i = 0; i < n && !b->collector->full; i++) {
        const struct document *d = &b->documents[i];
        if (d->path != b->replaced_in) report_replaced(b);
        b->replaced_in = d->path;
        b->replaced += d->replaced;
        TRY(collector_add(b->collector, d->ids, d->n_ids, e));
    }
    if (bad.code != OK && !b->collector->full) {
        st = bad.code;
        if (e && e->code == OK) *e = bad;
    }
done:
    clear(b, 0);
    b->bytes = 0;
    if (b->limit < BATCH_LAST) b->limit *= 2;
    return st;
}

/* --- draws --- */

static int by_place(const void *a, const void *b)
{
    const struct document *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Keeps the first documents in the order of the draw, as many as are asked for. */
static void trim(struct batch *b)
{
    const struct data_options *o = b->options;
    int64_t n = 0, bytes = 0;
    if (b->n == 0) return;
    qsort(b->documents, (size_t)b->n, sizeof *b->documents, by_place);
    while (n < b->n && (!o->documents || n < o->documents) && (!o->bytes || bytes < o->bytes))
        bytes += (int64_t)b->documents[n++].n;
    if ((o->documents && n == o->documents) || (o->bytes && bytes >= o->bytes))
        b->last = b->documents[n - 1].place;
    clear(b, n);
    b->drawn = n;
}

/* Adds a document, whose text it owns from here on. */
static enum status push(struct batch *b, const char *path, int64_t line, char *text, size_t n,
                        struct err *e)
{
    AUTO_FREE char *owned = text;
    /* a stream far from those that the same seed gives to other uses */
    const uint64_t stream = rng_stream((uint64_t)b->options->draw, (uint64_t)1 << 49);
    const uint64_t place = rng_bits(stream, (uint64_t)b->pushed++);
    if (b->options->draw && place > b->last) return OK;
    PASS(mem_grow(&b->documents, b->n, &b->capacity, sizeof *b->documents, e));
    b->documents[b->n++] =
        (struct document){.path = path, .line = line, .text = TAKE(owned), .n = n, .place = place};
    if (b->options->draw) {
        PASS(parse(b, &b->documents[b->n - 1], e));
        if (b->n >= 2 * b->drawn + DRAWN_SPARE) trim(b);
        return OK;
    }
    b->bytes += n;
    return b->bytes >= b->limit ? flush(b, e) : OK;
}

static bool wants_more(const struct batch *b)
{
    int64_t limit = b->options->documents;
    return b->options->draw || (!is_read(b) && (limit == 0 || b->pushed < limit));
}

static enum status push_lines(struct batch *b, const char *path, struct textfile *f, struct err *e)
{
    const char *line;
    size_t n;
    int64_t number;
    while (wants_more(b)) {
        PASS(textfile_line(f, &line, &n, &number, e));
        if (!line) break;
        if (number == 1 && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) { /* a BOM */
            line += 3;
            n -= 3;
        }
        if (textfile_is_blank(line, n)) continue;
        char *copy;
        PASS(mem_alloc(&copy, (int64_t)n, 1, path, e));
        memcpy(copy, line, n);
        PASS(push(b, path, number, copy, n, e));
    }
    return OK;
}

static enum status push_file(struct batch *b, const char *path, int64_t most, char *hash,
                             struct err *e)
{
    CLEANUP(textfile_close_at) struct textfile *f = NULL;
    char *text;
    size_t n;
    PASS(textfile_open(path, &f, e));
    textfile_end_at(f, most);
    if (b->options->field)
        PASS(push_lines(b, path, f, e));
    else {
        PASS(textfile_rest(f, &text, &n, e));
        PASS(push(b, path, 0, text, n, e));
    }
    if (hash) PASS(textfile_hash(f, hash, e));
    return OK;
}

enum status documents_load(char *const *paths, int64_t n_paths, int64_t last,
                           const struct tokenizer *t, struct collector *c, char (*hashes)[HASH_HEX],
                           struct err *e)
{
    CLEANUP(batch_free)
    struct batch b = {.options = c->options,
                      .tokenizer = t,
                      .collector = c,
                      .limit = BATCH_FIRST,
                      .left = c->options->bytes,
                      .last = UINT64_MAX};
    for (int64_t i = 0; i < n_paths; i++) {
        char *hash = hashes ? hashes[i] : NULL;
        if (wants_more(&b))
            PASS(push_file(&b, paths[i], i + 1 < n_paths ? INT64_MAX : last, hash, e));
        else if (hash)
            PASS(hash_file(paths[i], hash, e));
    }
    if (c->options->draw) trim(&b);
    PASS(flush(&b, e));
    report_replaced(&b);
    return OK;
}
