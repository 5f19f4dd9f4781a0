/* checkpoint: single files, shards and .bin files, and invalid folders. */
#include "checkpoint/checkpoint.h"
#include "scratch.h"
#include "util/fsx.h"
#include <sys/stat.h>

static struct checkpoint *open_ok(const char *dir)
{
    struct checkpoint *c = NULL;
    struct err e = {0};
    if (checkpoint_open(dir, &c, &e) != OK) fail_msg("%s", e.text);
    return c;
}

static void refuse(const char *dir, enum status want, const char *part)
{
    struct checkpoint *c = NULL;
    struct err e = {0};
    assert_int_equal(checkpoint_open(dir, &c, &e), want);
    if (!strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
    assert_null(c);
}

static float *read_tensor(const struct checkpoint *c, const struct tensor_entry *t)
{
    struct err e = {0};
    float *data = malloc((size_t)t->n_elements * sizeof *data + 1);
    assert_non_null(data);
    if (checkpoint_read_f32(c, t->name, t->n_dims, t->shape, data, &e) != OK)
        fail_msg("%s", e.text);
    return data;
}

/* A copy of a fixture's folder in the scratch folder; files are links, so that a test may replace
 * one. */
static const char *clone(const char *fixture, const char *name)
{
    char command[1200];
    snprintf(command, sizeof command, "rm -rf %s/%s; mkdir %s/%s && ln -s %s/%s/* %s/%s/",
             scratch_dir(), name, scratch_dir(), name, FIXTURES, fixture, scratch_dir(), name);
    assert_int_equal(system(command), 0);
    return scratch_path(name);
}

static void replace(const char *dir, const char *file, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    unlink(path);
    if (!text) return;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* The index of olmo2 with every `from` replaced by `to`. */
static void edit_index(const char *dir, const char *from, const char *to)
{
    char *text, *p;
    struct err e = {0};
    assert_int_equal(
        fsx_read(FIXTURES "/models/olmo2/model.safetensors.index.json", 0, &text, NULL, &e), OK);
    char *edited = calloc(1, 4 * strlen(text) + 4096), *out = edited, *at = text;
    assert_non_null(edited);
    int n = 0;
    for (; (p = strstr(at, from)); at = p + strlen(from), n++) {
        memcpy(out, at, (size_t)(p - at));
        out += p - at;
        out = stpcpy(out, to);
    }
    strcpy(out, at);
    assert_true(n > 0);
    replace(dir, "model.safetensors.index.json", edited);
    free(edited);
    free(text);
}

static void a_single_file_is_read(void **state)
{
    (void)state;
    struct checkpoint *c = open_ok(FIXTURES "/models/llama");
    assert_string_equal(checkpoint_dir(c), FIXTURES "/models/llama");
    assert_string_equal(json_text(checkpoint_config(c), "model_type", ""), "llama");
    assert_int_equal(checkpoint_n_tensors(c), 30);
    for (int64_t i = 1; i < 30; i++)
        assert_true(strcmp(checkpoint_tensor(c, i - 1)->name, checkpoint_tensor(c, i)->name) < 0);
    const struct tensor_entry *t = checkpoint_find(c, "model.layers.1.self_attn.k_proj.weight");
    assert_non_null(t);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 32);
    assert_int_equal(t->shape[1], 64);
    assert_null(checkpoint_find(c, "model.layers.9.self_attn.k_proj.weight"));

    float *data = read_tensor(c, t);
    struct err e = {0};
    const int64_t wrong[2] = {64, 32};
    assert_int_equal(checkpoint_read_f32(c, t->name, 2, wrong, data, &e), ERR_SHAPE);
    assert_non_null(strstr(e.text, t->name));
    assert_non_null(strstr(e.text, "[32, 64] where [64, 32] is expected"));
    assert_non_null(strstr(e.text, "model.safetensors"));
    err_clear(&e);
    assert_int_equal(checkpoint_read_f32(c, t->name, 1, t->shape, data, &e), ERR_SHAPE);
    err_clear(&e);
    assert_int_equal(checkpoint_read_f32(c, "nope", 2, wrong, data, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "no tensor nope"));
    free(data);
    checkpoint_close(c);
}

static void test_integer_tensors_are_not_weights(void **state)
{
    (void)state;
    struct checkpoint *c = open_ok(FIXTURES "/models/gpt_neox_parallel");
    int refused = 0;
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const struct tensor_entry *t = checkpoint_tensor(c, i);
        if (dtype_is_float(t->dtype)) continue;
        struct err e = {0};
        float none;
        assert_int_equal(checkpoint_read_f32(c, t->name, t->n_dims, t->shape, &none, &e),
                         ERR_FORMAT);
        assert_non_null(strstr(e.text, "BOOL where a floating type is needed"));
        refused++;
    }
    assert_true(refused > 0);
    checkpoint_close(c);
}

/* Every shard holds the tensors that the index assigns to it, and each tensor is read from its
 * file. */
static void tensors_come_from_their_shards(void **state)
{
    (void)state;
    struct checkpoint *c = open_ok(FIXTURES "/models/olmo2");
    assert_int_equal(checkpoint_n_tensors(c), 36);
    int files = 0;
    for (int64_t i = 0; i < 36; i++) {
        const struct tensor_entry *t = checkpoint_tensor(c, i);
        files |= 1 << t->file;
        char path[512];
        struct safetensors s;
        struct err e = {0};
        snprintf(path, sizeof path, FIXTURES "/models/olmo2/model-0000%d-of-00006.safetensors",
                 t->file + 1);
        assert_int_equal(safetensors_open(path, &s, &e), OK);
        const struct tensor_entry *same = safetensors_find(&s, t->name);
        assert_non_null(same);
        float *got = read_tensor(c, t), *want = malloc((size_t)same->n_elements * sizeof *want);
        assert_int_equal(safetensors_read_range(&s, same, 0, same->n_elements, want, &e), OK);
        assert_memory_equal(got, want, (size_t)same->n_elements * sizeof *want);
        free(got);
        free(want);
        safetensors_close(&s);
    }
    assert_int_equal(files, 63);
    checkpoint_close(c);
}

static void test_missing_parts(void **state)
{
    (void)state;
    refuse(scratch_path("absent"), ERR_IO, "/absent: no such folder");
    refuse(FIXTURES "/models/llama/config.json", ERR_FORMAT, "not a GGUF file");
    const char *dir = clone("models/llama", "missing");
    replace(dir, "model.safetensors", NULL);
    refuse(dir, ERR_IO, "none of model.safetensors, model.safetensors.index.json");
    replace(dir, "config.json", NULL);
    refuse(dir, ERR_IO, "no config.json");
    replace(dir, "config.json", "[]");
    refuse(dir, ERR_FORMAT, "config.json: not a JSON object");
    replace(dir, "config.json", "{\n  \"a\": 1,\n}");
    refuse(dir, ERR_FORMAT, "config.json:3:");
    replace(dir, "config.json", "{\"a\": 1, \"a\": 2}");
    refuse(dir, ERR_FORMAT, "duplicate");
    replace(dir, "config.json", "{}");
    replace(dir, "model.safetensors", "garbage!");
    refuse(dir, ERR_FORMAT, "model.safetensors");
}

/* head, n times `between`, tail. */
static void replace_repeated(const char *dir, const char *file, const char *what, size_t n)
{
    size_t one = strlen(what);
    char *text = malloc(16 + n * one);
    assert_non_null(text);
    memcpy(text, "{\"a\": ", 6);
    for (size_t i = 0; i < n; i++) memcpy(text + 6 + i * one, what, one);
    text[6 + n * one] = '\0';
    replace(dir, file, text);
    free(text);
}

static void test_json_bombs(void **state)
{
    (void)state;
    const char *dir = clone("models/olmo2", "bombs");
    static const char index[] = "model.safetensors.index.json";
    replace_repeated(dir, index, "{\"a\":", 100000);
    refuse(dir, ERR_FORMAT, "index.json:1:");
    replace_repeated(dir, index, " ", 17 << 20);
    refuse(dir, ERR_FORMAT, "more than the 16777216 that are read");
    replace_repeated(dir, "config.json", "[", 100000);
    refuse(dir, ERR_FORMAT, "config.json:1:");
    replace_repeated(dir, "config.json", " ", 5 << 20);
    refuse(dir, ERR_FORMAT, "more than the 4194304 that are read");
}

static void test_bad_indexes(void **state)
{
    (void)state;
    static const char shard[] = "model-00002-of-00006.safetensors";
    const char *dir = clone("models/olmo2", "shards");
    static const char *const outside[] = {"../../etc/passwd",
                                          "/etc/passwd",
                                          "..",
                                          ".",
                                          "",
                                          "a/b",
                                          "x/../model-00002-of-00006.safetensors"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        edit_index(dir, shard, outside[i]);
        refuse(dir, ERR_FORMAT, "is not in the checkpoint's folder");
    }
    edit_index(dir, shard, "model-00007-of-00006.safetensors");
    refuse(dir, ERR_IO, "model-00007-of-00006.safetensors: not there, but");
    edit_index(dir, shard, "model-00003-of-00006.safetensors"); /* shard 2 is never opened */
    refuse(dir, ERR_FORMAT, "says so");
    edit_index(dir, "\"model.norm.weight\"", "\"model.other.weight\"");
    refuse(dir, ERR_FORMAT, "no tensor model.other.weight");
    /* the index assigns a tensor to another shard than the one that holds it */
    edit_index(dir, "\"model.norm.weight\": \"model-00005", "\"model.norm.weight\": \"model-00001");
    refuse(dir, ERR_FORMAT, "is in this file, but");
    replace(dir, "model.safetensors.index.json", "{\"weight_map\": {}}");
    refuse(dir, ERR_FORMAT, "names no tensor");
    replace(dir, "model.safetensors.index.json", "{\"weight_map\": {\"a\": 1}}");
    refuse(dir, ERR_FORMAT, "tensor a: not a file name");
    replace(dir, "model.safetensors.index.json", "{\"map\": {}}");
    refuse(dir, ERR_FORMAT, "no object \"weight_map\"");
    replace(dir, "model.safetensors.index.json", "[1]");
    refuse(dir, ERR_FORMAT, "no object \"weight_map\"");
    edit_index(dir, shard, shard);
    replace(dir, "model-00006-of-00006.safetensors", "cut");
    refuse(dir, ERR_FORMAT, "model-00006-of-00006.safetensors: 3 bytes");
}

static void test_a_tensor_in_two_shards(void **state)
{
    (void)state;
    const char *dir = clone("models/llama", "twice");
    char command[1200];
    snprintf(command, sizeof command, "cp %s/model.safetensors %s/b.safetensors", dir, dir);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "mv %s/model.safetensors %s/a.safetensors", dir, dir);
    assert_int_equal(system(command), 0);
    replace(dir, "model.safetensors.index.json",
            "{\"weight_map\": {\"lm_head.weight\": \"a.safetensors\", \"model.norm.weight\": "
            "\"b.safetensors\"}}");
    refuse(dir, ERR_FORMAT, "is both in");
}

static void the_hash_is_of_the_contents(void **state)
{
    (void)state;
    char first[33];
    const char *dir = clone("models/olmo2", "hash");
    struct checkpoint *c = open_ok(dir);
    memcpy(first, checkpoint_hash(c), 33);
    checkpoint_close(c);
    assert_int_equal(strlen(first), 32);
    c = open_ok(FIXTURES "/models/olmo2"); /* another folder, the same checkpoint */
    assert_string_equal(checkpoint_hash(c), first);
    checkpoint_close(c);

    char *config;
    struct err e = {0};
    assert_int_equal(fsx_read(FIXTURES "/models/olmo2/config.json", 0, &config, NULL, &e), OK);
    strrchr(config, '}')[0] = ' ';
    char *longer = malloc(strlen(config) + 32);
    assert_non_null(longer);
    strcat(strcpy(longer, config), ", \"new\": 1}");
    replace(dir, "config.json", longer);
    c = open_ok(dir);
    assert_string_not_equal(checkpoint_hash(c), first);
    checkpoint_close(c);
    free(config);
    free(longer);

    dir = clone("models/olmo2", "hash");
    char *shard;
    size_t n;
    assert_int_equal(
        fsx_read(FIXTURES "/models/olmo2/model-00006-of-00006.safetensors", 0, &shard, &n, &e), OK);
    shard[n - 1] ^= 1;
    char path[600];
    snprintf(path, sizeof path, "%s/model-00006-of-00006.safetensors", dir);
    unlink(path);
    assert_int_equal(fsx_write_atomic(path, shard, n, &e), OK);
    c = open_ok(dir);
    assert_string_not_equal(checkpoint_hash(c), first);
    checkpoint_close(c);
    free(shard);
}

/* .bin files hold the same bits as the safetensors of the same model. */
static void compare(const char *bin, const char *want)
{
    struct checkpoint *a = open_ok(bin), *b = open_ok(want);
    assert_int_equal(checkpoint_n_tensors(a), checkpoint_n_tensors(b));
    for (int64_t i = 0; i < checkpoint_n_tensors(b); i++) {
        const struct tensor_entry *t = checkpoint_tensor(a, i), *u = checkpoint_tensor(b, i);
        assert_string_equal(t->name, u->name);
        assert_int_equal(t->dtype, u->dtype);
        assert_int_equal(t->n_dims, u->n_dims);
        assert_memory_equal(t->shape, u->shape, sizeof t->shape);
        float *x = read_tensor(a, t), *y = read_tensor(b, u);
        assert_memory_equal(x, y, (size_t)t->n_elements * sizeof *x);
        free(x);
        free(y);
    }
    checkpoint_close(a);
    checkpoint_close(b);
}

static void test_bin_equals_safetensors(void **state)
{
    (void)state;
    compare(FIXTURES "/checkpoints/tiny_llama_bin", FIXTURES "/checkpoints/tiny_llama");
    compare(FIXTURES "/checkpoints/tiny_gpt_neox_bin", FIXTURES "/checkpoints/tiny_gpt_neox");
}

static void test_safetensors_come_first(void **state)
{
    (void)state;
    const char *dir = clone("checkpoints/tiny_llama_bin", "both");
    char command[1200];
    snprintf(command, sizeof command, "cp %s/checkpoints/tiny_llama/model.safetensors %s/",
             FIXTURES, dir);
    assert_int_equal(system(command), 0);
    struct checkpoint *c = open_ok(dir), *d = open_ok(FIXTURES "/checkpoints/tiny_llama");
    assert_string_equal(checkpoint_hash(c), checkpoint_hash(d));
    checkpoint_close(c);
    checkpoint_close(d);
}

static void test_bin_shard_missing(void **state)
{
    (void)state;
    const char *dir = clone("checkpoints/tiny_llama_bin", "bin");
    replace(dir, "pytorch_model-00002-of-00002.bin", NULL);
    refuse(dir, ERR_IO, "pytorch_model-00002-of-00002.bin: not there");
    replace(dir, "pytorch_model-00002-of-00002.bin",
            "version https://git-lfs.github.com/spec/v1\n");
    refuse(dir, ERR_FORMAT, "pytorch_model-00002-of-00002.bin: not a zip archive");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_file_is_read),
        cmocka_unit_test(test_integer_tensors_are_not_weights),
        cmocka_unit_test(tensors_come_from_their_shards),
        cmocka_unit_test(test_missing_parts),
        cmocka_unit_test(test_bad_indexes),
        cmocka_unit_test(test_json_bombs),
        cmocka_unit_test(test_a_tensor_in_two_shards),
        cmocka_unit_test(the_hash_is_of_the_contents),
        cmocka_unit_test(test_bin_equals_safetensors),
        cmocka_unit_test(test_safetensors_come_first),
        cmocka_unit_test(test_bin_shard_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
