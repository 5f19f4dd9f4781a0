/* The writer of folders in Hugging Face layout: what it writes is read back bit for bit, whatever
 * the number of shards; nothing of an unfinished folder is left, and nothing is written over. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder_write.h"
#include "util/fsx.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "scratch.h"

enum { N = 5 };
static const struct tensor_shape tensors[N] = {{"norm", DTYPE_BF16, 1, {3}},
                                               {"mask", DTYPE_BOOL, 1, {5}},
                                               {"none", DTYPE_F32, 1, {0}},
                                               {"a", DTYPE_F32, 2, {4, 5}},
                                               {"b", DTYPE_F32, 2, {2, 3}}};
static unsigned char data[256];

static json_t *config_new(void)
{
    return json_pack("{s:s, s:f, s:s}", "model_type", "llama", "rms_norm_eps", 1e-5, "dtype",
                     "bfloat16");
}

static void ok(enum status st, const struct err *e)
{
    if (st != OK) fail_msg("%s%s", e->text, e->trail);
}

static int64_t elements(const struct tensor_shape *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

/* Appends tensor i, the second half apart. */
static enum status append(struct folder_out *o, int i, struct err *e)
{
    int64_t n = elements(&tensors[i]), half = n / 2, size = (int64_t)dtype_size(tensors[i].dtype);
    PASS(folder_append(o, tensors[i].name, data + i, half, e));
    return folder_append(o, tensors[i].name, data + i + half * size, n - half, e);
}

static void write_folder(const char *path, const struct folder_plan *plan)
{
    struct folder_out *o;
    struct err e = {0};
    ok(folder_create(path, plan, &o, &e), &e);
    for (int i = 0; i < N; i++) ok(append(o, i, &e), &e);
    ok(folder_commit(o, "# card\n", &e), &e);
    folder_close(o);
}

static void check_folder(const char *path)
{
    struct checkpoint *c;
    struct err e = {0};
    ok(checkpoint_open(path, &c, &e), &e);
    assert_int_equal(checkpoint_n_tensors(c), N);
    for (int i = 0; i < N; i++) {
        const struct tensor_entry *t = checkpoint_find(c, tensors[i].name);
        unsigned char got[128];
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->n_dims, tensors[i].n_dims);
        assert_memory_equal(t->shape, tensors[i].shape, (size_t)t->n_dims * sizeof *t->shape);
        ok(checkpoint_read_stored(c, t, 0, t->n_elements, got, &e), &e);
        assert_memory_equal(got, data + i, (size_t)t->n_bytes);
    }
    checkpoint_close(c);
}

/* Files of 80, 40, 100 bytes and so on: each tensor that does not fit begins another. */
static void comes_back(void **state)
{
    (void)state;
    json_t *config = config_new();
    struct folder_plan plan = {.config = config, .n = N, .tensors = tensors};
    write_folder(scratch_path("one"), &plan);
    check_folder(scratch_path("one"));
    assert_true(fsx_is_file(scratch_path("one/model.safetensors")));
    assert_int_equal(files_named(scratch_path("one"), "*"), 3);

    plan.shard_bytes = 90;
    write_folder(scratch_path("three"), &plan);
    check_folder(scratch_path("three"));
    assert_int_equal(files_named(scratch_path("three"), "model-0000?-of-00003.safetensors"), 3);
    assert_true(fsx_is_file(scratch_path("three/model.safetensors.index.json")));

    plan.shard_bytes = 1; /* each has its own, the empty one beside another */
    write_folder(scratch_path("many/"), &plan);
    check_folder(scratch_path("many"));
    assert_int_equal(files_named(scratch_path("many"), "model-*.safetensors"), 4);
    assert_int_equal(files_named(scratch_dir(), "*.tmp.*"), 0);
    json_decref(config);
}

static void put(const char *name, const char *text)
{
    scratch_put(name, text, strlen(text));
}

static void has(const char *path, const char *text)
{
    char *got;
    assert_int_equal(fsx_read(scratch_path(path), 0, &got, NULL, NULL), OK);
    assert_string_equal(got, text);
    free(got);
}

/* The tokenizer's files are those beside the tokenizer, all others those beside the weights; what
 * is no part of a checkpoint stays behind. */
static void takes_files_along(void **state)
{
    (void)state;
    json_t *config = config_new();
    struct err e = {0};
    const char *const all[] = {"source/generation_config.json", "source/special_tokens_map.json",
                               "source/tokenizer_config.json", "source/code.py",
                               "source/optimizer.pt"};
    assert_int_equal(fsx_make_parent(scratch_path("source/x"), &e), OK);
    assert_int_equal(fsx_make_parent(scratch_path("shared/x"), &e), OK);
    for (int i = 0; i < 5; i++) put(all[i], "of the source");
    put("shared/mine.json", "the tokenizer");
    put("shared/tokenizer_config.json", "of the tokenizer");
    char tokenizer[512], source[512];
    snprintf(tokenizer, sizeof tokenizer, "%s", scratch_path("shared/mine.json"));
    snprintf(source, sizeof source, "%s", scratch_path("source"));
    struct folder_plan plan = {
        .config = config, .n = N, .tensors = tensors, .source = source, .tokenizer = tokenizer};
    write_folder(scratch_path("along"), &plan);
    has("along/README.md", "# card\n");
    has("along/tokenizer.json", "the tokenizer");
    has("along/tokenizer_config.json", "of the tokenizer");
    has("along/special_tokens_map.json", "of the source");
    has("along/generation_config.json", "of the source");
    assert_int_equal(files_named(scratch_path("along"), "*"), 7);
    json_t *got;
    assert_int_equal(json_read_file(scratch_path("along/config.json"), 0, &got, &e), OK);
    assert_string_equal(json_text(got, "torch_dtype", ""), "float32");
    assert_string_equal(json_text(got, "dtype", ""), "float32");
    assert_true(json_number_get(json_object_get(got, "rms_norm_eps")) == 1e-5);
    json_decref(got);

    json_object_set_new(config, "auto_map", json_object());
    write_folder(scratch_path("code"), &plan);
    has("code/code.py", "of the source");
    json_decref(config);
}

/* Two tensors of these types give this torch_dtype, whatever config.json said. */
static void names_the_widest_type(void **state)
{
    (void)state;
    static const struct {
        enum dtype a, b;
        bool f16;
        const char *type;
    } cases[] = {
        {DTYPE_BF16, DTYPE_I64, false, "bfloat16"}, {DTYPE_F16, DTYPE_F16, false, "float16"},
        {DTYPE_F16, DTYPE_BF16, false, "float32"},  {DTYPE_BF16, DTYPE_F32, false, "float32"},
        {DTYPE_F64, DTYPE_BF16, false, "float64"},  {DTYPE_F32, DTYPE_BF16, true, "float16"},
        {DTYPE_I32, DTYPE_U8, false, "bfloat16"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int turned = 0; turned < 2; turned++) {
            char path[32];
            json_t *config = config_new(), *got;
            struct err e = {0};
            struct folder_out *o;
            const struct tensor_shape two[] = {{"a", turned ? cases[i].b : cases[i].a, 1, {1}},
                                               {"b", turned ? cases[i].a : cases[i].b, 1, {1}}};
            const struct folder_plan plan = {
                .config = config, .n = 2, .tensors = two, .f16 = cases[i].f16};
            snprintf(path, sizeof path, "types%d-%d", (int)i, turned);
            ok(folder_create(scratch_path(path), &plan, &o, &e), &e);
            ok(folder_append(o, "a", data, 1, &e), &e);
            ok(folder_append(o, "b", data, 1, &e), &e);
            ok(folder_commit(o, NULL, &e), &e);
            folder_close(o);
            snprintf(path, sizeof path, "types%d-%d/config.json", (int)i, turned);
            ok(json_read_file(scratch_path(path), 0, &got, &e), &e);
            assert_string_equal(json_text(got, "dtype", ""), cases[i].type);
            assert_string_equal(json_text(got, "torch_dtype", cases[i].type), cases[i].type);
            assert_string_equal(json_text(config, "dtype", ""), "bfloat16"); /* borrowed */
            json_decref(got);
            json_decref(config);
        }
}

static void refused(const char *path, enum status want, const char *part)
{
    json_t *config = config_new();
    struct folder_plan plan = {.config = config, .n = N, .tensors = tensors};
    struct folder_out *o;
    struct err e = {0};
    assert_int_equal(folder_create(path, &plan, &o, &e), want);
    assert_null(o);
    if (!strstr(e.text, part) || !strstr(e.text, path) || strstr(e.text, ".tmp."))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", e.text, path, part);
    json_decref(config);
}

static void writes_over_nothing(void **state)
{
    (void)state;
    put("file", "mine");
    refused(scratch_path("file"), ERR_USAGE, "exists already");
    refused(scratch_path("file/x"), ERR_USAGE, "no folder");
    refused(scratch_path("absent/x"), ERR_USAGE, "no folder");
    refused(scratch_dir(), ERR_USAGE, "exists already");
    has("file", "mine");
    /* filled while it was written */
    json_t *config = config_new();
    struct folder_plan plan = {.config = config, .n = N, .tensors = tensors};
    struct folder_out *o;
    struct err e = {0};
    ok(folder_create(scratch_path("raced"), &plan, &o, &e), &e);
    for (int i = 0; i < N; i++) ok(append(o, i, &e), &e);
    assert_int_equal(fsx_make_parent(scratch_path("raced/x"), &e), OK);
    put("raced/x", "mine");
    assert_int_equal(folder_commit(o, NULL, &e), ERR_USAGE);
    folder_close(o);
    has("raced/x", "mine");
    assert_int_equal(files_named(scratch_path("raced"), "*"), 1);
    assert_int_equal(files_named(scratch_dir(), "*.tmp.*"), 0);
    json_decref(config);
}

/* A folder that is empty already gets the files. */
static void fills_an_empty_folder(void **state)
{
    (void)state;
    json_t *config = config_new();
    struct folder_plan plan = {.config = config, .n = N, .tensors = tensors};
    assert_int_equal(fsx_make_parent(scratch_path("empty/x"), NULL), OK);
    write_folder(scratch_path("empty"), &plan);
    check_folder(scratch_path("empty"));
    json_decref(config);
}

static void half_a_folder_is_none(void **state)
{
    (void)state;
    json_t *config = config_new();
    struct folder_plan plan = {.config = config, .n = N, .tensors = tensors, .shard_bytes = 90};
    struct folder_out *o;
    struct err e = {0};
    ok(folder_create(scratch_path("half"), &plan, &o, &e), &e);
    ok(append(o, 0, &e), &e);
    assert_int_equal(append(o, 3, &e), ERR_SHAPE); /* it is not its turn */
    assert_non_null(strstr(e.text, "data of tensor a come where those of mask"));
    err_clear(&e);
    ok(append(o, 1, &e), &e);
    assert_int_equal(folder_commit(o, NULL, &e), ERR_SHAPE);
    folder_close(o);
    assert_int_equal(files_named(scratch_dir(), "half*"), 0);
    json_decref(config);
}

static void limit_files(int64_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disk(void **state)
{
    (void)state;
    static const float numbers[40000];
    static const struct tensor_shape large = {"large", DTYPE_F32, 1, {40000}};
    json_t *config = config_new();
    struct folder_plan plan = {.config = config, .n = 1, .tensors = &large};
    struct folder_out *o;
    struct err e = {0};
    ok(folder_create(scratch_path("full"), &plan, &o, &e), &e);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(100000);
    enum status st = folder_append(o, "large", numbers, 40000, &e);
    limit_files(-1);
    assert_int_equal(st, ERR_FULL);
    assert_non_null(strstr(e.text, scratch_path("full/model.safetensors")));
    assert_null(strstr(e.text, ".tmp."));
    folder_close(o);
    assert_int_equal(files_named(scratch_dir(), "full*"), 0);
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(takes_files_along),
        cmocka_unit_test(names_the_widest_type),
        cmocka_unit_test(writes_over_nothing),
        cmocka_unit_test(fills_an_empty_folder),
        cmocka_unit_test(half_a_folder_is_none),
        cmocka_unit_test(full_disk),
    };
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 11 + 5);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
