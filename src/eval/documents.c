#include "eval/documents.h"
#include "eval/jsonline.h"
#include "eval/textfile.h"
#include "tokenizer/utf8.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of text per batch. The first batch is small, since calibration often needs a few documents
 * of a large file; each next one is twice as large, so that all threads have work. */
enum { BATCH_FIRST = 1 << 20, BATCH_LAST = 32 << 20 };

struct document {
    const char *path;
    int64_t line; /* 0: a whole file */
    char *text;   /* raw: with a field it is a line of JSON */
    size_t n;
    int32_t *ids;
    int64_t n_ids, replaced; /* replaced: ill-formed UTF-8 sequences of the text */
};

struct batch {
    const struct data_options *options;
    const struct tokenizer *tokenizer;
    struct collector *collector;
    struct document *documents;
    int64_t n, capacity;
    size_t bytes, limit;
    int64_t pushed;          /* documents so far */
    const char *replaced_in; /* the file of the last document, */
    int64_t replaced;        /* and the ill-formed sequences replaced in it so far */
};

static void batch_clear(struct batch *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        free(b->documents[i].text);
        free(b->documents[i].ids);
    }
    b->n = 0;
    b->bytes = 0;
}

static enum status encode(const struct batch *b, struct document *d, struct err *e)
{
    enum status st = OK;
    char *own = NULL;
    const char *text = d->text;
    size_t n = d->n;
    if (d->line > 0) {
        TRY(jsonline_text(d->text, d->n, b->options->field, &own, &n, &d->replaced, e));
        text = own;
    } else
        d->replaced = utf8_count_ill_formed(text, n); /* the tokenizer replaces them */
    TRY(tokenizer_encode(b->tokenizer, text, n, false, &d->ids, &d->n_ids, e));
done:
    free(own);
    if (st != OK && d->line > 0) err_prefix(e, "%s:%lld", d->path, (long long)d->line);
    if (st != OK && d->line == 0) err_prefix(e, "%s", d->path);
    return st;
}

/* Warns once per file: at the first document of the next file, and at the end. */
static void report_replaced(struct batch *b)
{
    if (b->replaced > 0)
        log_warn("%s: %lld invalid UTF-8 sequences replaced", b->replaced_in,
                 (long long)b->replaced);
    b->replaced = 0;
}

/* Tokenizes the batch and adds it to the collector. Of several bad documents the first is reported,
 * and none when the collector is full before it. */
static enum status flush(struct batch *b, struct err *e)
{
    enum status st = OK, failed = OK;
    int64_t first_bad = b->n;
    struct err bad = {0};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < b->n; i++) {
        struct err mine = {0};
        enum status result = encode(b, &b->documents[i], &mine);
        if (result == OK) continue;
#pragma omp critical(documents_error)
        if (i < first_bad) {
            first_bad = i;
            failed = result;
            bad = mine;
        }
    }
    for (int64_t i = 0; i < first_bad && !b->collector->full; i++) {
        const struct document *d = &b->documents[i];
        if (d->path != b->replaced_in) report_replaced(b);
        b->replaced_in = d->path;
        b->replaced += d->replaced;
        TRY(collector_add(b->collector, d->ids, d->n_ids, e));
    }
    if (failed != OK && !b->collector->full) {
        st = failed;
        if (e && e->code == OK) *e = bad;
    }
done:
    batch_clear(b);
    if (b->limit < BATCH_LAST) b->limit *= 2;
    return st;
}

/* Adds a document, whose text it owns from here on. */
static enum status push(struct batch *b, const char *path, int64_t line, char *text, size_t n,
                        struct err *e)
{
    enum status st = OK;
    TRY(mem_grow(&b->documents, b->n, &b->capacity, sizeof *b->documents, e));
    b->documents[b->n++] = (struct document){.path = path, .line = line, .text = text, .n = n};
    b->bytes += n;
    b->pushed++;
    text = NULL;
    if (b->bytes >= b->limit) TRY(flush(b, e));
done:
    free(text);
    return st;
}

static bool wants_more(const struct batch *b)
{
    int64_t limit = b->options->documents;
    return !b->collector->full && (limit == 0 || b->pushed < limit);
}

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
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
        if (is_blank(line, n)) continue;
        char *copy;
        PASS(mem_alloc(&copy, (int64_t)n, 1, path, e));
        memcpy(copy, line, n);
        PASS(push(b, path, number, copy, n, e));
    }
    return OK;
}

static enum status push_file(struct batch *b, const char *path, char hash[HASH_HEX], struct err *e)
{
    enum status st = OK;
    struct textfile *f = NULL;
    char *text;
    size_t n;
    TRY(textfile_open(path, &f, e));
    if (b->options->field)
        TRY(push_lines(b, path, f, e));
    else {
        TRY(textfile_rest(f, &text, &n, e));
        TRY(push(b, path, 0, text, n, e));
    }
    TRY(textfile_hash(f, hash, e));
done:
    textfile_close(f);
    return st;
}

enum status documents_load(char *const *paths, int64_t n_paths, const struct tokenizer *t,
                           struct collector *c, char (*hashes)[HASH_HEX], struct err *e)
{
    enum status st = OK;
    struct batch b = {.options = c->options, .tokenizer = t, .collector = c, .limit = BATCH_FIRST};
    for (int64_t i = 0; i < n_paths; i++)
        TRY(wants_more(&b) ? push_file(&b, paths[i], hashes[i], e)
                           : hash_file(paths[i], hashes[i], e));
    TRY(flush(&b, e));
    report_replaced(&b);
done:
    batch_clear(&b);
    free(b.documents);
    return st;
}
