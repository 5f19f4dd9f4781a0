#include "eval/dataset.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_file.h"
#include "eval/collect.h"
#include "eval/documents.h"
#include "eval/draws.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* {a,b} in patterns is an extension of glibc and the BSDs. */
#ifndef GLOB_BRACE
#define GLOB_BRACE 0
#endif

/* The names that the alternatives {a,b} of a pattern make, which glob() writes out one by one; at
 * most NAMES_MAX + 1. *at moves to the end of the pattern or, in braces, to the closing one. */
enum { NAMES_MAX = 10000, BRACES_MAX = 32 };

static int64_t count_names(const char **at, int depth)
{
    int64_t all = 0, names = 1;
    if (depth > BRACES_MAX) return NAMES_MAX + 1;
    for (; **at && (depth == 0 || **at != '}'); ++*at) {
        if (**at == '\\' && (*at)[1]) {
            ++*at;
        } else if (**at == '{') {
            ++*at;
            names = min64(names * count_names(at, depth + 1), NAMES_MAX + 1);
            if (!**at) break;
        } else if (**at == ',' && depth > 0) {
            all += names;
            names = 1;
        }
    }
    return min64(all + names, NAMES_MAX + 1);
}

static enum status add_matches(struct texts *p, const char *pattern, struct err *e)
{
    CLEANUP(globfree) glob_t found = {0};
    int64_t first = p->n;
    const char *at = pattern;
    NEED(count_names(&at, 0) <= NAMES_MAX, ERR_USAGE,
         "%.200s: its alternatives {a,b} make more than %d names; use * or ?, or list the files",
         pattern, NAMES_MAX);
    int code = glob(pattern, GLOB_BRACE | GLOB_NOSORT, NULL, &found);
    NEED(code == 0 || code == GLOB_NOMATCH, code == GLOB_NOSPACE ? ERR_NOMEM : ERR_IO,
         "%s: the folder cannot be read", pattern);
    for (size_t i = 0; code == 0 && i < found.gl_pathc; i++)
        if (fsx_is_file(found.gl_pathv[i])) PASS(texts_append(p, found.gl_pathv[i], e));
    NEED(p->n > first, ERR_IO, "%.200s: no file matches", pattern);
    qsort(p->text + first, (size_t)(p->n - first), sizeof *p->text, name_compare);
    return OK;
}

/* The files that `text` names: for each line the file of that name or, when there is none, those
 * that match it as a pattern, sorted. */
static enum status text_paths(const char *text, struct texts *p, struct err *e)
{
    AUTO_FREE char *one = NULL;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        free(one);
        one = NULL;
        PASS(mem_format(&one, e, "%.*s", (int)n, text));
        if (fsx_is_file(one) || !strpbrk(one, "*?[{"))
            PASS(texts_append(p, one, e));
        else
            PASS(add_matches(p, one, e));
    }
    return OK;
}

/* Splits "FILE:KEY" at its last colon; the caller frees *file. */
static enum status split_ids(const char *ids, char **file, const char **key, struct err *e)
{
    const char *colon = strrchr(ids, ':');
    NEED(colon && colon != ids && colon[1] != '\0', ERR_USAGE, "%s: expected FILE.safetensors:KEY",
         ids);
    *key = colon + 1;
    return mem_format(file, e, "%.*s", (int)(colon - ids), ids);
}

enum status dataset_files(const struct data_options *d, struct texts *out, struct err *e)
{
    AUTO_FREE char *file = NULL;
    const char *key;
    NEED(d->text || d->ids, ERR_USAGE, "a data set has neither text nor ids");
    if (d->text) return text_paths(d->text, out, e);
    PASS(split_ids(d->ids, &file, &key, e));
    return texts_append(out, file, e);
}

void dataset_join_hashes(char (*hashes)[HASH_HEX], int64_t n, char hash[HASH_HEX])
{
    if (n == 1)
        memcpy(hash, hashes[0], HASH_HEX);
    else
        hash_bytes(hashes, (size_t)n * HASH_HEX, hash);
}

enum status dataset_hash(const struct data_options *d, char hash[33], struct err *e)
{
    CLEANUP(texts_free) struct texts p = {0};
    AUTO_FREE char(*all)[HASH_HEX] = NULL;
    PASS(dataset_files(d, &p, e));
    PASS(mem_zero(&all, p.n, sizeof *all, "digests", e));
    for (int64_t i = 0; i < p.n; i++) PASS(hash_file(p.text[i], all[i], e));
    dataset_join_hashes(all, p.n, hash);
    return OK;
}

/* *copy = the file's bytes in memory, and their digest: header and ids are read from it later. */
static enum status copy_file(const char *path, int *copy, char hash[HASH_HEX], struct err *e)
{
    AUTO_FREE char *data = NULL;
    size_t n;
    PASS(fsx_read(path, 0, &data, &n, e));
    hash_bytes(data, n, hash);
    NEED((*copy = memfd_create("ids", MFD_CLOEXEC)) >= 0, ERR_NOMEM, "%s: %s", path,
         strerror(errno));
    return fsx_write(*copy, path, data, n, e);
}

static enum status read_ids(const char *ids, const struct tensor_entry **entry,
                            struct safetensors *s, int32_t **values, char hash[HASH_HEX],
                            struct err *e)
{
    enum status st = OK;
    char *file = NULL, copied[64];
    const char *key = NULL;
    int copy = -1;
    TRY(split_ids(ids, &file, &key, e));
    TRY(copy_file(file, &copy, hash, e));
    snprintf(copied, sizeof copied, "/proc/self/fd/%d", copy);
    TRY(safetensors_open(copied, s, e));
    const struct tensor_entry *t = safetensors_find(s, key);
    ENSURE(t, ERR_FORMAT, "%s: no tensor %s", file, key);
    ENSURE(t->n_dims == 1 || t->n_dims == 2, ERR_FORMAT,
           "%s: tensor %s has %d dimensions, expected (sequences, length) or (length)", file, key,
           t->n_dims);
    TRY(mem_alloc(values, t->n_elements, sizeof **values, key, e));
    TRY(safetensors_read_i32(s, t, *values, e));
    for (int64_t i = 0; i < t->n_elements; i++)
        ENSURE((*values)[i] >= -1, ERR_FORMAT, "%s: tensor %s: id %d at element %lld is negative",
               file, key, (*values)[i], (long long)i);
    *entry = t;
done:
    if (copy >= 0) {
        err_rename(e, copied, file);
        close(copy);
    }
    free(file);
    return st;
}

/* Tokens of a row, without the -1s at its end. */
static enum status row_length(const struct collector *c, const int32_t *row, int64_t n,
                              int64_t *length, struct err *e)
{
    while (n > 0 && row[n - 1] < 0) n--;
    *length = n;
    for (int64_t i = 0; i < n; i++)
        NEED(row[i] >= 0, ERR_FORMAT,
             "%s: id -1 at position %lld of a row, with tokens after it: -1 may only fill up a "
             "row's "
             "end",
             c->options->ids, (long long)i);
    NEED(n > 0, ERR_FORMAT, "%s: a row without tokens", c->options->ids);
    return OK;
}

/* Each row is one sequence; a vector longer than `length` is one long text, cut into blocks as
 * packed text is. */
static enum status load_ids(struct collector *c, char hash[HASH_HEX], struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    AUTO_FREE int32_t *values = NULL;
    const struct tensor_entry *t = NULL;
    PASS(read_ids(c->options->ids, &t, &s, &values, hash, e));
    int64_t length = t->shape[t->n_dims - 1];
    int64_t limit = c->options->length;
    if (t->n_dims == 1 && limit > 0) length = min64(length, limit);
    c->all = t->n_elements;
    for (int64_t i = 0; length > 0 && i + length <= t->n_elements; i += length) {
        int64_t tokens;
        PASS(row_length(c, values + i, length, &tokens, e));
        if (c->options->within_positions) tokens = min64(tokens, limit);
        if (tokens < c->options->min_length)
            c->dropped++;
        else
            PASS(collector_add_sequence(c, values + i, tokens, e));
    }
    return OK;
}

/* start: NULL: all. */
static enum status load_text(struct collector *c, const struct tokenizer *t,
                             const struct text_start *start, char hash[HASH_HEX], struct err *e)
{
    CLEANUP(texts_free) struct texts p = {0};
    AUTO_FREE char(*all)[HASH_HEX] = NULL;
    NEED(t, ERR_USAGE, "text needs a tokenizer");
    PASS(text_paths(c->options->text, &p, e));
    PASS(collector_frame(c, t, e));
    PASS(mem_zero(&all, p.n, sizeof *all, "digests", e));
    const int64_t n = start ? min64(start->files, p.n) : p.n;
    PASS(documents_load(p.text, n, start ? start->bytes : INT64_MAX, t, c, all, e));
    PASS(collector_end(c, e));
    dataset_join_hashes(all, n, hash);
    return OK;
}

void dataset_name(const struct data_options *d, char text[DATASET_NAME])
{
    const char *all = d->text ? d->text : d->ids;
    int n = (int)strcspn(all, "\n"), more = 0;
    for (const char *p = all; *p; p++) more += *p == '\n';
    n = snprintf(text, DATASET_NAME, "%.*s", n < 250 ? n : 250, all);
    if (more) snprintf(text + n, DATASET_NAME - (size_t)n, " and %d more", more);
}

/* --- sequences shortened, sorted by length, and padded in batches --- */

struct arrangement {
    int64_t max_tokens; /* each sequence is cut to its first tokens; 0: not */
    bool by_length;     /* the longest first; the sort is stable */
    int64_t batch;  /* so many consecutive sequences are padded on the right to the length of the
                       longest of them; 0: no padding */
    int32_t pad_id; /* with this token */
};

struct place {
    int64_t length, index, padded;
};

static int longest_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Where each sequence goes, and its lengths; *tokens = all of them, padding included. */
static void place_all(const struct sequences *s, const struct arrangement *a, struct place *places,
                      int64_t *tokens)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = s->offset[i + 1] - s->offset[i];
        if (a->max_tokens > 0) length = min64(length, a->max_tokens);
        places[i] = (struct place){.length = length, .index = i};
    }
    if (a->by_length) qsort(places, (size_t)s->n, sizeof *places, longest_first);
    *tokens = 0;
    for (int64_t i = 0, batch = max64(a->batch, 1); i < s->n; i++) {
        int64_t first = i - i % batch;
        for (int64_t j = first; j < min64(s->n, first + batch); j++)
            places[i].padded = max64(places[i].padded, places[j].length);
        *tokens += places[i].padded;
    }
}

/* Arranges the sequences. Padding counts no bytes; with padding s->valid holds the lengths before.
 * s->valid must be NULL at first. On ERR_NOMEM *s is unchanged. */
static enum status sequences_arrange(struct sequences *s, const struct arrangement *a,
                                     struct err *e)
{
    AUTO_FREE struct place *places = NULL;
    CLEANUP(sequences_free) struct sequences to = {0};
    int64_t tokens;
    PASS(mem_alloc(&places, s->n, sizeof *places, "the order of sequences", e));
    place_all(s, a, places, &tokens);
    PASS(sequences_init(&to, s->n, tokens, s->bytes != NULL, e));
    if (a->batch > 0) PASS(mem_alloc(&to.valid, s->n, sizeof *to.valid, "lengths of sequences", e));
    for (int64_t i = 0; i < s->n; i++) {
        struct place p = places[i];
        sequences_put(&to, i, s, p.index, p.length);
        if (to.valid) to.valid[i] = p.length;
        while (to.offset[i + 1] < to.offset[i] + p.padded) to.ids[to.offset[i + 1]++] = a->pad_id;
    }
    sequences_free(s);
    *s = to;
    to = (struct sequences){0};
    return OK;
}

/* The token that sequences are padded with. */
static enum status find_pad(const struct data_options *d, const struct tokenizer *t, int32_t *id,
                            struct err *e)
{
    *id = (int32_t)d->pad_id;
    if (d->pad_id >= 0) return OK;
    NEED(t, ERR_USAGE,
         "pad_id: missing: padding is counted, and ids alone do not say which token fills them up; "
         "give one, or padding: none");
    enum status st = tokenizer_pad(t, NULL, id, e);
    if (st != OK) err_prefix(e, "pad_id auto");
    return st;
}

static enum status arrange(const struct data_options *d, const struct tokenizer *t,
                           struct sequences *s, struct err *e)
{
    struct arrangement a = {.max_tokens = d->cut, .by_length = d->sort == SORT_LENGTH};
    if (d->padding == PADDING_COUNTED) {
        PASS(find_pad(d, t, &a.pad_id, e));
        a.batch = d->batch;
    }
    return sequences_arrange(s, &a, e);
}

/* --- all --- */

static enum status load(const struct data_options *d, const struct tokenizer *t,
                        const struct text_start *start, struct sequences *out, char hash[HASH_HEX],
                        struct err *e)
{
    enum status st = OK;
    CLEANUP(collector_free) struct collector c = {.options = d};
    char source[DATASET_NAME];
    NEED(d->text || d->ids, ERR_USAGE, "a data set has neither text nor ids");
    dataset_name(d, source);
    bool whole = d->length == 0 && (d->ids || d->layout == LAYOUT_DOCUMENT);
    NEED(d->length >= 2 || whole, ERR_USAGE, "%s: length is %lld, expected 2 or more", source,
         (long long)d->length);
    if (d->text)
        PASS(load_text(&c, t, start, hash, e));
    else
        PASS(load_ids(&c, hash, e));
    NEED(c.n > 0, ERR_USAGE,
         "%s: no sequence is left: %lld tokens in all, length %lld, skip %lld, tokens %lld, %lld "
         "documents too short: lower length, min_length or skip, raise tokens, or give more text",
         source, (long long)c.all, (long long)d->length, (long long)d->skip, (long long)d->tokens,
         (long long)c.dropped);
    NEED(c.ids.n > c.n, ERR_USAGE,
         "%s: no sequence has a second token, so there is nothing to predict", source);
    PASS(collector_finish(&c, t, out, e));
    if ((st = arrange(d, t, out, e)) != OK) sequences_free(out);
    return st;
}

enum status dataset_load(const struct data_options *d, const struct tokenizer *t,
                         struct sequences *out, char hash[33], struct err *e)
{
    return load(d, t, NULL, out, hash, e);
}

/* What draws of `size` sequences are taken from (shallow). */
static struct data_options pool_of(const struct data_options *d, int64_t size)
{
    struct data_options all = *d;
    all.samples = DRAWS_POOL * size;
    all.tokens = all.cut = 0;
    all.sort = SORT_NONE;
    all.padding = PADDING_NONE;
    return all;
}

enum status dataset_draw(const struct data_options *d, const struct tokenizer *t, int64_t size,
                         const struct sequences *avoid, uint64_t seed, int64_t n_draws,
                         struct sequences *out, char hash[HASH_HEX], struct err *e)
{
    CLEANUP(sequences_free) struct sequences pool = {0};
    const struct data_options all = pool_of(d, size);
    PASS(dataset_load(&all, t, &pool, hash, e));
    PASS(draws_make(&pool, size, avoid, seed, n_draws, out, e));
    for (int64_t i = 0; i < n_draws; i++) PASS(arrange(d, t, &out[i], e));
    return OK;
}

/* --- starts --- */

static bool equal(const struct sequences *a, const struct sequences *b)
{
    const size_t tokens = (size_t)a->offset[a->n];
    return a->n == b->n &&
           memcmp(a->offset, b->offset, (size_t)(a->n + 1) * sizeof *a->offset) == 0 &&
           memcmp(a->ids, b->ids, tokens * sizeof *a->ids) == 0 &&
           memcmp(a->bytes, b->bytes, tokens * sizeof *a->bytes) == 0;
}

/* *n = the number of its sequences. */
static enum status compare(const struct data_options *d, const struct tokenizer *t,
                           const struct text_start *start, bool *same, int64_t *n, struct err *e)
{
    CLEANUP(sequences_free) struct sequences whole = {0}, begun = {0};
    char hash[HASH_HEX];
    PASS(load(d, t, NULL, &whole, hash, e));
    PASS(load(d, t, start, &begun, hash, e));
    *same = equal(&whole, &begun);
    *n = whole.n;
    return OK;
}

/* How sequences are cut, sorted and padded does not depend on what else is in the text. */
enum status dataset_starts_alike(const struct data_options *d, const struct tokenizer *t,
                                 const struct text_start *start, bool pool, bool *same,
                                 struct err *e)
{
    struct err why = {0};
    struct data_options whole = *d; /* shallow */
    int64_t n = 0;
    whole.cut = 0;
    whole.sort = SORT_NONE;
    whole.padding = PADDING_NONE;
    *same = false;
    if (d->within_positions) { /* they are not known here: of documents that are not cut, not fewer
                                  are read */
        if (d->layout != LAYOUT_DOCUMENT) return OK;
        whole.within_positions = false;
        whole.length = LENGTH_WHOLE;
        whole.tokens = 0;
    }
    enum status st = compare(&whole, t, start, same, &n, &why);
    if (st == OK && *same && pool) {
        const struct data_options all = pool_of(&whole, n);
        st = compare(&all, t, start, same, &n, &why);
    }
    if (st != OK) *same = false;
    NEED(st != ERR_NOMEM, ERR_NOMEM, "%s", why.text);
    return OK;
}
