/* safetensors: round trips, and an error message for every kind of invalid file. */
#include "../scratch.h"
#include "checkpoint/safetensors.h"
#include "util/fsx.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/qtraj_safetensors_XXXXXX";
static char path[512];

static void put(const char *name, const void *data, size_t n)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path); /* rewriting a truncated file may wait for the disk */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A file of this header, n_header bytes of it, and n_data bytes 0, 1, 2, ... */
static void put_file(const char *header, size_t n_header, size_t n_data)
{
    char *bytes = malloc(8 + n_header + n_data);
    uint64_t length = n_header;
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n_header + i] = (char)i;
    put("made.safetensors", bytes, 8 + n_header + n_data);
    free(bytes);
}

static void refuse(enum status want, const char *part)
{
    struct err e = {0};
    struct safetensors s = {.fd = -1};
    assert_int_equal(safetensors_open(path, &s, &e), want);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
    assert_non_null(strstr(e.text, path));
    assert_null(s.entries);
}

static void refuse_header(const char *header, size_t n_data, const char *part)
{
    put_file(header, strlen(header), n_data);
    refuse(ERR_FORMAT, part);
}

static void open_ok(struct safetensors *s)
{
    struct err e = {0};
    if (safetensors_open(path, s, &e) != OK) fail_msg("%s", e.text);
}

static void test_every_dtype(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"f64\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"i64\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[16,32]},"
        "\"i32\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[32,40]},"
        "\"f32\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[40,48]},"
        "\"f16\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[48,52]},"
        "\"none\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[52,52]},"
        "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[52,56]},"
        "\"i16\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[56,60]},"
        "\"i8\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[60,62]},"
        "\"u8\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[62,64]},"
        "\"bool\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[64,66]},"
        "\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[66,67],\"new\":[1]}}  ";
    char data[8 + sizeof header - 1 + 67], *p = data + 8 + sizeof header - 1;
    const double f64[] = {1 + 0x1p-24, -2};
    const int64_t i64[] = {INT32_MIN, INT32_MAX};
    const int32_t i32[] = {-5, 1 << 30};
    const float f32[] = {0x1.fp-130f, INFINITY};
    const uint16_t f16[] = {0x3555, 0x8001}, bf16[] = {0x3eab, 0xff80};
    const int16_t i16[] = {-32768, 7};
    uint64_t n = sizeof header - 1;
    memcpy(data, &n, 8);
    memcpy(data + 8, header, n);
    memcpy(p, f64, 16);
    memcpy(p + 16, i64, 16);
    memcpy(p + 32, i32, 8);
    memcpy(p + 40, f32, 8);
    memcpy(p + 48, f16, 4);
    memcpy(p + 52, bf16, 4);
    memcpy(p + 56, i16, 4);
    memcpy(p + 60, "\x80\x05\xff\x00\x01\x00\x2a", 7);
    put("dtypes", data, sizeof data);
    static const struct {
        const char *name;
        double value[2];
        int is_float;
    } want[] = {{"f64", {1, -2}, 1},
                {"f32", {0x1.fp-130, INFINITY}, 1},
                {"f16", {0x1.554p-2, -0x1p-24}, 1},
                {"bf16", {0x1.56p-2, -INFINITY}, 1},
                {"i64", {INT32_MIN, INT32_MAX}, 0},
                {"i32", {-5, 1 << 30}, 0},
                {"i16", {-32768, 7}, 0},
                {"i8", {-128, 5}, 0},
                {"u8", {255, 0}, 0},
                {"bool", {1, 0}, 0}};
    struct safetensors s;
    open_ok(&s);
    assert_int_equal(s.n, 12);
    for (int64_t i = 1; i < s.n; i++)
        assert_true(strcmp(s.entries[i - 1].name, s.entries[i].name) < 0);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        float f[2];
        int32_t k[2];
        const struct tensor_entry *t = safetensors_find(&s, want[i].name);
        assert_non_null(t);
        assert_int_equal(t->n_elements, 2);
        struct err e = {0};
        assert_int_equal(safetensors_read_range(&s, t, 0, t->n_elements, f, &e),
                         want[i].is_float ? OK : ERR_FORMAT);
        err_clear(&e);
        assert_int_equal(safetensors_read_i32(&s, t, k, &e), want[i].is_float ? ERR_FORMAT : OK);
        for (int j = 0; j < 2; j++)
            assert_true((want[i].is_float ? (double)f[j] : k[j]) == want[i].value[j]);
    }
    const struct tensor_entry *t = safetensors_find(&s, "scalar");
    int32_t answer;
    assert_int_equal(t->n_dims, 0);
    assert_int_equal(safetensors_read_i32(&s, t, &answer, NULL), OK);
    assert_int_equal(answer, 42);
    t = safetensors_find(&s, "none");
    assert_int_equal(t->n_bytes, 0);
    assert_int_equal(t->shape[1], 7);
    assert_null(safetensors_find(&s, "f3"));
    safetensors_close(&s);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void bad_headers_are_refused(void **state)
{
    (void)state;
    refuse_header("[1, 2]", 0, "does not start with '{'");
    refuse_header(" {}", 0, "does not start with '{'");
    refuse_header("{}", 1, "1 bytes after the last tensor");
    refuse_header("{} x", 0, ":1:4: ");
    refuse_header("{\"a\":", 0, ":1:5: ");
    refuse_header("{\"a\":1}", 0, "tensor a: not an object");
    refuse_header("{\"a\xff\":1}", 0, "unable to decode byte 0xff");
    refuse_header("{\"a\\u0000b\":1}", 0, "made.safetensors:1");
    refuse_header("{\"__metadata__\":[]}", 0, "__metadata__");
    refuse_header("{\"__metadata__\":{\"n\":1}}", 0, "__metadata__: n");
    refuse_header("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing");
    refuse_header("{" T("a", "F8_E4M3", "[4]", "[0,4]") "}", 4, "dtype F8_E4M3 is not supported");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is not an array");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets are not");
    refuse_header("{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "9 dimensions");
    refuse_header("{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "dimension 0");
    refuse_header("{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "dimension 0");
    refuse_header("{" T("a", "F32", "[99999999999999999999]", "[0,4]") "}", 4, "too big");
    refuse_header("{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "63 bits");
    refuse_header("{" T("a", "F32", "[4611686018427387904]", "[0,4]") "}", 4, "63 bits");
    refuse_header("{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "not a range");
    refuse_header("{" T("a", "F32", "[1]", "[4,0]") "}", 4, "not a range");
    refuse_header("{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "not two integers");
    refuse_header("{" T("a", "F32", "[1]", "[0,9223372036854775807]") "}", 4, "ends at byte");
    refuse_header("{" T("a", "F32", "[2]", "[0,8]") "}", 7, "ends at byte 8 of 7");
    refuse_header("{" T("a", "F32", "[1]", "[0,8]") "}", 8,
                  "ask for 4 bytes, its data_offsets for 8");
    refuse_header("{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8,
                  "duplicate");
    refuse_header("{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8,
                  "tensor b overlaps tensor a");
    refuse_header("{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4,
                  "overlaps");
    refuse_header("{" T("b", "F32", "[1]", "[8,12]") "," T("a", "F32", "[1]", "[0,4]") "}", 12,
                  "4 bytes before tensor b belong to no tensor");
    refuse_header("{" T("a", "F32", "[1]", "[4,8]") "}", 8, "4 bytes before tensor a");
}

static void bad_lengths_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *part;
    } cases[] = {{0, "header of 0 bytes"},
                 {1, "header of 1 bytes"},
                 {9, "header of 9 bytes in a file of 16"},
                 {16 << 20, "header of 16777216 bytes in a file of 16"},
                 {(16 << 20) + 1, "more than the 16777216"},
                 {100000000, "more than the 16777216"},
                 {1ull << 63, "more than the 16777216"},
                 {UINT64_MAX, "more than the 16777216"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[16] = "........{}      ";
        memcpy(bytes, &cases[i].length, 8);
        put("length", bytes, 16);
        refuse(ERR_FORMAT, cases[i].part);
    }
    put("empty", "", 0);
    refuse(ERR_FORMAT, "0 bytes are too few");
    snprintf(path, sizeof path, "%s/absent", dir);
    refuse(ERR_IO, "No such file");
    snprintf(path, sizeof path, "%s", dir);
    refuse(ERR_IO, "not a regular file");
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Deep nesting and large size end with a message: n times `what` after "{\"a\":", then `tail`. Each
 * takes a second without sanitizers; the time limit allows for sanitizers. */
static void refuse_repeated(const char *what, size_t n, const char *tail, const char *part)
{
    size_t one = strlen(what), last = strlen(tail), length = 5 + one * n + last;
    char *header = malloc(length + 1);
    assert_non_null(header);
    memcpy(header, "{\"a\":", 5);
    for (size_t i = 0; i < n; i++) memcpy(header + 5 + i * one, what, one);
    memcpy(header + 5 + n * one, tail, last + 1);
    put_file(header, length, 0);
    double start = cpu_seconds();
    refuse(ERR_FORMAT, part);
    double took = cpu_seconds() - start;
    if (took > 5) fail_msg("%g seconds for %zu times %s", took, n, what);
    free(header);
}

static void bombs_are_refused(void **state)
{
    (void)state;
    refuse_repeated("[", 100000, "", "nested deeper than 8 levels");
    refuse_repeated("[", 16 << 20 >> 1, "", "nested deeper than 8 levels");
    refuse_repeated("{\"a\":", 100000, "", "nested deeper than 8 levels");
    refuse_repeated(" ", (16 << 20) - 6, "", "made.safetensors:1:");
    refuse_repeated("[1", 1, "", "made.safetensors:1:");
    char *list = malloc(16 << 20);
    assert_non_null(list);
    size_t n = (size_t)sprintf(list, "[1");
    while (n < (16 << 20) - 16) n += (size_t)sprintf(list + n, ",1");
    sprintf(list + n, "]}");
    refuse_repeated(list, 1, "", "list of more than 64 values");
    n = (size_t)sprintf(list, "{\"\\\"[[[[[[[[[[[[[[\":{}");
    for (int i = 0; n < (16 << 20) - 32; i++) n += (size_t)sprintf(list + n, ",\"%d\":{}", i);
    sprintf(list + n, "}}");
    refuse_repeated(list, 1, "", "too short to describe tensors");
    free(list);
}

static char *read_fixture(size_t *n)
{
    char *bytes;
    struct err e = {0};
    if (fsx_read(FIXTURES "/models/llama/model.safetensors", 0, &bytes, n, &e) != OK)
        fail_msg("%s", e.text);
    return bytes;
}

static void test_truncated_everywhere(void **state)
{
    (void)state;
    size_t n;
    char *bytes = read_fixture(&n);
    uint64_t x = 1;
    for (int i = 0; i < 350; i++) {
        size_t cut = (size_t)i;
        if (i >= 300)
            cut = (size_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 20) % n;
        put("cut", bytes, cut);
        refuse(ERR_FORMAT, cut < 8 ? "too few" : "cut short");
    }
    put("cut", bytes, n - 1);
    refuse(ERR_FORMAT, "cut short");
    put("whole", bytes, n);
    struct safetensors s;
    open_ok(&s);
    safetensors_close(&s);
    free(bytes);
}

/* Every byte of the header flipped, one at a time: the file is opened or refused, never a crash. */
static void test_flipped_header(void **state)
{
    (void)state;
    static const char header[] =
        "{" T("a", "F32", "[1,2]", "[0,8]") "," T("b", "I64", "[1]", "[8,16]") "}";
    int refused = 0;
    for (size_t i = 0; i < sizeof header - 1; i++)
        for (int bit = 0; bit < 8; bit++) {
            char bad[sizeof header];
            memcpy(bad, header, sizeof bad);
            bad[i] = (char)(bad[i] ^ 1 << bit);
            put_file(bad, sizeof header - 1, 16);
            struct safetensors s;
            struct err e = {0};
            enum status st = safetensors_open(path, &s, &e);
            if (st == OK)
                safetensors_close(&s);
            else
                refused += e.text[0] != '\0';
        }
    assert_true(refused > 500);
}

static void test_cut_after_opening(void **state)
{
    (void)state;
    size_t n;
    char *bytes = read_fixture(&n);
    float *dst;
    struct safetensors s;
    put("later", bytes, n);
    open_ok(&s);
    const struct tensor_entry *last = &s.entries[0];
    for (int64_t i = 0; i < s.n; i++)
        if (s.entries[i].offset > last->offset) last = &s.entries[i];
    dst = malloc((size_t)last->n_elements * sizeof *dst);
    assert_non_null(dst);
    struct err e = {0};
    assert_int_equal(safetensors_read_range(&s, last, 0, last->n_elements, dst, &e), OK);
    assert_int_equal(truncate(path, (off_t)n - 3), 0);
    assert_int_equal(safetensors_read_range(&s, last, 0, last->n_elements, dst, &e), ERR_IO);
    assert_non_null(strstr(e.text, last->name));
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "3 bytes too early"));
    safetensors_close(&s);
    free(dst);
    free(bytes);
}

static void test_hash_sees_size_header_and_data(void **state)
{
    (void)state;
    static const char header[] = "{" T("a", "U8", "[200000]", "[0,200000]") "}";
    static const char other[] = "{" T("b", "U8", "[200000]", "[0,200000]") "}";
    struct safetensors s;
    char hash[4][33];
    put_file(header, sizeof header - 1, 200000);
    open_ok(&s);
    memcpy(hash[0], s.hash, 33);
    safetensors_close(&s);
    static const long places[] = {0, 199999}; /* the samples include both ends */
    for (int i = 0; i < 2; i++) {
        put_file(header, sizeof header - 1, 200000);
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        fseek(f, (long)(8 + sizeof header - 1) + places[i], SEEK_SET);
        fputc(0x55, f);
        fclose(f);
        open_ok(&s);
        memcpy(hash[i + 1], s.hash, 33);
        safetensors_close(&s);
    }
    put_file(other, sizeof other - 1, 200000);
    open_ok(&s);
    memcpy(hash[3], s.hash, 33);
    safetensors_close(&s);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(hash[i], hash[j]);
}

static void test_written_comes_back(void **state)
{
    (void)state;
    static const struct tensor_shape tensors[] = {{"z", DTYPE_F32, 2, {3, 5}},
                                                  {"empty", DTYPE_F32, 1, {0}},
                                                  {"a \"quoted\" \xc3\xa9", DTYPE_F32, 0, {0}},
                                                  {"m", DTYPE_F32, 1, {7}}};
    float data[23];
    for (int i = 0; i < 23; i++) data[i] = (float)i * 0.37f - 2;
    data[3] = NAN;
    struct safetensors_out *o;
    struct err e = {0};
    snprintf(path, sizeof path, "%s/written.safetensors", dir);
    assert_int_equal(safetensors_create(path, tensors, 4, &o, &e), OK);
    assert_int_equal(safetensors_append(o, data, 4, &e), OK); /* in pieces */
    assert_int_equal(safetensors_append(o, data + 4, 11, &e), OK);
    assert_int_equal(safetensors_append(o, data, 0, &e), OK);
    assert_int_equal(safetensors_append(o, data + 15, 1, &e), OK);
    assert_false(fsx_is_file(path));
    assert_int_equal(safetensors_append(o, data + 16, 7, &e), OK);
    assert_int_equal(safetensors_commit(o, &e), OK);
    safetensors_out_close(o);
    struct safetensors s;
    open_ok(&s);
    assert_int_equal(s.n, 4);
    int64_t at = 0;
    for (int i = 0; i < 4; i++) {
        float got[15];
        const struct tensor_entry *t = safetensors_find(&s, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->n_dims, tensors[i].n_dims);
        assert_memory_equal(t->shape, tensors[i].shape, (size_t)t->n_dims * 8);
        assert_int_equal(t->offset % 4, 0);
        assert_int_equal(safetensors_read_range(&s, t, 0, t->n_elements, got, &e), OK);
        assert_memory_equal(got, data + at, (size_t)t->n_bytes);
        at += t->n_elements;
    }
    safetensors_close(&s);
}

/* Tensors of all types are aligned to their elements, whatever the order of their data. */
static void test_types_are_aligned(void **state)
{
    (void)state;
    static const struct tensor_shape tensors[] = {{"bytes", DTYPE_U8, 1, {3}},
                                                  {"half", DTYPE_BF16, 1, {5}},
                                                  {"single", DTYPE_F32, 1, {3}},
                                                  {"more bytes", DTYPE_BOOL, 1, {1}},
                                                  {"double", DTYPE_F64, 1, {2}}};
    unsigned char data[64];
    struct safetensors_out *o;
    struct safetensors s;
    struct err e = {0};
    int64_t at = 0;
    for (int i = 0; i < 64; i++) data[i] = (unsigned char)(i * 7 + 1);
    snprintf(path, sizeof path, "%s/types.safetensors", dir);
    assert_int_equal(safetensors_create(path, tensors, 5, &o, &e), OK);
    for (int i = 0; i < 5; i++) {
        assert_non_null(safetensors_next(o));
        assert_int_equal(safetensors_append(o, data + at, tensors[i].shape[0], &e), OK);
        at += tensors[i].shape[0] * (int64_t)dtype_size(tensors[i].dtype);
    }
    assert_null(safetensors_next(o));
    assert_int_equal(safetensors_commit(o, &e), OK);
    safetensors_out_close(o);
    open_ok(&s);
    at = 0;
    for (int i = 0; i < 5; i++) {
        const struct tensor_entry *t = safetensors_find(&s, tensors[i].name);
        unsigned char got[64];
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->offset % (int64_t)dtype_size(t->dtype), 0);
        assert_int_equal(tensor_file_read(s.fd, path, "x", t->offset, got, t->n_bytes, &e), OK);
        assert_memory_equal(got, data + at, (size_t)t->n_bytes);
        at += t->n_bytes;
    }
    safetensors_close(&s);
}

static void test_writer_refuses(void **state)
{
    (void)state;
    struct err e = {0};
    struct safetensors_out *o = NULL;
    struct tensor_shape tensors[] = {{"a", DTYPE_F32, 1, {2}}, {"b", DTYPE_F32, 1, {3}}};
    float data[5] = {0};
    snprintf(path, sizeof path, "%s/never.safetensors", dir);
    assert_int_equal(safetensors_create(path, tensors, 2, &o, &e), OK);
    assert_int_equal(safetensors_append(o, data, 3, &e), ERR_SHAPE); /* crosses into b */
    err_clear(&e);
    assert_int_equal(safetensors_append(o, data, 2, &e), OK);
    assert_int_equal(safetensors_append(o, data, 2, &e), OK);
    assert_int_equal(safetensors_commit(o, &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, "tensor b has 2 of its 3"));
    err_clear(&e);
    assert_int_equal(safetensors_append(o, data, 1, &e), OK);
    assert_int_equal(safetensors_append(o, data, 1, &e), ERR_SHAPE);
    safetensors_out_close(o);
    assert_false(fsx_is_file(path));
    char temporary[600];
    assert_int_equal(files_named(dir, "never.safetensors.tmp.*"), 0);

    tensors[1].name = "a";
    err_clear(&e);
    assert_int_equal(safetensors_create(path, tensors, 2, &o, &e), ERR_USAGE);
    tensors[1].name = "\xff";
    err_clear(&e);
    assert_int_equal(safetensors_create(path, tensors, 2, &o, &e), ERR_FORMAT);
    tensors[1] = (struct tensor_shape){"b", DTYPE_F32, 2, {1ll << 40, 1ll << 40}};
    err_clear(&e);
    assert_int_equal(safetensors_create(path, tensors, 2, &o, &e), ERR_SHAPE);
    err_clear(&e);
    snprintf(temporary, sizeof temporary, "%s/absent/x", dir);
    assert_int_equal(safetensors_create(temporary, tensors, 1, &o, &e), ERR_IO);
    assert_non_null(strstr(e.text, temporary));
    assert_null(strstr(e.text, ".tmp.")); /* the name that the user gave */
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_flipped_header),
        cmocka_unit_test(test_cut_after_opening),
        cmocka_unit_test(test_hash_sees_size_header_and_data),
        cmocka_unit_test(test_written_comes_back),
        cmocka_unit_test(test_types_are_aligned),
        cmocka_unit_test(test_writer_refuses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
