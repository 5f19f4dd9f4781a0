/* pytorch: archives built here byte by byte. Everything that a state dict may contain is read,
 * everything else is refused. */
#include "checkpoint/tensor_file.h"
#include "checkpoint/weight_format.h"
#include "scratch.h"
#include "util/clock.h"
#include "util/fsx.h"

/* ---- a zip archive of stored members ---- */

struct bytes {
    char data[1 << 16];
    size_t n;
};

static void add(struct bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->data);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void add_number(struct bytes *b, uint64_t value, size_t size)
{
    add(b, &value, size);
}

struct archive {
    struct bytes file, directory;
    int n, method, flags;
    int zip64; /* sizes, offsets and the end record in zip64 form */
};

static struct archive *archive_new(void)
{
    struct archive *a = calloc(1, sizeof *a);
    assert_non_null(a);
    return a;
}

static void add_member(struct archive *a, const char *name, const void *data, size_t n)
{
    uint64_t at = a->file.n, big = 0xffffffff, length = strlen(name), padding = at % 13;
    add(&a->file, "PK\3\4\0\0", 6);
    add_number(&a->file, (uint64_t)a->flags, 2);
    add_number(&a->file, (uint64_t)a->method, 2);
    add_number(&a->file, 0, 8); /* time and sizes: not read here */
    add_number(&a->file, 0, 8);
    add_number(&a->file, length, 2);
    add_number(&a->file, padding, 2);
    add(&a->file, name, length);
    memset(a->file.data + a->file.n, 'Z', padding);
    a->file.n += padding;
    add(&a->file, data, n);

    struct bytes *d = &a->directory;
    add(d, "PK\1\2\0\0\0\0", 8);
    add_number(d, (uint64_t)a->flags, 2);
    add_number(d, (uint64_t)a->method, 2);
    add_number(d, 0, 8); /* time and checksum */
    add_number(d, a->zip64 ? big : n, 4);
    add_number(d, a->zip64 ? big : n, 4);
    add_number(d, length, 2);
    add_number(d, a->zip64 ? 6 + 28 : 0, 2);
    add_number(d, 0, 8);
    add_number(d, 0, 2);
    add_number(d, a->zip64 ? big : at, 4);
    add(d, name, length);
    if (a->zip64) {
        add(d, "\x75\x70\2\0..", 6); /* another extra field first */
        add_number(d, 1, 2);
        add_number(d, 24, 2);
        add_number(d, n, 8);
        add_number(d, n, 8);
        add_number(d, at, 8);
    }
    a->n++;
}

static const char *archive_put(struct archive *a, const char *name, const char *comment)
{
    uint64_t offset = a->file.n, size = a->directory.n, n = (uint64_t)a->n;
    add(&a->file, a->directory.data, a->directory.n);
    if (a->zip64) {
        uint64_t record = a->file.n;
        add(&a->file, "PK\6\6", 4);
        add_number(&a->file, 44, 8);
        add_number(&a->file, 0, 8);
        add_number(&a->file, 0, 4);
        add_number(&a->file, n, 8);
        add_number(&a->file, n, 8);
        add_number(&a->file, size, 8);
        add_number(&a->file, offset, 8);
        add(&a->file, "PK\6\7", 4);
        add_number(&a->file, 0, 4);
        add_number(&a->file, record, 8);
        add_number(&a->file, 1, 4);
        n = 0xffff;
        size = offset = 0xffffffff;
    }
    add(&a->file, "PK\5\6", 4);
    add_number(&a->file, 0, 4);
    add_number(&a->file, n, 2);
    add_number(&a->file, n, 2);
    add_number(&a->file, size, 4);
    add_number(&a->file, offset, 4);
    add_number(&a->file, strlen(comment), 2);
    add(&a->file, comment, strlen(comment));
    const char *path = scratch_put(name, a->file.data, a->file.n);
    free(a);
    return path;
}

/* ---- a pickle ---- */

#define GLOBAL(module, name) "c" module "\n" name "\n"
#define REBUILD              GLOBAL("torch._utils", "_rebuild_tensor_v2")
#define TEXT1(one)           "X\1\0\0\0" one
/* a typed storage: ("storage", class, key, "cpu", n) */
#define STORAGE(type, key, n)                                                                      \
    "(X\7\0\0\0storage" GLOBAL("torch", type "Storage") TEXT1(key) "X\3\0\0\0cpuK" n "tQ"
#define TAIL "\x89" GLOBAL("collections", "OrderedDict") ")RtR"
/* shape (2, 3), strides (3, 1) */
#define TENSOR(type, key, n, offset)                                                               \
    REBUILD "(" STORAGE(type, key, n) "K" offset "K\2K\3\x86K\3K\1\x86" TAIL

static void add_text(struct bytes *b, const char *text)
{
    add(b, text, strlen(text));
}

/* The archive of one pickle (a literal: it may hold NULs) and a storage data/0 of 6 floats. */
static const char *put_pickle(const char *pickle, size_t n)
{
    float six[6];
    for (int i = 0; i < 6; i++) six[i] = (float)i + 0.5f;
    struct archive *a = archive_new();
    add_member(a, "m/data.pkl", pickle, n);
    add_member(a, "m/data/0", six, sizeof six);
    return archive_put(a, "made.bin", "");
}
#define PUT(pickle) put_pickle("\x80\2" pickle ".", sizeof("\x80\2" pickle ".") - 1)
/* a dict of the one tensor "w" */
#define PUT_TENSOR(tensor) PUT("}" TEXT1("w") tensor "s")

static void refuse_path(const char *path, const char *part)
{
    struct err e = {0};
    struct safetensors s = {.fd = -1};
    assert_int_equal(format_pytorch.open(path, &s, &e), ERR_FORMAT);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
    assert_non_null(strstr(e.text, path));
}

static struct safetensors open_path(const char *path)
{
    struct err e = {0};
    struct safetensors s = {.fd = -1};
    if (format_pytorch.open(path, &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

static void check_tensor(struct safetensors s, const char *name)
{
    const struct tensor_entry *t = safetensors_find(&s, name);
    float got[6];
    assert_non_null(t);
    assert_int_equal(t->dtype, DTYPE_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(safetensors_read_range(&s, t, 0, t->n_elements, got, NULL), OK);
    for (int i = 0; i < 6; i++) assert_true(got[i] == (float)i + 0.5f);
    safetensors_close(&s);
}

#define FLOATS TENSOR("Float", "0", "\6", "\0")

static void test_what_state_dicts_hold(void **state)
{
    (void)state;
    check_tensor(open_path(PUT_TENSOR(FLOATS)), "w");
    /* an OrderedDict with _metadata, SETITEMS, memo, LONG1, a parameter */
    check_tensor(
        open_path(PUT(GLOBAL("collections", "OrderedDict") ")Rq\0(" TEXT1("w")
                          GLOBAL("torch._utils", "_rebuild_parameter") "(" FLOATS "q\1\x88" GLOBAL(
                              "collections", "OrderedDict") ")RtRu}X\x9\0\0\0_metadatah\0sb")),
        "w");
    /* a subclass by torch._tensor._rebuild_from_type_v2, and its attributes */
    check_tensor(
        open_path(PUT_TENSOR(GLOBAL("torch._tensor", "_rebuild_from_type_v2") "(" REBUILD GLOBAL(
            "torch", "Tensor") "(" STORAGE("Float", "0", "\6") "K\0K\2K\3\x86K\3K\1"
                                                               "\x86\x89Nt}tR")),
        "w");
}

/* Two names for one storage, and views into it. */
static void test_shared_storage(void **state)
{
    (void)state;
    struct safetensors s =
        open_path(PUT("}(" TEXT1("b") FLOATS "q\0" TEXT1("a") "h\0" TEXT1("v") REBUILD
                      "(" STORAGE("Float", "0", "\6") "K\4K\2\x85K\1\x85" TAIL TEXT1("s") REBUILD
                      "(" STORAGE("Float", "0", "\6") "K\5))" TAIL "u"));
    assert_int_equal(s.n, 4);
    const struct tensor_entry *a = safetensors_find(&s, "a"), *b = safetensors_find(&s, "b");
    assert_int_equal(a->offset, b->offset);
    float got[2];
    const struct tensor_entry *v = safetensors_find(&s, "v"), *scalar = safetensors_find(&s, "s");
    assert_int_equal(safetensors_read_range(&s, v, 0, v->n_elements, got, NULL), OK);
    assert_true(got[0] == 4.5f && got[1] == 5.5f);
    assert_int_equal(scalar->n_dims, 0);
    assert_int_equal(safetensors_read_range(&s, scalar, 0, scalar->n_elements, got, NULL), OK);
    assert_true(got[0] == 5.5f);
    check_tensor(s, "a");
}

static void every_type_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum dtype dtype;
    } types[] = {{"Double", DTYPE_F64},    {"Float", DTYPE_F32}, {"Half", DTYPE_F16},
                 {"BFloat16", DTYPE_BF16}, {"Long", DTYPE_I64},  {"Int", DTYPE_I32},
                 {"Short", DTYPE_I16},     {"Char", DTYPE_I8},   {"Byte", DTYPE_U8},
                 {"Bool", DTYPE_BOOL}};
    char zeros[48] = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct bytes p = {.n = 0};
        add(&p, "\x80\2}" TEXT1("w"), 9);
        add_text(&p, REBUILD "(");
        add(&p, "(X\7\0\0\0storage", 13);
        add_text(&p, "ctorch\n");
        add_text(&p, types[i].type);
        add_text(&p, "Storage\n");
        add(&p, TEXT1("0") "X\3\0\0\0cpuK\6tQK\0K\6\x85K\1\x85", 6 + 8 + 4 + 2 + 3 + 3);
        add_text(&p, TAIL "s.");
        struct archive *a = archive_new();
        add_member(a, "m/data.pkl", p.data, p.n);
        add_member(a, "m/byteorder", "little", 6);
        add_member(a, "m/data/0", zeros, 6 * dtype_size(types[i].dtype));
        struct safetensors s = open_path(archive_put(a, "dtype.bin", ""));
        assert_int_equal(s.entries[0].dtype, types[i].dtype);
        assert_int_equal(s.entries[0].n_elements, 6);
        safetensors_close(&s);
    }
}

/* Only the known names are accepted, and a known one only in its proper role. */
static void test_foreign_globals(void **state)
{
    (void)state;
    refuse_path(PUT(GLOBAL("os", "system") "X\4\0\0\0true\x85R"), "os.system");
    refuse_path(PUT("cbuiltins\neval\n" TEXT1("1") "\x85R"), "builtins.eval");
    refuse_path(PUT("X\5\0\0\0posixX\6\0\0\0system\x93)R"), "posix.system");
    refuse_path(PUT_TENSOR(GLOBAL("torch._utils", "_rebuild_sparse_tensor") ")R"),
                "_rebuild_sparse_tensor");
    refuse_path(PUT_TENSOR(GLOBAL("torch", "FloatStorage") ")R"), "a call of torch.FloatStorage");
    refuse_path(PUT_TENSOR("(X\7\0\0\0storage" REBUILD TEXT1("0") "X\3\0\0\0cpuK\6tQ"),
                "not a typed storage");
    refuse_path(PUT_TENSOR("(X\7\0\0\0storage" GLOBAL("torch", "QInt8Storage") "tQ"),
                "torch.QInt8Storage");
    refuse_path(PUT_TENSOR(GLOBAL("torch._tensor", "_rebuild_from_type_v2") "(" GLOBAL(
                    "collections", "OrderedDict") GLOBAL("torch", "Tensor") ")NtR"),
                "subclass of Tensor");
    refuse_path(PUT("i"), "instruction 0x69");
    refuse_path(PUT("R"), "stack is empty");
    refuse_path(PUT("}\x81"), "instruction 0x81");
}

static void test_damaged_pickles(void **state)
{
    (void)state;
    refuse_path(put_pickle("", 0), "not a pickle");
    refuse_path(put_pickle("}.", 2), "not a pickle");
    refuse_path(put_pickle("\x80\1}.", 4), "protocol 1");
    refuse_path(put_pickle("\x80\2", 2), "ends without a result");
    refuse_path(put_pickle("\x80\2}", 3), "ends without a result");
    refuse_path(put_pickle("\x80\2X\xff\xff\xff\x7fhi", 9), "ends inside an instruction");
    refuse_path(put_pickle("\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi", 13), "ends inside");
    refuse_path(PUT(""), "stack is empty");
    refuse_path(PUT("]"), "holds no state dict");
    refuse_path(PUT("}u"), "no mark");
    refuse_path(PUT("(u"), "no container below");
    refuse_path(PUT("}(" TEXT1("w") "u"), "key without a value");
    refuse_path(PUT("](K\1K\2u"), "not a container");
    refuse_path(PUT("}(s"), "stack is empty");
    refuse_path(PUT("}(\x86"), "stack is empty");
    refuse_path(PUT("h\1"), "not set");
    refuse_path(PUT("}r\xff\xff\xff\x7f"), "out of order");
    refuse_path(PUT("K\1)R"), "not a function");
    refuse_path(PUT(GLOBAL("collections", "OrderedDict") "K\1R"), "not a tuple");
    refuse_path(PUT("K\1}b"), "not a dict");
    refuse_path(PUT("\x8a\xff"), "integer of 255 bytes");
    refuse_path(PUT("}K\1K\2s"), "not a text");
    refuse_path(PUT("}" TEXT1("w") "K\2s"), "entry w is not a tensor");
    refuse_path(PUT("}" TEXT1("\0") FLOATS "s"), "NUL");
    refuse_path(PUT("}(" TEXT1("w") FLOATS TEXT1("w") FLOATS "u"), "it has tensor w twice");
    refuse_path(PUT("}" TEXT1("w") "}q\0" TEXT1("x") "h\0ss"),
                "entry w is not a tensor"); /* a cycle */
}

#define SHAPED(shape, stride, offset)                                                              \
    REBUILD "(" STORAGE("Float", "0", "\6") offset shape stride TAIL

static void test_tensors_that_do_not_fit(void **state)
{
    (void)state;
    refuse_path(PUT_TENSOR(SHAPED("K\3K\2\x86", "K\1K\3\x86", "K\0")),
                "tensor w of shape [3, 2] is stored with strides [1, 3]");
    refuse_path(PUT_TENSOR(SHAPED("K\2K\2\x86", "K\3K\1\x86", "K\0")), "strides [3, 1]");
    refuse_path(PUT_TENSOR(SHAPED("K\2K\3\x86", "K\0K\1\x86", "K\0")),
                "strides [0, 1]"); /* expanded */
    refuse_path(PUT_TENSOR(SHAPED("K\7\x85", "K\1\x85", "K\0")),
                "reaches beyond its storage m/data/0");
    refuse_path(PUT_TENSOR(SHAPED("K\6\x85", "K\1\x85", "K\1")), "reaches beyond");
    refuse_path(PUT_TENSOR(SHAPED("K\6\x85", "K\1\x85", "J\xff\xff\xff\xff")), "reaches beyond");
    refuse_path(PUT_TENSOR(SHAPED("K\1\x85", "K\1\x85", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f")),
                "reaches beyond");
    refuse_path(PUT_TENSOR(SHAPED("J\xff\xff\xff\xff\x85", "K\1\x85", "K\0")), "non-negative");
    refuse_path(PUT_TENSOR(SHAPED("\x8a\x8\0\0\0\0\0\0\0\x7f\x85", "K\1\x85", "K\0")),
                "does not fit");
    refuse_path(PUT_TENSOR(SHAPED("K\6\x85", "K\1K\1\x86", "K\0")), "1 dimensions and 2 strides");
    refuse_path(
        PUT_TENSOR(SHAPED("(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "K\0")),
        "9 dimensions");
    refuse_path(PUT_TENSOR(TENSOR("Float", "1", "\6", "\0")),
                "storage data/1 is not in the archive");
    refuse_path(PUT_TENSOR(TENSOR("Float", "0", "\5", "\0")), "has 24 bytes where 5 F32");
    refuse_path(PUT_TENSOR(TENSOR("Long", "0", "\6", "\0")), "has 24 bytes where 6 I64");
    /* strides of a dimension of one, and of an empty tensor, are ignored */
    struct safetensors s = open_path(PUT_TENSOR(SHAPED("K\1K\6\x86", "K\x63K\1\x86", "K\0")));
    safetensors_close(&s);
    s = open_path(PUT_TENSOR(SHAPED("K\0K\5\x86", "K\x63K\x4f\x86", "K\6")));
    assert_int_equal(s.entries[0].n_bytes, 0);
    safetensors_close(&s);
}

#define PICKLE "\x80\2}" TEXT1("w") FLOATS "s."

static struct archive *good_archive(struct archive *a)
{
    float six[6];
    for (int i = 0; i < 6; i++) six[i] = (float)i + 0.5f;
    add_member(a, "m/data.pkl", PICKLE, sizeof PICKLE - 1);
    add_member(a, "m/data/0", six, sizeof six);
    return a;
}

static void archives_of_torch_are_read(void **state)
{
    (void)state;
    check_tensor(
        open_path(archive_put(good_archive(archive_new()), "a.bin", "a comment PK\5\6 here")), "w");
    struct archive *a = archive_new();
    a->zip64 = 1;
    check_tensor(open_path(archive_put(good_archive(a), "b.bin", "")), "w");

    a = archive_new();
    a->method = 8;
    refuse_path(archive_put(good_archive(a), "c.bin", ""), "member m/data.pkl is compressed");
    a = archive_new();
    add_member(a, "m/data.pkl", PICKLE, sizeof PICKLE - 1);
    a->method = 8;
    add_member(a, "m/data/0", "not really deflated 1234", 24);
    refuse_path(archive_put(a, "d.bin", ""), "member m/data/0 is compressed");
    a = archive_new();
    a->flags = 1;
    refuse_path(archive_put(good_archive(a), "e.bin", ""), "encrypted");
    a = archive_new();
    add_member(a, "m/byteorder", "big", 3);
    refuse_path(archive_put(good_archive(a), "f.bin", ""), "byte order big");
    a = archive_new();
    add_member(a, "readme.txt", "hi", 2);
    refuse_path(archive_put(a, "g.bin", ""), "without data.pkl");
    a = good_archive(archive_new());
    add_member(a, "m/data/0", "x", 1);
    refuse_path(archive_put(a, "h.bin", ""), "two members are called m/data/0");
    refuse_path(scratch_put("i.bin", "", 0), "not a zip archive");
    refuse_path(scratch_put("j.bin", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 15),
                "before 1.6");
    struct err e = {0};
    struct safetensors s;
    assert_int_equal(format_pytorch.open(scratch_path("absent.bin"), &s, &e), ERR_IO);
}

static char *read_fixture(size_t *n)
{
    char *bytes;
    struct err e = {0};
    if (fsx_read(FIXTURES "/checkpoints/tiny_llama_bin/pytorch_model-00001-of-00002.bin", 0, &bytes,
                 n, &e) != OK)
        fail_msg("%s", e.text);
    return bytes;
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    size_t n;
    char *bytes = read_fixture(&n);
    for (size_t cut = 0; cut < n; cut += cut < 300 || cut > n - 300 ? 1 : 37)
        refuse_path(scratch_put("cut.bin", bytes, cut), "");
    free(bytes);
}

/* Every bit of the pickle and of the archive's directory flipped: the file is opened or refused,
 * and an opened one never reads outside the file. */
static void flipped_bits_never_read_outside(void **state)
{
    (void)state;
    size_t n;
    char *bytes = read_fixture(&n);
    int refused = 0, opened = 0;
    for (size_t i = 0; i < n; i = i == 0x3c0 ? n - 1600 : i + 1)
        for (int bit = 0; bit < 8; bit += 3) {
            struct err e = {0};
            struct safetensors s;
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            const char *path = scratch_put("flipped.bin", bytes, n);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            if (format_pytorch.open(path, &s, &e) != OK) {
                assert_true(e.text[0] != '\0');
                refused++;
                continue;
            }
            for (int64_t k = 0; k < s.n; k++) {
                assert_true(s.entries[k].offset >= 0);
                assert_true(s.entries[k].n_bytes <= (int64_t)n - s.entries[k].offset);
            }
            safetensors_close(&s);
            opened++;
        }
    assert_true(refused > 1000);
    assert_true(opened > 100); /* memo indices that are never read, padding, times */
    free(bytes);
}

/* A pickle that consists of containers only, and one of marks only. */
static void bombs_are_refused_soon(void **state)
{
    (void)state;
    double start = clock_seconds();
    static const char ops[] = {'}', '(', ']', 'N'};
    size_t room = 60000;
    for (int i = 0; i < 4; i++) {
        char *bomb = malloc(room);
        assert_non_null(bomb);
        memset(bomb, ops[i], room);
        memcpy(bomb, "\x80\2", 2);
        refuse_path(put_pickle(bomb, room), "ends without a result");
        free(bomb);
    }
    assert_true(clock_seconds() - start < 10);
}

#define ADD(b, literal) add(b, literal, sizeof(literal) - 1)

/* Short pickles that expand: a tensor's name repeated through the memo, and a very long storage
 * key. */
static void test_memo_bombs(void **state)
{
    (void)state;
    double start = clock_seconds();
    static struct bytes b;
    char name[4000];
    memset(name, 'n', sizeof name);
    b.n = 0;
    ADD(&b, "\x80\2}(X");
    add_number(&b, sizeof name, 4);
    add(&b, name, sizeof name);
    ADD(&b, "q\0" FLOATS "q\1");
    while (b.n < 60000) ADD(&b, "h\0h\1");
    ADD(&b, "u.");
    refuse_path(put_pickle(b.data, b.n), "several times");
    b.n = 0;
    ADD(&b, "\x80\2}" TEXT1("w") REBUILD "((X\7\0\0\0storage" GLOBAL("torch", "FloatStorage") "X");
    add_number(&b, 65, 4);
    add(&b, name, 65);
    ADD(&b, "X\3\0\0\0cpuK\6tQK\0K\6\x85K\1\x85" TAIL "s.");
    refuse_path(put_pickle(b.data, b.n), "more than 64 bytes");
    assert_true(clock_seconds() - start < 10);
}

/* Finds the last `sign` in a valid zip64 archive and sets n bytes at offset `at` after it. */
static const char *spoil_zip64(const char *sign, size_t at, const char *bytes, size_t n)
{
    struct archive *a = archive_new();
    struct err e = {0};
    char *data, *found = NULL;
    size_t size;
    a->zip64 = 1;
    const char *path = archive_put(good_archive(a), "spoilt.bin", "");
    assert_int_equal(fsx_read(path, 0, &data, &size, &e), OK);
    for (char *p = data; (p = memmem(p, (size_t)(data + size - p), sign, 4)); p++) found = p;
    assert_non_null(found);
    memcpy(found + at, bytes, n);
    path = scratch_put("spoilt.bin", data, size);
    free(data);
    return path;
}

static void test_damaged_zip64(void **state)
{
    (void)state;
    static const char ones[] = "\xff\xff\xff\xff\xff\xff\xff\xff", most[] = "\0\0\0\0\0\0\0\x7f";
    check_tensor(open_path(spoil_zip64("PK\6\6", 0, "PK\6\6", 4)), "w"); /* nothing modified */
    refuse_path(spoil_zip64("PK\6\7", 0, "P", 1 + 1), "zip64 locator is missing");
    refuse_path(spoil_zip64("PK\6\7", 8, ones, 8), "zip64 record is outside");
    refuse_path(spoil_zip64("PK\6\7", 8, most, 8), "zip64 record is outside");
    refuse_path(spoil_zip64("PK\6\7", 8, "\0\0", 2), "zip64 record is damaged");
    for (size_t at = 40; at <= 48; at += 8) { /* size and offset of the directory */
        refuse_path(spoil_zip64("PK\6\6", at, ones, 8), "directory is outside");
        refuse_path(spoil_zip64("PK\6\6", at, most, 8), "directory is outside");
    }
    refuse_path(spoil_zip64("PK\6\6", 32, ones, 8),
                "too short for its 18446744073709551615 members");
    /* size and offset of the last member: name m/data/0, an extra field of 6 bytes, then these */
    for (size_t at = 46 + 8 + 6 + 4; at < 46 + 8 + 6 + 4 + 24; at += 8) {
        refuse_path(spoil_zip64("PK\1\2", at, ones, 8), "m/data/0");
        refuse_path(spoil_zip64("PK\1\2", at, most, 8), "m/data/0");
    }
    refuse_path(spoil_zip64("PK\1\2", 46 + 8 + 6 + 2, "\x10", 1), "m/data/0"); /* truncated */
}

/* A member whose local header would reach beyond the end of the file. */
static void test_header_at_the_end(void **state)
{
    (void)state;
    struct err e = {0};
    char *data;
    size_t size;
    const char *path = archive_put(good_archive(archive_new()), "end.bin", "");
    assert_int_equal(fsx_read(path, 0, &data, &size, &e), OK);
    char *entry = memmem(data, size, "PK\1\2", 4);
    assert_non_null(entry);
    uint32_t none = 0, at = (uint32_t)size - 3;
    memcpy(entry + 20, &none, 4);
    memcpy(entry + 24, &none, 4);
    memcpy(entry + 42, &at, 4);
    refuse_path(scratch_put("end.bin", data, size), "header of member m/data.pkl is outside");
    free(data);
}

static void test_hash_follows_the_checksums(void **state)
{
    (void)state;
    size_t n;
    char *bytes = read_fixture(&n);
    struct safetensors s = open_path(scratch_put("one.bin", bytes, n));
    char first[33];
    memcpy(first, s.hash, 33);
    safetensors_close(&s);
    s = open_path(scratch_put("two.bin", bytes, n)); /* the name does not matter */
    assert_string_equal(s.hash, first);
    safetensors_close(&s);
    char *entry = memmem(bytes, n, "PK\1\2", 4);
    assert_non_null(entry);
    entry[16] ^= 1; /* the checksum of the first member in the directory */
    s = open_path(scratch_put("three.bin", bytes, n));
    assert_string_not_equal(s.hash, first);
    safetensors_close(&s);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_state_dicts_hold),
        cmocka_unit_test(test_shared_storage),
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(test_foreign_globals),
        cmocka_unit_test(test_damaged_pickles),
        cmocka_unit_test(test_tensors_that_do_not_fit),
        cmocka_unit_test(archives_of_torch_are_read),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(flipped_bits_never_read_outside),
        cmocka_unit_test(bombs_are_refused_soon),
        cmocka_unit_test(test_memo_bombs),
        cmocka_unit_test(test_damaged_zip64),
        cmocka_unit_test(test_header_at_the_end),
        cmocka_unit_test(test_hash_follows_the_checksums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
