/* dataset: texts in every file format and layout become the sequences that are put together here by
 * hand from the tokenizer's ids. */
#include "checkpoint/safetensors.h"
#include "eval/dataset.h"
#include "eval/textfile.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/rng.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

static char dir[] = "/tmp/qtraj_dataset_XXXXXX";
static char path[512];
static struct tokenizer *plain, *with_bos; /* one without a template, one that adds BOS */

static const char *put(const char *name, const void *data, size_t n)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static const char *put_text(const char *name, const char *text)
{
    return put(name, text, strlen(text));
}

static size_t gzip(const char *text, size_t n, char *out, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
                  .avail_in = (uInt)n,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t made = room - z.avail_out;
    deflateEnd(&z);
    return made;
}

/* Encodes with the tokenizer itself and appends to ids. */
static int64_t encode(const struct tokenizer *t, const char *text, bool special, int32_t *ids)
{
    int32_t *made;
    int64_t n;
    assert_int_equal(tokenizer_encode(t, text, strlen(text), special, &made, &n, NULL), OK);
    memcpy(ids, made, (size_t)n * sizeof *ids);
    free(made);
    return n;
}

static struct data_options options(const char *text, const char *field, int layout, int64_t length)
{
    return (struct data_options){.name = (char *)(uintptr_t) "d",
                                 .text = (char *)(uintptr_t)text,
                                 .field = (char *)(uintptr_t)field,
                                 .layout = layout,
                                 .length = length};
}

static void load(const struct data_options *d, const struct tokenizer *t, struct sequences *s)
{
    struct err e = {0};
    char hash[33], again[33];
    if (dataset_load(d, t, s, hash, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(dataset_hash(d, again, &e), OK);
    assert_string_equal(hash, again);
    assert_int_equal(s->offset[0], 0);
    bool framed = d->special_tokens || d->separator ||
                  d->padding == PADDING_COUNTED; /* added tokens have no bytes */
    for (int64_t i = 0; t && i < s->offset[s->n]; i++)
        if (!framed || s->bytes[i]) assert_int_equal(s->bytes[i], tokenizer_id_bytes(t, s->ids[i]));
}

static void refuse(const struct data_options *d, const struct tokenizer *t, enum status want,
                   const char *part)
{
    struct err e = {0};
    struct sequences s = {0};
    char hash[33];
    assert_int_equal(dataset_load(d, t, &s, hash, &e), want);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
    assert_null(s.ids);
}

static const char *const documents[] = {
    "The quick brown fox jumps over the lazy dog.", "x", "",
    "Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich. 0123456789\nand a second line\t.",
    "日本語のテキスト, 한국어 and emoji 👩‍🚀 in one document"};
enum { N_DOCUMENTS = sizeof documents / sizeof *documents };

/* The documents as JSON lines with irregularities: blank lines, CRLF, other fields. */
static void json_lines(char *out)
{
    out += sprintf(out, "\n");
    for (int i = 0; i < N_DOCUMENTS; i++) {
        out += sprintf(out, "{\"id\": 18446744073709551615, \"text\": \"");
        for (const char *s = documents[i]; *s; s++)
            out += *s == '\n'   ? sprintf(out, "\\n")
                   : *s == '\t' ? sprintf(out, "\\u0009")
                                : sprintf(out, "%c", *s);
        out += sprintf(out, "\", \"n\": [%d]}%s\n", i, i % 2 ? "\r" : "");
        if (i == 2) out += sprintf(out, "  \n");
    }
}

static int64_t all_ids(const struct tokenizer *t, int32_t *ids)
{
    int64_t n = 0;
    for (int i = 0; i < N_DOCUMENTS; i++) n += encode(t, documents[i], false, ids + n);
    return n;
}

static void check_packed(const char *file, const char *field, const int32_t *ids, int64_t n)
{
    struct data_options d = options(file, field, LAYOUT_PACKED, 16);
    struct sequences s;
    load(&d, plain, &s);
    assert_int_equal(s.n, n / 16);
    assert_true(s.n >= 3);
    for (int64_t i = 0; i <= s.n; i++) assert_int_equal(s.offset[i], 16 * i);
    assert_memory_equal(s.ids, ids, (size_t)s.offset[s.n] * sizeof *ids);
    sequences_free(&s);
}

static void test_packed_in_every_wrapping(void **state)
{
    (void)state;
    char text[4096], packed[4096];
    int32_t ids[2048];
    int64_t n = all_ids(plain, ids);
    json_lines(text);
    check_packed(put_text("a.jsonl", text), "text", ids, n);
    size_t made = gzip(text, strlen(text), packed, sizeof packed);
    check_packed(put("b.jsonl", packed, made), "text", ids, n);
    /* two gzip members, two zstd frames, split in the middle of a line */
    size_t cut = strlen(text) / 2, first = gzip(text, cut, packed, sizeof packed);
    made = first + gzip(text + cut, strlen(text) - cut, packed + first, sizeof packed - first);
    check_packed(put("c", packed, made), "text", ids, n);
    made = ZSTD_compress(packed, sizeof packed, text, strlen(text), 3);
    check_packed(put("d.gz", packed, made), "text", ids, n); /* detected by content, not by name */
    first = ZSTD_compress(packed, sizeof packed, text, cut, 3);
    made = first +
           ZSTD_compress(packed + first, sizeof packed - first, text + cut, strlen(text) - cut, 3);
    check_packed(put("e", packed, made), "text", ids, n);
    /* a byte order mark, no newline at the end */
    char marked[4096] = "\xef\xbb\xbf";
    strcat(marked, text + 1);
    marked[strlen(marked) - 1] = '\0';
    check_packed(put_text("f", marked), "text", ids, n);
}

/* In place of the C library's: the next so many fail. */
static int storage_fails;
ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    if (storage_fails > 0) {
        storage_fails--;
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, data, n, at);
}

/* At the first bytes and later ones. Bytes after the last gzip member are no text. */
static void test_storage_that_fails_once(void **state)
{
    (void)state;
    char text[4096], packed[3][4096];
    int32_t ids[2048];
    int64_t n = all_ids(plain, ids);
    json_lines(text);
    const size_t length = strlen(text);
    strcpy(packed[0], text);
    memset(packed[1], 0, sizeof packed[1]);
    const size_t made[] = {length, gzip(text, length, packed[1], sizeof packed[1]) + 3,
                           ZSTD_compress(packed[2], sizeof packed[2], text, length, 3)};
    for (int i = 0; i < 3; i++) {
        const char *file = put("once", packed[i], made[i]);
        storage_fails = 1;
        check_packed(file, "text", ids, n);
        assert_int_equal(storage_fails, 0);
        struct err e = {0};
        struct textfile *f;
        const char *line;
        size_t bytes;
        int64_t number;
        assert_int_equal(textfile_open(file, &f, &e), OK);
        storage_fails = 1;
        assert_int_equal(textfile_line(f, &line, &bytes, &number, &e), OK);
        assert_memory_equal(line, text, bytes);
        textfile_close(f);
        assert_int_equal(storage_fails, 0);
    }
}

static void test_plain_text_is_one_document(void **state)
{
    (void)state;
    char packed[4096];
    int32_t ids[2048];
    const char *text = documents[3];
    int64_t n = encode(plain, text, false, ids);
    struct data_options d = options(put_text("plain.txt", text), NULL, LAYOUT_DOCUMENT, 4096);
    for (int i = 0; i < 3; i++) {
        struct sequences s;
        load(&d, plain, &s);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.offset[1], n);
        assert_memory_equal(s.ids, ids, (size_t)n * sizeof *ids);
        int64_t bytes = 0;
        for (int64_t k = 0; k < n; k++) bytes += s.bytes[k];
        assert_int_equal(bytes, strlen(text));
        sequences_free(&s);
        size_t made = i ? gzip(text, strlen(text), packed, sizeof packed)
                        : ZSTD_compress(packed, sizeof packed, text, strlen(text), 3);
        put("plain.txt", packed, made);
    }
}

static void test_one_document_a_sequence(void **state)
{
    (void)state;
    char text[4096];
    json_lines(text);
    struct data_options d = options(put_text("a.jsonl", text), "text", LAYOUT_DOCUMENT, 20);
    const struct tokenizer *const tokenizers[] = {plain, with_bos};
    d.special_tokens = true;
    for (int k = 0; k < 2; k++) {
        struct sequences s;
        int64_t n = 0;
        load(&d, tokenizers[k], &s);
        for (int i = 0; i < N_DOCUMENTS; i++) {
            int32_t ids[2048];
            int64_t m = encode(tokenizers[k], documents[i], true, ids);
            if (m < 2) continue;
            if (m > 20) m = 20;
            assert_int_equal(s.offset[n + 1] - s.offset[n], m);
            assert_memory_equal(s.ids + s.offset[n], ids, (size_t)m * sizeof *ids);
            assert_int_equal(s.bytes[s.offset[n]] == 0, k); /* BOS counts no bytes */
            n++;
        }
        assert_int_equal(s.n, n);
        assert_int_equal(n, k ? 4 : 3); /* with BOS the one-token document has two */
        sequences_free(&s);
    }
}

/* One document per sequence: not cut, short ones dropped, only the first N of the file. */
static void test_documents_of_their_own_length(void **state)
{
    (void)state;
    char text[4096];
    json_lines(text);
    put_text("a.jsonl", text);
    static const struct {
        int64_t documents, min_length;
        bool special;
    } cases[] = {{0, 0, false}, {0, 0, true}, {0, 11, false}, {3, 0, false},
                 {1, 0, true},  {0, 2, true}, {4, 12, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct data_options d = options(path, "text", LAYOUT_DOCUMENT, 0);
        struct sequences s;
        int64_t n = 0, limit = cases[k].documents ? cases[k].documents : N_DOCUMENTS;
        d.documents = cases[k].documents;
        d.min_length = cases[k].min_length;
        d.special_tokens = cases[k].special;
        load(&d, with_bos, &s);
        for (int i = 0; i < limit; i++) {
            int32_t ids[2048];
            int64_t m = encode(with_bos, documents[i], cases[k].special, ids);
            if (m < 2 || m < d.min_length) continue;
            assert_true(n < s.n);
            assert_int_equal(s.offset[n + 1] - s.offset[n], m);
            assert_memory_equal(s.ids + s.offset[n], ids, (size_t)m * sizeof *ids);
            n++;
        }
        assert_true(n > 0);
        assert_int_equal(s.n, n);
        sequences_free(&s);
    }
    struct data_options d = options(path, "text", LAYOUT_DOCUMENT, 0);
    d.min_length = 1000;
    refuse(&d, plain, ERR_USAGE, "5 documents too short");
    d.min_length = 0;
    d.layout = LAYOUT_PACKED;
    refuse(&d, plain, ERR_USAGE, "length is 0, expected 2 or more");
}

/* A separator after every document and the tokens of the post-processor around it; both count no
 * bytes, although the same tokens inside a text do. */
static void test_packed_with_separator(void **state)
{
    (void)state;
    char text[4096], name[600];
    json_lines(text);
    put_text("a.jsonl", text);
    snprintf(name, sizeof name, "%s", path);
    const char *separator = "<|endoftext|>";
    int32_t end = tokenizer_find(with_bos, separator);
    assert_true(end >= 0);
    for (int special = 0; special < 2; special++) {
        int32_t ids[2048];
        int64_t n = 0;
        size_t bytes = 0, want = 0;
        struct sequences s;
        struct data_options d = options(name, "text", LAYOUT_PACKED, 2);
        d.separator = (char *)(uintptr_t)separator;
        d.special_tokens = special;
        for (int i = 0; i < N_DOCUMENTS; i++) {
            n += encode(with_bos, documents[i], special, ids + n);
            ids[n++] = end;
            want += strlen(documents[i]);
        }
        load(&d, with_bos, &s);
        assert_int_equal(s.n, n / 2);
        assert_memory_equal(s.ids, ids, (size_t)(n / 2 * 2) * sizeof *ids);
        for (int64_t i = 0; i < s.offset[s.n]; i++) bytes += (size_t)s.bytes[i];
        assert_int_equal(bytes, want);
        sequences_free(&s);
    }
    struct data_options d = options(name, "text", LAYOUT_PACKED, 2);
    d.separator = (char *)(uintptr_t) "<|no_such|>";
    refuse(&d, plain, ERR_USAGE, "separator: the tokenizer has no token <|no_such|>");
    d.separator = (char *)(uintptr_t) "eos";
    refuse(&d, plain, ERR_USAGE, "no eos_token in a tokenizer_config.json");
}

/* The end-of-text token named by the file beside the tokenizer. */
static void the_separator_eos_is_the_tokenizers(void **state)
{
    (void)state;
    struct err e = {0};
    struct tokenizer *t = NULL;
    char *json, name[600];
    size_t n;
    assert_int_equal(fsx_read(FIXTURES "/tokenizers/gpt2/tokenizer.json", 0, &json, &n, &e), OK);
    put_text("tokenizer_config.json", "{\"eos_token\": \"<|endoftext|>\"}");
    put("tokenizer.json", json, n);
    free(json);
    assert_int_equal(tokenizer_open(path, &t, &e), OK);
    snprintf(name, sizeof name, "%s/a.txt\n%s/b.txt", dir, dir);
    put_text("a.txt", "one file ");
    put_text("b.txt", "and another, one token away");
    int32_t ids[64], end = tokenizer_find(t, "<|endoftext|>");
    assert_true(end >= 0);
    int64_t m = encode(t, "one file ", false, ids);
    ids[m++] = end;
    m += encode(t, "and another, one token away", false, ids + m);
    struct data_options d = options(name, NULL, LAYOUT_PACKED, m);
    d.separator = (char *)(uintptr_t) "eos";
    struct sequences s;
    load(&d, t, &s);
    assert_int_equal(s.n, 1);
    assert_memory_equal(s.ids, ids, (size_t)m * sizeof *ids);
    sequences_free(&s);
    tokenizer_close(t);
}

/* Files and patterns are read in the given order; matches are sorted only within their pattern. */
static void test_several_texts(void **state)
{
    (void)state;
    char names[1024];
    int32_t ids[2048];
    int64_t n = 0;
    static const int order[] = {4, 0, 3};
    put_text("m-b.txt", documents[3]);
    put_text("m-a.txt", documents[0]);
    put_text("z.txt", documents[4]);
    for (int i = 0; i < 3; i++) n += encode(plain, documents[order[i]], false, ids + n);
    snprintf(names, sizeof names, "%s/z.txt\n%s/m-*.txt", dir, dir);
    check_packed(names, NULL, ids, n);
    snprintf(names, sizeof names, "%s/z.txt\n%s/m-?.txt\n%s/none-*", dir, dir, dir);
    struct data_options d = options(names, NULL, LAYOUT_PACKED, 16);
    refuse(&d, plain, ERR_IO, "none-*: no file matches");
    snprintf(names, sizeof names, "%s/z.txt\n%s/gone.txt", dir, dir);
    refuse(&d, plain, ERR_IO, "gone.txt");
    snprintf(names, sizeof names, "%s/z.txt\n%s/m-a.txt", dir, dir);
    d.length = 4096;
    refuse(&d, plain, ERR_USAGE, "z.txt and 1 more: no sequence is left");
}

static void skip_samples_and_tokens_limit(void **state)
{
    (void)state;
    char text[4096];
    int32_t ids[2048];
    int64_t n = all_ids(plain, ids);
    json_lines(text);
    struct data_options d = options(put_text("a.jsonl", text), "text", LAYOUT_PACKED, 8);
    static const struct {
        int64_t skip, samples, tokens, want;
    } cases[] = {{0, 3, 0, 3}, {2, 3, 0, 3}, {1, 0, 31, 3}, {0, 0, 32, 4}, {1, 2, 32, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sequences s;
        d.skip = cases[i].skip;
        d.samples = cases[i].samples;
        d.tokens = cases[i].tokens;
        load(&d, plain, &s);
        assert_int_equal(s.n, cases[i].want);
        assert_memory_equal(s.ids, ids + 8 * d.skip, (size_t)(8 * s.n) * sizeof *ids);
        sequences_free(&s);
    }
    struct sequences s;
    d.skip = 1;
    d.samples = 3;
    d.tokens = 0;
    d.cut = 5; /* the first tokens of the same blocks */
    load(&d, plain, &s);
    assert_int_equal(s.n, 3);
    for (int64_t i = 0; i < 3; i++) {
        assert_int_equal(s.offset[i + 1], 5 * (i + 1));
        assert_memory_equal(s.ids + 5 * i, ids + 8 * (1 + i), 5 * sizeof *ids);
        for (int64_t t = 1; t < 5; t++)
            assert_int_equal(s.bytes[5 * i + t], tokenizer_id_bytes(plain, s.ids[5 * i + t]));
    }
    sequences_free(&s);
    d.samples = d.cut = 0;
    d.skip = n / 8;
    refuse(&d, plain, ERR_USAGE, "no sequence is left");
    d.skip = 0;
    d.tokens = 7;
    refuse(&d, plain, ERR_USAGE, "no sequence is left");
    d.tokens = 0;
    d.length = n + 1;
    refuse(&d, plain, ERR_USAGE, "no sequence is left");
    d.length = 1;
    refuse(&d, plain, ERR_USAGE, "expected 2 or more");
}

static void test_globs_are_sorted(void **state)
{
    (void)state;
    char pattern[64];
    int32_t ids[2048];
    int64_t n = 0;
    put_text("g-b.txt", documents[3]);
    put_text("g-a.txt", documents[0]);
    put_text("g-C.txt", documents[4]);
    static const int order[] = {4, 0, 3};
    for (int i = 0; i < 3; i++) n += encode(plain, documents[order[i]], false, ids + n);
    static const char *const patterns[] = {"g-*.txt", "g-[abC].txt", "{g-b,g-C,g-a}.txt"};
    char first[33] = "", hash[33];
    for (int i = 0; i < 3; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", dir, patterns[i]);
        check_packed(pattern, NULL, ids, n);
        struct data_options d = options(pattern, NULL, LAYOUT_PACKED, 16);
        assert_int_equal(dataset_hash(&d, hash, NULL), OK);
        if (i > 0) assert_string_equal(hash, first);
        memcpy(first, hash, 33);
    }
    put_text("g-C.txt", documents[3]);
    struct data_options d = options(pattern, NULL, LAYOUT_PACKED, 16);
    assert_int_equal(dataset_hash(&d, hash, NULL), OK);
    assert_string_not_equal(hash, first);
    snprintf(pattern, sizeof pattern, "%s/none-*", dir);
    refuse(&d, plain, ERR_IO, "no file matches");
    check_packed(put_text("w[1].txt", documents[4]), NULL, ids,
                 encode(plain, documents[4], false, ids));
}

/* glob() would write out 2^30 names; alternatives in turn only add up. */
static void test_alternatives_are_bounded(void **state)
{
    (void)state;
    char doubled[160] = "", listed[20000] = "{", *end = listed + 1;
    for (int i = 0; i < 30; i++) strcat(doubled, "{a,b}");
    struct data_options d = options(doubled, NULL, LAYOUT_PACKED, 16);
    refuse(&d, plain, ERR_USAGE, "more than 10000 names");
    for (int i = 0; i < 3000; i++) end += sprintf(end, "%s%d", i ? "," : "", i);
    strcpy(end, "}{x,y}");
    d = options(listed, NULL, LAYOUT_PACKED, 16);
    refuse(&d, plain, ERR_IO, "no file matches");
    strcat(listed, "{x,y}");
    d = options(listed, NULL, LAYOUT_PACKED, 16);
    refuse(&d, plain, ERR_USAGE, "more than 10000 names");
    char nested[200] = "";
    for (int i = 0; i < 60; i++) strcat(nested, "{a,");
    for (int i = 0; i < 10; i++) strcat(nested, "}");
    d = options(nested, NULL, LAYOUT_PACKED, 16);
    refuse(&d, plain, ERR_USAGE, "more than 10000 names");
}

/* Runs load with stderr redirected to a file; out (a string) is what it printed. */
static void load_listening(const struct data_options *d, char *out, size_t room)
{
    struct sequences s;
    char name[64];
    snprintf(name, sizeof name, "%s/stderr", dir);
    fflush(stderr);
    int saved = dup(2);
    assert_non_null(freopen(name, "wb", stderr));
    load(d, plain, &s);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    sequences_free(&s);
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    out[fread(out, 1, room - 1, f)] = '\0';
    fclose(f);
}

/* Replacements are reported once per file and counted only in the part that was read. */
static void test_replaced_is_reported(void **state)
{
    (void)state;
    char said[1024], names[1024];
    put_text("u-a", "{\"text\": \"one \xff\xfe two\"}\n{\"text\": \"\\ud800 and three\"}\n");
    put_text("u-b", "{\"text\": \"nothing wrong in here\"}\n");
    put_text("u-c", "{\"text\": \"a \xe2\x82 at the end\"}\n{\"text\": \"\xff\"}\n");
    snprintf(names, sizeof names, "%s/u-?", dir);
    struct data_options d = options(names, "text", LAYOUT_PACKED, 2);
    load_listening(&d, said, sizeof said);
    assert_non_null(strstr(said, "u-a: 3 invalid UTF-8 sequences replaced"));
    assert_null(strstr(said, "u-b"));
    assert_non_null(strstr(said, "u-c: 2 invalid UTF-8 sequences replaced"));
    d.documents = 4;
    load_listening(&d, said, sizeof said);
    assert_non_null(strstr(said, "u-c: 1 invalid UTF-8 sequences replaced"));
    d.field = NULL;
    d.documents = 1;
    load_listening(&d, said, sizeof said);
    assert_non_null(strstr(said, "u-a: 2 invalid UTF-8 sequences replaced"));
    assert_null(strstr(said, "u-c"));
}

/* Ill-formed UTF-8 and lone surrogates become U+FFFD, escaped backslashes are unchanged. */
static void test_careless_text(void **state)
{
    (void)state;
    int32_t ids[2048];
    const char *lines = "{\"text\": \"ab\xff"
                        "cd \\ud83d\\ude00 \\ud83d \\\\ud83d \\udc00 ef, and some more\"}\n";
    int64_t n = encode(plain,
                       "ab\xef\xbf\xbd"
                       "cd \xf0\x9f\x98\x80 \xef\xbf\xbd \\ud83d \xef\xbf\xbd ef, and some more",
                       false, ids);
    struct data_options d = options(put_text("careless", lines), "text", LAYOUT_DOCUMENT, 4096);
    struct sequences s;
    load(&d, plain, &s);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.offset[1], n);
    assert_memory_equal(s.ids, ids, (size_t)n * sizeof *ids);
    sequences_free(&s);
    n = encode(plain,
               "a\xef\xbf\xbd"
               "b plain",
               false, ids);
    d = options(put_text("careless.txt", "a\xc3"
                                         "b plain"),
                NULL, LAYOUT_DOCUMENT, 4096);
    load(&d, plain, &s);
    assert_int_equal(s.offset[1], n);
    assert_memory_equal(s.ids, ids, (size_t)n * sizeof *ids);
    sequences_free(&s);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    char absent[sizeof dir + 7];
    snprintf(absent, sizeof absent, "%s/absent", dir);
    struct data_options d = options(absent, "text", LAYOUT_PACKED, 2);
    refuse(&d, plain, ERR_IO, absent);
    d.text = dir;
    refuse(&d, plain, ERR_IO, dir);
    d.text = path;
    put_text("bad", "{\"text\": \"good enough\"}\n\n{\"text\": \"cut\n");
    refuse(&d, plain, ERR_FORMAT, "bad:3: not JSON");
    put_text("bad", "{\"text\": \"good enough\"}\n{\"content\": \"x\"}\n{\"text\": 1}");
    refuse(&d, plain, ERR_FORMAT, "bad:2: no field \"text\"");
    put_text("bad", "{\"text\": 1}");
    refuse(&d, plain, ERR_FORMAT, "bad:1: field \"text\" is not a string");
    put_text("bad", "[\"text\"]");
    refuse(&d, plain, ERR_FORMAT, "bad:1: not a JSON object");
    put_text("bad", "");
    refuse(&d, plain, ERR_USAGE, "no sequence is left");
    refuse(&d, NULL, ERR_USAGE, "needs a tokenizer");
    char *bomb = malloc(1 << 20);
    assert_non_null(bomb);
    memset(bomb, '[', 1 << 20);
    put("bad", bomb, 1 << 20);
    refuse(&d, plain, ERR_FORMAT, "bad:1: not JSON");
    free(bomb);
    /* an error after the limit is not reached */
    put_text("late", "{\"text\": \"good enough for four tokens\"}\n{\"text\": \"cut\n");
    d.samples = 1;
    struct sequences s;
    load(&d, plain, &s);
    assert_int_equal(s.n, 1);
    sequences_free(&s);
}

/* A compressed file truncated at any byte: an error or, for a few bytes, a plain text, never a
 * partial text. */
static void test_truncated_compression(void **state)
{
    (void)state;
    char text[4096], packed[2][4096];
    json_lines(text);
    size_t n[2] = {gzip(text, strlen(text), packed[0], 4096),
                   ZSTD_compress(packed[1], 4096, text, strlen(text), 3)};
    for (int k = 0; k < 2; k++)
        for (size_t cut = 1; cut < n[k]; cut++) {
            struct err e = {0};
            struct sequences s = {0};
            char hash[33];
            struct data_options d = options(put("cut", packed[k], cut), "text", LAYOUT_PACKED, 2);
            assert_int_equal(dataset_load(&d, plain, &s, hash, &e), ERR_FORMAT);
            assert_non_null(strstr(e.text, "cut"));
        }
    packed[0][n[0] / 2] ^= 0x40;
    struct data_options d = options(put("damaged", packed[0], n[0]), "text", LAYOUT_PACKED, 2);
    refuse(&d, plain, ERR_FORMAT, "damaged");
}

/* A safetensors file of I64 tensors "two" (3, 4), "one" (10) and a float one. */
static void put_ids(int64_t bad)
{
    static const char header[] =
        "{\"two\":{\"dtype\":\"I64\",\"shape\":[3,4],\"data_offsets\":[0,96]},"
        "\"one\":{\"dtype\":\"I64\",\"shape\":[10],\"data_offsets\":[96,176]},"
        "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[176,184]}}";
    char data[1024] = {0};
    uint64_t n = sizeof header - 1;
    memcpy(data, &n, 8);
    memcpy(data + 8, header, n);
    for (int64_t i = 0; i < 22; i++) {
        int64_t id = i == 21 && bad ? bad : 100 + i;
        memcpy(data + 8 + n + 8 * (size_t)i, &id, 8);
    }
    put("ids.safetensors", data, 8 + n + 184);
}

static void test_stored_ids(void **state)
{
    (void)state;
    char ids[600], hash[33], whole[33];
    struct sequences s;
    put_ids(0);
    struct data_options d = {.ids = ids, .layout = LAYOUT_DOCUMENT, .length = 2};
    snprintf(ids, sizeof ids, "%s:two", path);
    load(&d, NULL, &s);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.offset[3], 12);
    assert_null(s.bytes);
    for (int i = 0; i < 12; i++) assert_int_equal(s.ids[i], 100 + i);
    sequences_free(&s);
    assert_int_equal(dataset_hash(&d, hash, NULL), OK);
    assert_int_equal(hash_file(path, whole, NULL), OK);
    assert_string_equal(hash, whole);

    d.skip = 1;
    d.samples = 1;
    load(&d, plain, &s);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.ids[0], 104);
    sequences_free(&s);
    d.skip = d.samples = 0;

    snprintf(ids, sizeof ids, "%s:one", path);
    d.length = 4; /* cut into blocks */
    load(&d, NULL, &s);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.ids[4], 116);
    sequences_free(&s);
    d.length = 10; /* one sequence */
    load(&d, NULL, &s);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.offset[1], 10);
    sequences_free(&s);
    d.length = 0;
    load(&d, NULL, &s);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.offset[1], 10);
    sequences_free(&s);

    put_ids(-2);
    refuse(&d, NULL, ERR_FORMAT, "tensor one: id -2 at element 9 is negative");
    put_ids(-1); /* pads the end of a row */
    load(&d, NULL, &s);
    assert_int_equal(s.offset[1], 9);
    sequences_free(&s);
    put_ids(1ll << 31);
    refuse(&d, NULL, ERR_FORMAT, "element 9 is 2147483648");
    snprintf(ids, sizeof ids, "%s:f", path);
    refuse(&d, NULL, ERR_FORMAT, "an integer type is needed");
    snprintf(ids, sizeof ids, "%s:three", path);
    refuse(&d, NULL, ERR_FORMAT, "no tensor three");
    snprintf(ids, sizeof ids, "nowhere");
    refuse(&d, NULL, ERR_USAGE, "expected FILE.safetensors:KEY");
    snprintf(ids, sizeof ids, "/nowhere:x");
    refuse(&d, NULL, ERR_IO, "/nowhere");
}

/* Rows of 2, 4, 1, 4 and 3 tokens. */
static void put_ragged(void)
{
    static const char header[] = "{\"rows\":{\"dtype\":\"I32\",\"shape\":[5,4],\"data_offsets\":"
                                 "[0,80]},\"hole\":{\"dtype\":\"I32\",\"shape\":[3],"
                                 "\"data_offsets\":[80,92]}}";
    static const int32_t rows[] = {10, 11, -1, -1, 20, 21, 22, 23, 30, -1, -1, -1,
                                   40, 41, 42, 43, 50, 51, 52, -1, 60, -1, 61};
    char data[512] = {0};
    uint64_t n = sizeof header - 1;
    memcpy(data, &n, 8);
    memcpy(data + 8, header, n);
    memcpy(data + 8 + n, rows, sizeof rows);
    put("ragged.safetensors", data, 8 + n + sizeof rows);
}

static void expect_ids(const struct sequences *s, const int32_t *want, int64_t n)
{
    assert_int_equal(s->offset[s->n], n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(s->ids[i], want[i]);
}

static void batches_are_padded_and_sorted(void **state)
{
    (void)state;
    char ids[600];
    struct sequences s;
    put_ragged();
    snprintf(ids, sizeof ids, "%s:rows", path);
    struct data_options d = {.ids = ids, .length = 8, .batch = 2, .pad_id = -1};
    load(&d, NULL, &s);
    assert_null(s.valid);
    expect_ids(&s, (const int32_t[]){10, 11, 20, 21, 22, 23, 30, 40, 41, 42, 43, 50, 51, 52}, 14);
    sequences_free(&s);

    d.padding = PADDING_MASKED;
    d.sort = SORT_LENGTH;
    load(&d, NULL, &s);
    assert_null(s.valid);
    expect_ids(&s, (const int32_t[]){20, 21, 22, 23, 40, 41, 42, 43, 50, 51, 52, 10, 11, 30}, 14);
    sequences_free(&s);

    d.padding = PADDING_COUNTED;
    refuse(&d, NULL, ERR_USAGE, "pad_id: missing");
    d.pad_id = 7;
    load(&d, plain, &s); /* batches (4, 4), (3, 2), (1) */
    expect_ids(&s, (const int32_t[]){20, 21, 22, 23, 40, 41, 42, 43, 50, 51, 52, 10, 11, 7, 30},
               15);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(s.valid[i], ((const int64_t[]){4, 4, 3, 2, 1})[i]);
    assert_int_equal(s.offset[4], 14);
    assert_int_equal(s.bytes[13], 0);
    assert_int_equal(s.bytes[11], tokenizer_id_bytes(plain, 10));
    sequences_free(&s);

    d.sort = SORT_NONE;
    d.batch = 3; /* (2, 4, 1), (4, 3) */
    load(&d, NULL, &s);
    expect_ids(&s, (const int32_t[]){10, 11, 7,  7,  20, 21, 22, 23, 30, 7,
                                     7,  7,  40, 41, 42, 43, 50, 51, 52, 7},
               20);
    assert_int_equal(s.valid[2], 1);
    sequences_free(&s);

    d.padding = PADDING_NONE;
    d.skip = 2;
    d.samples = 1;
    refuse(&d, NULL, ERR_USAGE, "no sequence has a second token");
    d.skip = d.samples = 0;
    d.min_length = 2;
    d.within_positions = true; /* the visit sets length to the model's maximum position */
    d.length = 3;
    load(&d, NULL, &s);
    expect_ids(&s, (const int32_t[]){10, 11, 20, 21, 22, 40, 41, 42, 50, 51, 52}, 11);
    sequences_free(&s);

    d = (struct data_options){.ids = ids, .length = 8, .cut = 2};
    load(&d, NULL, &s);
    expect_ids(&s, (const int32_t[]){10, 11, 20, 21, 30, 40, 41, 50, 51}, 9);
    sequences_free(&s);

    snprintf(ids, sizeof ids, "%s:hole", path);
    refuse(&d, NULL, ERR_FORMAT, "id -1 at position 1 of a row");
}

/* `follow: 2` keeps the blocks of range(0, tokens - length - 1, length). */
static void follow_leaves_tokens_behind_the_last_block(void **state)
{
    (void)state;
    static char text[4096];
    int32_t ids[1024];
    json_lines(text);
    struct data_options d = options(put_text("d.jsonl", text), "text", LAYOUT_PACKED, 2);
    int64_t all = all_ids(plain, ids);
    for (d.length = 2; d.length < 40; d.length++) {
        struct sequences s;
        int64_t blocks = 0;
        d.follow = 2;
        for (int64_t i = 0; i < all - d.length - 1; i += d.length) blocks++;
        load(&d, plain, &s);
        assert_int_equal(s.n, blocks);
        expect_ids(&s, ids, blocks * d.length);
        sequences_free(&s);
    }
}

static int large_line(char *out, int i)
{
    static const char dots[] = "............................................................";
    return sprintf(out, "%07d is line number %d of this text.%.*s", i, i, i % 60, dots);
}

/* Many batches: the order is preserved, and only the last partial block is dropped. */
static void many_batches_keep_the_order(void **state)
{
    (void)state;
    enum { LINES = 40000 };
    size_t n = 0;
    char *text = malloc((size_t)LINES * 160), line[160];
    assert_non_null(text);
    for (int i = 0; i < LINES; i++) {
        large_line(line, i);
        n += (size_t)sprintf(text + n, "{\"t\": \"%s\"}\n", line);
    }
    struct data_options d = options(put("large", text, n), "t", LAYOUT_PACKED, 64);
    struct sequences s, part;
    load(&d, plain, &s);
    int64_t at = 0, all = s.offset[s.n];
    int32_t ids[256];
    for (int i = 0; i < LINES; i++) {
        large_line(line, i);
        int64_t k = encode(plain, line, false, ids), take = k < all - at ? k : all - at;
        if (take > 0) assert_memory_equal(s.ids + at, ids, (size_t)take * sizeof *ids);
        at += k;
    }
    assert_int_equal(all, at / 64 * 64);
    d.samples = 5;
    d.skip = 1000;
    load(&d, plain, &part);
    assert_int_equal(part.n, 5);
    assert_memory_equal(part.ids, s.ids + 64000, 320 * sizeof *part.ids);
    sequences_free(&part);
    sequences_free(&s);
    free(text);
}

static int setup(void **state)
{
    (void)state;
    struct err e = {0};
    if (!mkdtemp(dir)) return 1;
    if (tokenizer_open(FIXTURES "/tokenizers/gpt2/tokenizer.json", &plain, &e) != OK ||
        tokenizer_open(FIXTURES "/tokenizers/llama3/tokenizer.json", &with_bos, &e) != OK) {
        print_error("%s\n", e.text);
        return 1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    tokenizer_close(plain);
    tokenizer_close(with_bos);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* Documents 0 to n - 1 of a longer text, as JSON lines. */
static const char *put_numbered(int n)
{
    static char text[1 << 20];
    char *at = text;
    for (int i = 0; i < n; i++) {
        at += sprintf(at, "{\"text\": \"");
        for (int k = 0; k <= i * 7 % 5; k++) at += sprintf(at, "Über %d, 日本語 and %d. ", i, k);
        at += sprintf(at, "\"}\n");
    }
    return put("numbered.jsonl", text, (size_t)(at - text));
}

static int64_t bytes_of(const struct sequences *s)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < s->offset[s->n]; i++) sum += s->bytes[i];
    return sum;
}

static void any_tokenizer_reads_the_same_bytes(void **state)
{
    (void)state;
    const char *file = put_numbered(300);
    const struct tokenizer *const both[] = {plain, with_bos};
    for (int64_t limit = 4000; limit < 4012; limit++)
        for (int draw = 0; draw < 3; draw++)
            for (int layout = LAYOUT_PACKED; layout <= LAYOUT_DOCUMENT; layout++) {
                struct sequences s[2];
                struct data_options d =
                    options(file, "text", layout, layout == LAYOUT_PACKED ? 64 : 0);
                d.bytes = limit;
                d.draw = draw;
                for (int i = 0; i < 2; i++) load(&d, both[i], &s[i]);
                assert_int_equal(bytes_of(&s[0]), bytes_of(&s[1]));
                assert_in_range(limit - bytes_of(&s[0]), 0, 3); /* a character is not cut */
                assert_true(s[0].offset[s[0].n] != s[1].offset[s[1].n]);
                for (int i = 0; i < 2; i++) {
                    for (int64_t k = 0; layout == LAYOUT_PACKED && k < s[i].n; k++) {
                        const int64_t length = s[i].offset[k + 1] - s[i].offset[k];
                        assert_in_range(length, s[i].offset[s[i].n] / s[i].n, 64);
                    }
                    sequences_free(&s[i]);
                }
            }
}

/* The documents with the smallest random numbers, in their order. */
static void a_draw_is_of_the_whole_text(void **state)
{
    (void)state;
    enum { ALL = 5000, N = 20 };
    struct data_options d = options(put_numbered(ALL), "text", LAYOUT_DOCUMENT, 0);
    int64_t want[N], last = 0;
    d.documents = N;
    for (d.draw = 1; d.draw < 4; d.draw++) {
        struct sequences s;
        const uint64_t stream = rng_stream((uint64_t)d.draw, (uint64_t)1 << 49);
        int64_t n = 0;
        for (int64_t i = 0; i < ALL; i++) {
            int64_t at = n < N ? n++ : N;
            for (;
                 at > 0 && rng_bits(stream, (uint64_t)want[at - 1]) > rng_bits(stream, (uint64_t)i);
                 at--)
                if (at < N) want[at] = want[at - 1];
            if (at < N) want[at] = i;
        }
        load(&d, plain, &s);
        assert_int_equal(s.n, N);
        for (int64_t i = 0; i < N; i++) {
            char text[200], *end = text;
            int32_t ids[200];
            for (int64_t k = 0; k <= want[i] * 7 % 5; k++)
                end += sprintf(end, "Über %d, 日本語 and %d. ", (int)want[i], (int)k);
            const int64_t count = encode(plain, text, false, ids);
            assert_int_equal(count, s.offset[i + 1] - s.offset[i]);
            assert_memory_equal(ids, s.ids + s.offset[i], (size_t)count * sizeof *ids);
        }
        assert_true(want[0] != last);
        last = want[0];
        sequences_free(&s);
    }
    d.documents = ALL;
    d.draw = 0;
    d.bytes = 100;
    struct sequences s;
    load(&d, plain, &s); /* the first ones */
    assert_in_range(bytes_of(&s), 97, 100);
    sequences_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_in_every_wrapping),
        cmocka_unit_test(test_storage_that_fails_once),
        cmocka_unit_test(test_plain_text_is_one_document),
        cmocka_unit_test(test_one_document_a_sequence),
        cmocka_unit_test(test_documents_of_their_own_length),
        cmocka_unit_test(test_packed_with_separator),
        cmocka_unit_test(the_separator_eos_is_the_tokenizers),
        cmocka_unit_test(test_several_texts),
        cmocka_unit_test(skip_samples_and_tokens_limit),
        cmocka_unit_test(test_globs_are_sorted),
        cmocka_unit_test(test_alternatives_are_bounded),
        cmocka_unit_test(test_careless_text),
        cmocka_unit_test(test_replaced_is_reported),
        cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(test_truncated_compression),
        cmocka_unit_test(test_stored_ids),
        cmocka_unit_test(batches_are_padded_and_sorted),
        cmocka_unit_test(follow_leaves_tokens_behind_the_last_block),
        cmocka_unit_test(many_batches_keep_the_order),
        cmocka_unit_test(any_tokenizer_reads_the_same_bytes),
        cmocka_unit_test(a_draw_is_of_the_whole_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
