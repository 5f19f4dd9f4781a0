/* Packed linears of GPTQModel, AutoAWQ and compressed-tensors, read as the weights that these
 * programs make of them (tests/fixtures/packed). */
#include "checkpoint/checkpoint.h"
#include "scratch.h"
#include "util/mem.h"

static struct safetensors fixture;

static const struct tensor_entry *stored(const char *setting, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", setting, part);
    return safetensors_find(&fixture, name);
}

static void *bytes_of(const struct tensor_entry *t)
{
    void *data;
    assert_int_equal(mem_alloc(&data, t->n_bytes, 1, "data", NULL), OK);
    assert_int_equal(
        tensor_file_read(fixture.fd, fixture.path, t->name, t->offset, data, t->n_bytes, NULL), OK);
    return data;
}

/* A tensor of the fixture and its name in the folder. */
struct part {
    const char *stored, *name;
};

enum { PARTS_MAX = 5 };

/* Writes a folder whose layer l.0 has the parts of a setting that exist, and a norm. */
static const char *write_folder(const char *setting, const char *config, const struct part *parts)
{
    struct tensor_shape shapes[PARTS_MAX + 1];
    void *data[PARTS_MAX + 1];
    static float norm[4] = {1, 2, 3, 4};
    char names[PARTS_MAX][64];
    int n = 0;
    struct err e = {0};
    struct safetensors_out *out;
    for (int i = 0; i < PARTS_MAX && parts[i].stored; i++) {
        const struct tensor_entry *t = stored(setting, parts[i].stored);
        if (!t) continue;
        snprintf(names[n], sizeof names[n], "l.0.%s", parts[i].name);
        shapes[n] = (struct tensor_shape){.name = names[n], .dtype = t->dtype, .n_dims = t->n_dims};
        memcpy(shapes[n].shape, t->shape, sizeof t->shape);
        data[n++] = bytes_of(t);
    }
    shapes[n] =
        (struct tensor_shape){.name = "l.norm", .dtype = DTYPE_F32, .n_dims = 1, .shape = {4}};
    if (safetensors_create(scratch_path("model.safetensors"), shapes, n + 1, &out, &e) != OK)
        fail_msg("%s", e.text);
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        for (int k = 0; k < shapes[i].n_dims; k++) count *= shapes[i].shape[k];
        assert_int_equal(safetensors_append(out, data[i], count, &e), OK);
        free(data[i]);
    }
    assert_int_equal(safetensors_append(out, norm, 4, &e), OK);
    assert_int_equal(safetensors_commit(out, &e), OK);
    safetensors_out_close(out);
    scratch_put("config.json", config, strlen(config));
    return scratch_dir();
}

/* The weight equals what the program makes of it, whole and in pieces; its parts are not seen. */
static void check(const char *setting, const char *config, const struct part *parts)
{
    struct checkpoint *c;
    struct err e = {0};
    const struct tensor_entry *want = stored(setting, "dequant");
    assert_non_null(want);
    float *expected = bytes_of(want), *got = bytes_of(want);
    if (checkpoint_open(write_folder(setting, config, parts), &c, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(checkpoint_n_tensors(c), 2);
    assert_null(json_object_get(checkpoint_config(c), "quantization_config"));
    memset(got, 0, (size_t)want->n_bytes);
    if (checkpoint_read_f32(c, "l.0.weight", 2, want->shape, got, &e) != OK) fail_msg("%s", e.text);
    for (int64_t i = 0; i < want->n_elements; i++)
        if (got[i] != expected[i])
            fail_msg("%s: element %d: %.9g, expected %.9g", setting, (int)i, (double)got[i],
                     (double)expected[i]);
    const struct tensor_entry *t = checkpoint_find(c, "l.0.weight");
    assert_int_equal(checkpoint_read_range(c, t, 90, 200, got, &e), OK);
    assert_memory_equal(got, expected + 90, 200 * sizeof *got);
    assert_int_equal(checkpoint_read_range(c, checkpoint_find(c, "l.norm"), 1, 2, got, &e), OK);
    assert_true(got[0] == 2 && got[1] == 3);
    checkpoint_close(c);
    free(expected);
    free(got);
}

static void test_gptq(void **state)
{
    (void)state;
    static const char *const settings[] = {"b2_sym",  "b2_asym", "b3_sym",  "b3_sym_act",
                                           "b3_asym", "b4_sym",  "b4_asym", "b4_sym_act",
                                           "b8_sym",  "b8_asym"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (int v = 1; v <= 2; v++) {
            char config[256], setting[64];
            const struct part parts[PARTS_MAX] = {{"qweight", "qweight"},
                                                  {v == 1 ? "qzeros_v1" : "qzeros_v2", "qzeros"},
                                                  {"scales", "scales"},
                                                  {"g_idx", "g_idx"}};
            snprintf(setting, sizeof setting, "gptq_%s", settings[i]);
            snprintf(config, sizeof config,
                     "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": %c, "
                     "\"group_size\": 32, \"checkpoint_format\": \"%s\"}}",
                     settings[i][1], v == 1 ? "gptq" : "gptq_v2");
            check(setting, config, parts);
        }
}

static void test_awq(void **state)
{
    (void)state;
    const struct part parts[PARTS_MAX] = {
        {"qweight", "qweight"}, {"qzeros", "qzeros"}, {"scales", "scales"}};
    check("awq",
          "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32, "
          "\"version\": \"gemm\"}}",
          parts);
}

static const struct part compressed[PARTS_MAX] = {{"weight_packed", "weight_packed"},
                                                  {"weight_scale", "weight_scale"},
                                                  {"weight_zero_point", "weight_zero_point"},
                                                  {"weight_shape", "weight_shape"}};

static void compressed_config(char *config, size_t size, char bits, bool symmetric,
                              const char *group)
{
    snprintf(config, size,
             "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
             "\"pack-quantized\", \"config_groups\": {\"group_0\": {\"input_activations\": null, "
             "\"weights\": {\"num_bits\": %c, \"group_size\": %s, \"symmetric\": %s}}}}}",
             bits, group, symmetric ? "true" : "false");
}

static void test_compressed(void **state)
{
    (void)state;
    static const char *const settings[] = {"b3_sym", "b4_sym", "b4_asym", "b8_asym",
                                           "b3_asym_channel"};
    for (int i = 0; i < 5; i++) {
        char config[512], setting[64];
        snprintf(setting, sizeof setting, "ct_%s", settings[i]);
        compressed_config(config, sizeof config, settings[i][1], !strstr(settings[i], "asym"),
                          strstr(settings[i], "channel") ? "null" : "32");
        check(setting, config, compressed);
    }
}

static void refuse(const char *config, enum status code, const char *message)
{
    struct checkpoint *c;
    struct err e = {0};
    assert_int_equal(checkpoint_open(write_folder("ct_b4_sym", config, compressed), &c, &e), code);
    if (!strstr(e.text, message)) fail_msg("%s", e.text);
}

static void test_bad(void **state)
{
    (void)state;
    char config[512];
    refuse("{\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}}", ERR_USAGE,
           "quant_method \"bitsandbytes\" cannot be read");
    refuse("{\"quantization_config\": 3}", ERR_FORMAT, "no object");
    refuse("{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}", ERR_FORMAT,
           "no tensor ends with .qweight");
    refuse("{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 40}}", ERR_USAGE,
           "40 bits cannot be read");
    refuse("{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 3}}", ERR_USAGE,
           "awq has 4 bits");
    refuse("{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
           "\"float-quantized\"}}",
           ERR_USAGE, "only pack-quantized");
    compressed_config(config, sizeof config, '8', true, "32");
    refuse(config, ERR_SHAPE, "weight_packed has shape [40, 12] where [40, 24] is expected");
    compressed_config(config, sizeof config, '4', false, "32");
    refuse(config, ERR_FORMAT, "no tensor l.0.weight_zero_point");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gptq), cmocka_unit_test(test_awq),
                                       cmocka_unit_test(test_compressed),
                                       cmocka_unit_test(test_bad)};
    if (safetensors_open(FIXTURES "/packed/packed.safetensors", &fixture, NULL) != OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safetensors_close(&fixture);
    return failed;
}
