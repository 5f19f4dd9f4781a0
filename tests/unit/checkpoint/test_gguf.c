/* gguf: numbers of every element type, as the gguf package of PyPI computes them, and an error
 * message for every kind of invalid file. That models are read as what they are: e2e.gguf. */
#include "../scratch.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/weight_format.h"
#include "util/fsx.h"

/* --- element types --- */

static int64_t check_type(const struct safetensors *s, const struct gguf_type *type)
{
    char name[64];
    struct err e = {0};
    snprintf(name, sizeof name, "%s.blocks", type->name);
    const struct tensor_entry *blocks = safetensors_find(s, name);
    snprintf(name, sizeof name, "%s.values", type->name);
    const struct tensor_entry *values = safetensors_find(s, name);
    assert_true(blocks && values);
    const int64_t n = values->n_elements;
    assert_int_equal(blocks->n_elements, gguf_bytes(type, n));
    uint8_t *stored = malloc((size_t)blocks->n_bytes);
    float *want = malloc((size_t)n * sizeof *want), *got = malloc((size_t)n * sizeof *got);
    assert_int_equal(safetensors_read_stored(s, blocks, 0, blocks->n_elements, stored, &e), OK);
    assert_int_equal(safetensors_read_range(s, values, 0, n, want, &e), OK);
    gguf_dequantize(type, stored, 0, n, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    for (int64_t first = 0; first < n; first += 77) { /* parts of blocks */
        const int64_t count = first + 100 < n ? 100 : n - first;
        gguf_dequantize(type, stored, first, count, got);
        assert_memory_equal(got, want + first, (size_t)count * sizeof *got);
    }
    free(stored);
    free(want);
    free(got);
    return n;
}

static void test_types(void **state)
{
    (void)state;
    struct safetensors s = {.fd = -1};
    struct err e = {0};
    int types = 0;
    assert_int_equal(safetensors_open(FIXTURES "/gguf/types.safetensors", &s, &e), OK);
    for (uint32_t id = 0; id < 64; id++)
        if (gguf_type_find(id)) {
            assert_int_equal(check_type(&s, gguf_type_find(id)), 768);
            types++;
        }
    assert_int_equal(types, 15);
    safetensors_close(&s);
}

/* --- ranges of a checkpoint's tensors --- */

static void test_ranges(void **state)
{
    (void)state;
    struct checkpoint *c;
    struct err e = {0};
    static const char *const names[] = {"model.layers.0.self_attn.q_proj.weight",
                                        "model.layers.0.self_attn.k_proj.weight",
                                        "model.layers.0.mlp.up_proj.weight"};
    assert_int_equal(checkpoint_open(FIXTURES "/gguf/llama.gguf", &c, &e), OK);
    assert_int_equal(checkpoint_n_tensors(c), 12);
    assert_null(checkpoint_find(c, "rope_freqs.weight"));
    for (int i = 0; i < 3; i++) {
        const struct tensor_entry *t = checkpoint_find(c, names[i]);
        float all[32 * 32], part[32 * 32];
        assert_true(t && t->n_elements <= 32 * 32);
        assert_int_equal(checkpoint_read_range(c, t, 0, t->n_elements, all, &e), OK);
        for (int64_t first = 0; first < t->n_elements; first += 45) {
            const int64_t n = first + 99 < t->n_elements ? 99 : t->n_elements - first;
            assert_int_equal(checkpoint_read_range(c, t, first, n, part, &e), OK);
            assert_memory_equal(part, all + first, (size_t)n * sizeof *all);
            assert_int_equal(checkpoint_read_stored(c, t, first, n, part, &e), OK);
            assert_memory_equal(part, all + first, (size_t)n * sizeof *all);
        }
    }
    assert_int_equal(checkpoint_verify(c, &e), OK);
    checkpoint_close(c);
}

/* --- invalid files --- */

struct bytes {
    char data[1 << 16];
    size_t n;
};

static void add(struct bytes *b, uint64_t value, size_t size)
{
    assert_true(b->n + size <= sizeof b->data);
    memcpy(b->data + b->n, &value, size);
    b->n += size;
}

static void add_text(struct bytes *b, const char *text)
{
    add(b, strlen(text), 8);
    memcpy(b->data + b->n, text, strlen(text));
    b->n += strlen(text);
}

static void start(struct bytes *b, uint64_t tensors, uint64_t keys)
{
    b->n = 0;
    memcpy(b->data, "GGUF", b->n = 4);
    add(b, 3, 4);
    add(b, tensors, 8);
    add(b, keys, 8);
}

static void add_key(struct bytes *b, const char *key, uint32_t type, uint64_t value, size_t size)
{
    add_text(b, key);
    add(b, type, 4);
    add(b, value, size);
}

static void add_tensor(struct bytes *b, const char *name, uint64_t cols, uint64_t rows,
                       uint32_t type, uint64_t offset)
{
    add_text(b, name);
    add(b, 2, 4);
    add(b, cols, 8);
    add(b, rows, 8);
    add(b, type, 4);
    add(b, offset, 8);
}

static void refuse_bytes(const void *data, size_t n, enum status want, const char *part)
{
    struct safetensors s = {.fd = -1};
    struct err e = {0};
    const char *path = scratch_put("bad.gguf", data, n);
    assert_int_equal(format_gguf.open(path, &s, &e), want);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
    assert_non_null(strstr(e.text, path));
    assert_null(s.entries);
}

static void refuse(const struct bytes *b, const char *part)
{
    refuse_bytes(b->data, b->n, ERR_FORMAT, part);
}

static void test_bad_metadata(void **state)
{
    (void)state;
    struct bytes b;
    refuse_bytes("GG", 2, ERR_FORMAT, "too few");
    refuse_bytes("{\"a\": 1}", 8, ERR_FORMAT, "not a GGUF file");
    start(&b, 0, 0);
    b.data[4] = 1;
    refuse(&b, "version 1 is not read");
    memcpy(b.data + 4, "\0\0\0\3", 4);
    refuse(&b, "little endian");
    start(&b, 0, 1);
    refuse(&b, "a key of the metadata at byte 24: 8 bytes, but the file ends at byte 24");
    add(&b, UINT64_MAX, 8);
    refuse(&b, "18446744073709551615 bytes");
    start(&b, 0, UINT64_MAX);
    add_key(&b, "a", 4, 1, 4);
    refuse(&b, "a key of the metadata");
    start(&b, 0, 2);
    add_key(&b, "a", 4, 1, 4);
    add_key(&b, "a", 4, 1, 4);
    refuse(&b, "the key a twice");
    start(&b, 0, 1);
    add_key(&b, "a", 13, 1, 8);
    refuse(&b, "a value of type 13");
    start(&b, 0, 1);
    add_key(&b, "text", 8, 1 << 20, 8);
    refuse(&b, "text at byte");
    start(&b, 0, 1);
    add_key(&b, "list", 9, 9, 4);
    add(&b, 1, 8);
    refuse(&b, "an array of values of type 9");
    start(&b, 0, 1);
    add_key(&b, "list", 9, 10, 4);
    add(&b, UINT64_MAX / 8 + 1, 8); /* times eight bytes: 0 */
    refuse(&b, "values in a file of");
    start(&b, 0, 1);
    add_key(&b, "general.alignment", 4, 24, 4);
    refuse(&b, "general.alignment is 24");
    start(&b, 0, 0);
    refuse(&b, "general.architecture is missing");
}

static void test_bad_tensors(void **state)
{
    (void)state;
    struct bytes b;
    start(&b, UINT64_MAX, 0);
    refuse(&b, "18446744073709551615 tensors in a file");
    start(&b, 1, 0);
    add_text(&b, "w");
    add(&b, 5, 4);
    refuse(&b, "tensor w: 5 dimensions");
    start(&b, 1, 0);
    add_tensor(&b, "w", 0, 1, 0, 0);
    refuse(&b, "tensor w: a dimension of 0");
    start(&b, 1, 0);
    add_tensor(&b, "w", 1ull << 62, 8, 0, 0);
    refuse(&b, "does not fit 63 bits");
    start(&b, 1, 0);
    add_tensor(&b, "w", 256, 1, 16, 0);
    refuse(&b, "elements of type 16 are not read (read are F32, F16");
    start(&b, 1, 0);
    add_tensor(&b, "w", 48, 1, 8, 0);
    refuse(&b, "rows of 48 elements are no whole blocks of 32, as Q8_0");
    start(&b, 1, 0);
    add_tensor(&b, "w", 4, 1, 0, 32);
    refuse(&b, "tensor w begins at byte 32 of the data; expected 0");
    start(&b, 2, 0);
    add_tensor(&b, "v", 4, 1, 0, 0);
    add_tensor(&b, "w", 4, 1, 0, 16);
    refuse(&b, "tensor w begins at byte 16 of the data; expected 32");
    start(&b, 1, 0);
    add_tensor(&b, "w", 1 << 20, 1 << 20, 0, 0);
    refuse(&b, "more than the file has left");
    start(&b, 1, 0);
    add_tensor(&b, "w", 4, 1, 0, 0);
    add(&b, 0, 8);
    refuse(&b, "tensor w ends at byte");
}

/* Any shorter file is refused; so are a model's file with another architecture or tensor. */
static void test_damaged_model(void **state)
{
    (void)state;
    struct err e = {0};
    char *data;
    size_t n;
    assert_int_equal(fsx_read(FIXTURES "/gguf/llama.gguf", 0, &data, &n, &e), OK);
    for (size_t cut = 0; cut < n - 32; cut += 1 + cut / 64)
        refuse_bytes(data, cut, ERR_FORMAT, cut < 4 ? "too few" : "cut short");
    char *at = memmem(data, n, "llama", 5);
    assert_non_null(at);
    memcpy(at, "lamma", 5);
    refuse_bytes(data, n, ERR_USAGE, "architecture \"lamma\" is not supported (supported: llama, ");
    memcpy(at, "llama", 5);
    at = memmem(data, n, "blk.0.ffn_up.weight", 19);
    memcpy(at, "blk.0.ffn_xp", 12);
    refuse_bytes(data, n, ERR_USAGE, "tensor blk.0.ffn_xp.weight is of no model that is read");
    memcpy(at, "blk.0.ffn_up.weighs", 19);
    refuse_bytes(data, n, ERR_USAGE, "tensor blk.0.ffn_up.weighs is");
    memcpy(at, "blk.0.ffn_up.weight", 19);
    at = memmem(data, n, "head_count_kv", 13);
    at[13 + 4] = 3;
    refuse_bytes(data, n, ERR_FORMAT, "16 rows are no 3 heads");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),         cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_bad_metadata),  cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_damaged_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
