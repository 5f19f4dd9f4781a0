/* The file of tokens: 32-bit integers, ~id for a token that is no text. */
#include "eval/dataset.h"
#include "eval/documents.h"
#include "eval/doubts.h"
#include "train/corpus.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include "util/temporary.h"
#include "util/texts.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct option keys[] = {
    OPTION(corpus_options, text, PATHS,
           "files or patterns of text, one document a file, or with field a line of JSON",
           .required = true),
    OPTION(corpus_options, field, TEXT, "JSONL: the key that holds the text",
           .otherwise = "none: plain text"),
    OPTION(corpus_options, separator, TEXT,
           "token after each document, as tokenizer.json writes it, or eos", .otherwise = "none"),
    OPTION(corpus_options, before, BOOL, "the separator stands before each document as well",
           .fallback = "false", .with = "separator"),
    OPTION(corpus_options, document_mask, BOOL, "tokens attend only to their own document",
           .fallback = "false", .with = "separator"),
    OPTION(corpus_options, validation, INT, "held out for the validation loss", .unit = "tokens",
           .fallback = "0", .low = 0, .high = INT64_MAX / 2),
    OPTION(corpus_options, seed, INT, "seed of the order of sequences", .fallback = "0", .low = 0,
           .high = INT64_MAX),
    OPTION(corpus_options, cache, PATH, "folder of the tokenized text", .otherwise = "output"),
};
const struct option_table corpus_options_table = {OPTION_ROWS(keys, corpus_options)};

/* --- digests of the texts, kept from one start to the next --- */

/* A file that changed so few seconds ago may change again without another time. */
enum { SETTLED = 3 };

/* What a file has as long as nobody writes it: nobody can put the time of its inode back. NULL:
 * it is not there, or has just changed. */
static json_t *mark_of(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0 || time(NULL) - s.st_ctim.tv_sec < SETTLED) return NULL;
    return json_pack("[I, I, I, I, I, I]", (json_int_t)s.st_size, (json_int_t)s.st_ino,
                     (json_int_t)s.st_mtim.tv_sec, (json_int_t)s.st_mtim.tv_nsec,
                     (json_int_t)s.st_ctim.tv_sec, (json_int_t)s.st_ctim.tv_nsec);
}

/* hash = the digest of a file, from `known` ({path: [mark, digest]}) if its mark is the same. */
static enum status text_digest(json_t *known, const char *path, char hash[HASH_HEX], bool *added,
                               struct err *e)
{
    json_auto_t *mark = mark_of(path);
    json_t *row = json_object_get(known, path);
    const char *digest = json_string_value(json_array_get(row, 1));
    if (mark && digest && json_equal(json_array_get(row, 0), mark)) {
        snprintf(hash, HASH_HEX, "%s", digest);
        return OK;
    }
    PASS(hash_file(path, hash, e));
    *added |= mark != NULL;
    if (mark) json_object_set_new(known, path, json_pack("[O, s]", mark, hash));
    return OK;
}

/* What the tokens depend on. hashes (paths): digests of the texts. */
static enum status digest(const struct corpus_options *o, const struct tokenizer *t,
                          const struct texts *paths, char (*hashes)[HASH_HEX], char hash[HASH_HEX],
                          struct err *e)
{
    AUTO_FREE char *all = NULL;
    PASS(mem_format(&all, e, "1 %s %s %s %s %d", tokenizer_hash(t), tokenizer_special_hash(t),
                    o->field ? o->field : "-", o->separator ? o->separator : "-", o->before));
    for (int64_t i = 0; i < paths->n; i++) PASS(mem_append(&all, e, " %s", hashes[i]));
    hash_text(all, hash);
    return OK;
}

/* The collector of all tokens of files, which *d goes with. */
static enum status frame(const struct corpus_options *o, const struct tokenizer *t,
                         struct data_options *d, struct collector *c, struct err *e)
{
    *c = (struct collector){.options = d};
    options_default(&data_table, d);
    d->field = o->field;
    d->separator = o->separator;
    d->layout = LAYOUT_PACKED;
    d->length = INT64_MAX / 2; /* never full: all is in the incomplete block */
    PASS(collector_frame(c, t, e));
    return o->before ? ids_add(&c->before, c->behind.id, c->behind.n, e) : OK;
}

/* Tokenizes one file after the other, so that memory holds the tokens of one at a time. */
static enum status write_tokens(const struct corpus_options *o, const struct tokenizer *t,
                                const struct texts *paths, char (*hashes)[HASH_HEX], int fd,
                                const char *path, int64_t *tokens, struct err *e)
{
    struct data_options d;
    CLEANUP(collector_free) struct collector c = {0};
    PASS(frame(o, t, &d, &c, e));
    for (int64_t i = 0; i < paths->n; i++) {
        char found[HASH_HEX];
        PASS(documents_load(paths->text + i, 1, INT64_MAX, t, &c, &found, e));
        PASS(hash_expect(paths->text[i], "the tokenizing began", hashes[i], found, e));
        PASS(fsx_write(fd, path, c.part.id, (size_t)c.part.n * sizeof *c.part.id, e));
        *tokens += c.part.n;
        c.part.n = 0;
    }
    return OK;
}

static enum status make(const struct corpus_options *o, const struct tokenizer *t,
                        const struct texts *paths, char (*hashes)[HASH_HEX], const char *path,
                        struct err *e)
{
    enum status st = OK;
    char *temporary = NULL, count[QUANTITY];
    int fd = -1;
    int64_t tokens = 0;
    TRY(fsx_make_parent(path, e));
    TRY(temporary_begin(path, &temporary, e));
    fd = fsx_open_as(temporary, O_WRONLY | O_CREAT | O_EXCL);
    ENSURE(fd >= 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
    TRY(write_tokens(o, t, paths, hashes, fd, path, &tokens, e));
    TRY(fsx_publish(temporary, path, e));
    quantity_count((double)tokens, count);
    log_info("%s: %s tokens of %lld file%s", path, count, (long long)paths->n,
             quantity_plural(paths->n));
done:
    if (fd >= 0) close(fd);
    if (st != OK && temporary) err_rename(e, temporary, path);
    temporary_end(temporary);
    return st;
}

/* The texts, the tokenizer, and the path of the file of digests. */
struct origin {
    struct texts paths;
    struct tokenizer *tokenizer;
    char (*hashes)[HASH_HEX], *file;
};

static void origin_free(struct origin *x)
{
    free(x->hashes);
    free(x->file);
    texts_free(&x->paths);
    tokenizer_close(x->tokenizer);
}

static enum status origin_open(const struct corpus_options *o, const char *tokenizer,
                               const char *cache, struct origin *x, struct err *e)
{
    const struct data_options texts = {.text = o->text};
    CLEANUP(texts_free) struct texts all = {0};
    PASS(dataset_files(&texts, &all, e));
    for (int64_t i = 0; i < all.n; i++) PASS(texts_add(&x->paths, all.text[i], e));
    json_t *said = json_object();
    if (!o->field) warn_of_json(&texts, said);
    json_decref(said);
    PASS(tokenizer_open(tokenizer, &x->tokenizer, e));
    PASS(mem_alloc(&x->hashes, x->paths.n, sizeof *x->hashes, "digests", e));
    return mem_format(&x->file, e, "%s/texts.json", cache);
}

static enum status origin_digest(const struct corpus_options *o, struct origin *x, bool keep,
                                 char hash[HASH_HEX], struct err *e)
{
    json_auto_t *known = NULL;
    bool added = false;
    if (!fsx_is_file(x->file) || json_read_file(x->file, 0, &known, NULL) != OK)
        known = json_object();
    for (int64_t i = 0; i < x->paths.n; i++)
        PASS(text_digest(known, x->paths.text[i], x->hashes[i], &added, e));
    /* Without the file all texts are read, so that failing to write it is no failure. */
    if (added && keep && fsx_make_parent(x->file, NULL) == OK)
        (void)!json_write_file(x->file, known, JSON_INDENT(1), NULL);
    return digest(o, x->tokenizer, &x->paths, x->hashes, hash, e);
}

enum status corpus_prepare(const struct corpus_options *o, const char *tokenizer,
                           const char *folder, char **path, char hash[HASH_HEX], struct err *e)
{
    enum status st = OK;
    struct origin x = {0};
    const char *const cache = o->cache ? o->cache : folder;
    TRY(origin_open(o, tokenizer, cache, &x, e));
    TRY(origin_digest(o, &x, true, hash, e));
    TRY(mem_format(path, e, "%s/tokens-%.16s.i32", cache, hash));
    if (!fsx_is_file(*path)) TRY(make(o, x.tokenizer, &x.paths, x.hashes, *path, e));
done:
    if (st == ERR_CHANGED && x.file) unlink(x.file); /* the next start reads all */
    origin_free(&x);
    return st;
}

/* --- before --- */

enum status corpus_look(const struct corpus_options *o, const char *tokenizer, const char *folder,
                        int64_t enough, int64_t *tokens, char *hash, struct err *e)
{
    struct data_options d;
    CLEANUP(origin_free) struct origin x = {0};
    CLEANUP(collector_free) struct collector c = {0};
    PASS(origin_open(o, tokenizer, o->cache ? o->cache : folder, &x, e));
    /* The first document of each file of JSONL can be read. */
    for (int64_t i = 0; o->field && i < x.paths.n; i++) {
        struct data_options first;
        struct collector reader = {0};
        enum status st = frame(o, x.tokenizer, &first, &reader, e);
        first.documents = 1;
        if (st == OK)
            st = documents_load(x.paths.text + i, 1, INT64_MAX, x.tokenizer, &reader, NULL, e);
        collector_free(&reader);
        PASS(st);
    }
    PASS(frame(o, x.tokenizer, &d, &c, e));
    d.length = enough;
    d.samples = 1;
    PASS(documents_load(x.paths.text, x.paths.n, INT64_MAX, x.tokenizer, &c, NULL, e));
    *tokens = c.full ? enough : c.part.n;
    if (hash) PASS(origin_digest(o, &x, false, hash, e));
    return OK;
}
