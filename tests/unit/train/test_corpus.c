/* Tokens of documents with their separators, chunks in the order of the seed, what is held out, and
 * epochs. */
#include "scratch.h"
#include "tokenizer/tokenizer.h"
#include "train/corpus.h"
#include "util/fsx.h"
#include "util/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OK_OR_FAIL(call)                                                                           \
    do {                                                                                           \
        struct err err_ = {0}, *e = &err_;                                                         \
        if ((call) != OK) fail_msg("%s", err_.text);                                               \
    } while (0)

static char tokenizer[300], text[300], folder[200];
static char field[] = "text", separator[] = "<|endoftext|>";

static void write_text(int documents)
{
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    for (int i = 0; i < documents; i++) fprintf(f, "{\"text\": \"document number %d\"}\n", i);
    fclose(f);
}

static struct corpus_options options(void)
{
    return (struct corpus_options){.text = text, .field = field, .separator = separator, .seed = 3};
}

static struct corpus *open_corpus(const struct corpus_options *o, int64_t length)
{
    char *path = NULL, hash[HASH_HEX];
    struct corpus *c = NULL;
    OK_OR_FAIL(corpus_prepare(o, tokenizer, folder, &path, hash, e));
    OK_OR_FAIL(corpus_open(o, path, length, &c, e));
    free(path);
    return c;
}

/* Every number of the file, by the tokenizer alone. */
static void test_tokens(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct corpus_options o = options();
        char *path = NULL, hash[HASH_HEX], *data = NULL;
        struct tokenizer *t = NULL;
        size_t bytes;
        write_text(3);
        o.before = before;
        OK_OR_FAIL(corpus_prepare(&o, tokenizer, folder, &path, hash, e));
        OK_OR_FAIL(fsx_read(path, 0, &data, &bytes, e));
        OK_OR_FAIL(tokenizer_open(tokenizer, &t, e));
        const int32_t mark = ~tokenizer_find(t, separator);
        assert_true(mark < 0);
        size_t at = 0;
        for (int i = 0; i < 3; i++) {
            char line[60];
            int32_t *ids, found;
            int64_t n;
            snprintf(line, sizeof line, "document number %d", i);
            OK_OR_FAIL(tokenizer_encode(t, line, strlen(line), false, &ids, &n, e));
            for (int64_t k = -before; k <= n; k++, at += sizeof found) {
                memcpy(&found, data + at, sizeof found);
                assert_int_equal(found, k < 0 || k == n ? mark : ids[k]);
            }
            free(ids);
        }
        assert_int_equal(at, bytes);
        tokenizer_close(t);
        free(path);
        free(data);
    }
}

/* All chunks but those held out are there once in an epoch, in another order in the next; a batch
 * may reach from one into the other. */
static void test_order(void **state)
{
    struct corpus_options o = options();
    struct train_tokens x;
    (void)state;
    write_text(200);
    o.validation = 40;
    struct corpus *c = open_corpus(&o, 9);
    const int64_t train = corpus_chunks(c), held = corpus_held_out(c);
    assert_int_equal(held, 4); /* of ten tokens */
    o.validation = 0;
    struct corpus *tokens = open_corpus(&o, 0); /* chunks of one token each */
    assert_int_equal(train + held, corpus_chunks(tokens) / 10);
    corpus_close(tokens);
    int32_t *epochs = calloc((size_t)(2 * train * 10), sizeof *epochs);
    OK_OR_FAIL(corpus_take(c, false, 0, 2 * train, &x, e));
    memcpy(epochs, x.tokens, (size_t)(2 * train * 10) * sizeof *epochs);
    assert_null(x.document);
    assert_memory_not_equal(epochs, epochs + train * 10, (size_t)train * 10 * sizeof *epochs);
    for (int64_t i = 0; i < train; i++) { /* as often in both */
        int64_t times[2] = {0};
        for (int64_t k = 0; k < 2 * train; k++)
            times[k >= train] += memcmp(epochs + i * 10, epochs + k * 10, 40) == 0;
        assert_int_equal(times[0], times[1]);
    }
    /* the same from any place, and after the epoch has changed */
    OK_OR_FAIL(corpus_take(c, false, train - 3, 7, &x, e));
    assert_memory_equal(x.tokens, epochs + (train - 3) * 10, 280);
    OK_OR_FAIL(corpus_take(c, false, 5, 2, &x, e));
    assert_memory_equal(x.tokens, epochs + 50, 80);
    corpus_close(c);
    o.seed = 4;
    c = open_corpus(&o, 9);
    OK_OR_FAIL(corpus_take(c, false, 0, train, &x, e));
    assert_memory_not_equal(x.tokens, epochs, (size_t)train * 40);
    corpus_close(c);
    free(epochs);
}

/* Documents are numbered where they begin: behind the separator, or between two. */
static void test_documents(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct corpus_options o = options();
        struct train_tokens x;
        o.document_mask = true;
        o.before = before;
        write_text(200);
        struct corpus *c = open_corpus(&o, 9);
        const int64_t n = corpus_chunks(c); /* some begin with a separator */
        OK_OR_FAIL(corpus_take(c, false, 0, n, &x, e));
        struct tokenizer *t = NULL;
        OK_OR_FAIL(tokenizer_open(tokenizer, &t, e));
        const int32_t mark = tokenizer_find(t, separator);
        int changes = 0;
        for (int64_t i = 1; i < 10 * n; i++) {
            if (i % 10 == 0) continue;
            const bool marked = x.tokens[i - 1] == mark && (!before || x.tokens[i] == mark);
            assert_int_equal(x.document[i] - x.document[i - 1], marked);
            changes += marked;
        }
        assert_true(changes > 3);
        tokenizer_close(t);
        corpus_close(c);
    }
}

static void test_refusals(void **state)
{
    struct corpus_options o = options();
    char *path = NULL, hash[2][HASH_HEX];
    struct corpus *c = NULL;
    struct err first = {0}, second = {0};
    struct stat made, again;
    (void)state;
    write_text(5);
    OK_OR_FAIL(corpus_prepare(&o, tokenizer, folder, &path, hash[0], e));
    assert_int_equal(corpus_open(&o, path, 1000, &c, &first), ERR_USAGE);
    assert_non_null(strstr(first.text, "none is left"));
    assert_int_equal(stat(path, &made), 0);
    free(path);
    OK_OR_FAIL(corpus_prepare(&o, tokenizer, folder, &path, hash[1], e)); /* not made again */
    assert_int_equal(stat(path, &again), 0);
    assert_true(made.st_ino == again.st_ino);
    assert_string_equal(hash[0], hash[1]);
    free(path);
    write_text(6); /* other data: another file */
    OK_OR_FAIL(corpus_prepare(&o, tokenizer, folder, &path, hash[1], e));
    assert_string_not_equal(hash[0], hash[1]);
    struct train_tokens taken;
    struct err third = {0};
    OK_OR_FAIL(corpus_open(&o, path, 5, &c, e));
    OK_OR_FAIL(corpus_take(c, false, 0, corpus_chunks(c), &taken, e));
    assert_int_equal(truncate(path, 16), 0); /* while it is read */
    assert_int_equal(corpus_take(c, false, 0, corpus_chunks(c), &taken, &third), ERR_FORMAT);
    assert_non_null(strstr(third.text, "it has become shorter"));
    corpus_close(c);
    free(path);
    FILE *f = fopen(text, "a");
    fprintf(f, "{\"other\": 1}\n");
    fclose(f);
    assert_int_equal(corpus_prepare(&o, tokenizer, folder, &path, hash[1], &second), ERR_FORMAT);
    assert_non_null(strstr(second.text, ":7"));
    free(path);
}

/* The digest of a file is taken from texts.json as long as the file is the one that it was. */
static void test_digests(void **state)
{
    struct corpus_options o = options();
    struct err why = {0};
    char *path = NULL, hash[3][HASH_HEX], file[300], other[HASH_HEX];
    json_t *known = NULL;
    (void)state;
    hash_text("of other bytes", other);
    snprintf(file, sizeof file, "%s/texts.json", folder);
    unlink(file);
    o.field = NULL;
    o.text = tokenizer; /* a text that nobody has written just now */
    OK_OR_FAIL(corpus_prepare(&o, tokenizer, folder, &path, hash[0], e));
    free(path);
    for (int time_differs = 1; time_differs >= 0; time_differs--) {
        OK_OR_FAIL(json_read_file(file, 0, &known, e));
        json_t *row = json_object_get(known, tokenizer);
        json_array_set_new(row, 1, json_string(other));
        if (time_differs) json_array_set_new(json_array_get(row, 0), 5, json_integer(-1));
        OK_OR_FAIL(json_write_file(file, known, 0, e));
        json_decref(known);
        const enum status st = corpus_prepare(&o, tokenizer, folder, &path, hash[1], &why);
        assert_int_equal(st, time_differs ? OK : ERR_CHANGED); /* by the tokenizing */
        free(path);
        if (time_differs) assert_string_equal(hash[0], hash[1]);
    }
    OK_OR_FAIL(corpus_prepare(&o, tokenizer, folder, &path, hash[2], e));
    assert_string_equal(hash[0], hash[2]);
    free(path);
}

int main(void)
{
    snprintf(folder, sizeof folder, "%s", scratch_dir());
    snprintf(text, sizeof text, "%s/text.jsonl", folder);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizers/gpt2/tokenizer.json", FIXTURES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_documents), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
