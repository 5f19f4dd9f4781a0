#include "eval/documents.h"
#include "eval/jsonline.h"
#include "eval/textfile.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* A small first batch, since calibration often wants a few documents of a large file; then larger
 * ones, so that all threads have work. */
enum { BATCH_FIRST = 1 << 20, BATCH_LAST = 32 << 20 };

struct document {
    const char *path;
    int64_t line; /* 0: a whole file */
    char *text;   /* raw: with a field it is a line of JSON */
    size_t n;
    int32_t *ids;
    int64_t n_ids;
};

struct batch {
    const struct data_options *options;
    const struct tokenizer *tokenizer;
    struct collector *collector;
    struct document *documents;
    int64_t n, capacity;
    size_t bytes, limit;
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

/* One document a sequence is a sample as its model was trained on it, so the tokenizer's own BOS
 * belongs to it; packed blocks are cut from one long text. */
static enum status encode(const struct batch *b, struct document *d, struct err *e)
{
    enum status st = OK;
    bool special = b->options->layout == LAYOUT_DOCUMENT;
    char *text = NULL;
    size_t n;
    if (d->line > 0) {
        TRY(jsonline_text(d->text, d->n, b->options->field, &text, &n, e));
        TRY(tokenizer_encode(b->tokenizer, text, n, special, &d->ids, &d->n_ids, e));
    } else
        TRY(tokenizer_encode(b->tokenizer, d->text, d->n, special, &d->ids, &d->n_ids, e));
done:
    free(text);
    if (st != OK && d->line > 0) err_prefix(e, "%s:%lld", d->path, (long long)d->line);
    if (st != OK && d->line == 0) err_prefix(e, "%s", d->path);
    return st;
}

/* Tokenises the batch and hands it on. Of several bad documents the first is reported, and none
 * when the limits are reached before it. */
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
    for (int64_t i = 0; i < first_bad && !b->collector->full; i++)
        TRY(collector_add(b->collector, b->documents[i].ids, b->documents[i].n_ids, e));
    if (failed != OK && !b->collector->full) {
        st = failed;
        if (e && e->code == OK) *e = bad;
    }
done:
    batch_clear(b);
    if (b->limit < BATCH_LAST) b->limit *= 2;
    return st;
}

/* Takes over text. */
static enum status push(struct batch *b, const char *path, int64_t line, char *text, size_t n,
                        struct err *e)
{
    enum status st = OK;
    TRY(mem_grow(&b->documents, b->n, &b->capacity, sizeof *b->documents, e));
    b->documents[b->n++] = (struct document){.path = path, .line = line, .text = text, .n = n};
    b->bytes += n;
    text = NULL;
    if (b->bytes >= b->limit) TRY(flush(b, e));
done:
    free(text);
    return st;
}

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

static enum status push_lines(struct batch *b, const char *path, struct textfile *f, struct err *e)
{
    enum status st = OK;
    const char *line;
    size_t n;
    int64_t number;
    while (!b->collector->full) {
        TRY(textfile_line(f, &line, &n, &number, e));
        if (!line) break;
        if (number == 1 && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) { /* a BOM */
            line += 3;
            n -= 3;
        }
        if (is_blank(line, n)) continue;
        char *copy;
        TRY(mem_alloc(&copy, (int64_t)n, 1, path, e));
        memcpy(copy, line, n);
        TRY(push(b, path, number, copy, n, e));
    }
done:
    return st;
}

static enum status push_file(struct batch *b, const char *path, struct err *e)
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
done:
    textfile_close(f);
    return st;
}

enum status documents_load(char *const *paths, int64_t n_paths, const struct tokenizer *t,
                           struct collector *c, struct err *e)
{
    enum status st = OK;
    struct batch b = {.options = c->options, .tokenizer = t, .collector = c, .limit = BATCH_FIRST};
    for (int64_t i = 0; i < n_paths && !c->full; i++) TRY(push_file(&b, paths[i], e));
    TRY(flush(&b, e));
done:
    batch_clear(&b);
    free(b.documents);
    return st;
}
