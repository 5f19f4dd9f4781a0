/* Packed linears of GPTQModel, AutoAWQ and compressed-tensors, read as the weights that these
 * programs make of them, and written with the bytes that these programs wrote
 * (tests/fixtures/packed). */
#include "checkpoint/checkpoint.h"
#include "checkpoint/packed_write.h"
#include "scratch.h"
#include "util/mem.h"
#include <math.h>

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

static const char *const gptq_settings[] = {"b2_sym",  "b2_asym", "b3_sym",  "b3_sym_act",
                                            "b3_asym", "b4_sym",  "b4_asym", "b4_sym_act",
                                            "b8_sym",  "b8_asym"};
enum { GPTQ_SETTINGS = sizeof gptq_settings / sizeof *gptq_settings };

static void folders_of_gptq_are_read(void **state)
{
    (void)state;
    for (int i = 0; i < GPTQ_SETTINGS; i++)
        for (int v = 1; v <= 2; v++) {
            char config[256], setting[64];
            const struct part parts[PARTS_MAX] = {{"qweight", "qweight"},
                                                  {v == 1 ? "qzeros_v1" : "qzeros_v2", "qzeros"},
                                                  {"scales", "scales"},
                                                  {"g_idx", "g_idx"}};
            snprintf(setting, sizeof setting, "gptq_%s", gptq_settings[i]);
            snprintf(config, sizeof config,
                     "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": %c, "
                     "\"group_size\": 32, \"checkpoint_format\": \"%s\"}}",
                     gptq_settings[i][1], v == 1 ? "gptq" : "gptq_v2");
            check(setting, config, parts);
        }
}

static void folders_of_awq_are_read(void **state)
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

static const char *const compressed_settings[] = {"b3_sym", "b4_sym", "b4_asym", "b8_asym",
                                                  "b3_asym_channel"};
enum { COMPRESSED_SETTINGS = sizeof compressed_settings / sizeof *compressed_settings };

static void compressed_tensors_are_read(void **state)
{
    (void)state;
    for (int i = 0; i < COMPRESSED_SETTINGS; i++) {
        char config[512], setting[64];
        snprintf(setting, sizeof setting, "ct_%s", compressed_settings[i]);
        compressed_config(config, sizeof config, compressed_settings[i][1],
                          !strstr(compressed_settings[i], "asym"),
                          strstr(compressed_settings[i], "channel") ? "null" : "32");
        check(setting, config, compressed);
    }
}

/* --- writing --- */

/* What the writer gets: codes from the fixture's weights, scales and zeros. */
struct unpacked {
    int64_t rows, cols, groups;
    uint8_t *codes, *zeros;
    double *scales;
    int32_t *group;
};

static void unpacked_free(struct unpacked *u)
{
    free(u->codes);
    free(u->zeros);
    free(u->scales);
    free(u->group);
}

/* Scale of row i and group g, which the formats store in two orders. */
static double scale_at(const struct tensor_entry *t, const void *data, bool rows_first, int64_t i,
                       int64_t g)
{
    float x;
    const int64_t at = rows_first ? i * t->shape[1] + g : g * t->shape[1] + i;
    dtype_widen(&x, (const char *)data + at * (int64_t)dtype_size(t->dtype), t->dtype, 1);
    return (double)x;
}

/* zeros: the zero of row i and group g is zeros[i * groups + g]. */
static struct unpacked unpack(const char *setting, bool rows_first, const char *scales_part,
                              const uint8_t *zeros)
{
    const struct tensor_entry *weight = stored(setting, "dequant"),
                              *scales = stored(setting, scales_part),
                              *group = stored(setting, "g_idx");
    struct unpacked u = {.rows = weight->shape[0], .cols = weight->shape[1]};
    float *w = bytes_of(weight);
    void *s = bytes_of(scales);
    u.groups = scales->shape[rows_first ? 1 : 0];
    u.codes = calloc((size_t)(u.rows * u.cols), 1);
    u.zeros = calloc((size_t)(u.rows * u.groups), 1);
    u.scales = calloc((size_t)(u.rows * u.groups), sizeof *u.scales);
    u.group = group ? bytes_of(group) : calloc((size_t)u.cols, sizeof *u.group);
    for (int64_t j = 0; !group && j < u.cols; j++) u.group[j] = (int32_t)(j / (u.cols / u.groups));
    for (int64_t i = 0; i < u.rows; i++) {
        for (int64_t g = 0; g < u.groups; g++) {
            u.scales[i * u.groups + g] = scale_at(scales, s, rows_first, i, g);
            u.zeros[i * u.groups + g] = zeros[i * u.groups + g];
        }
        for (int64_t j = 0; j < u.cols; j++) {
            const int64_t at = i * u.groups + u.group[j];
            u.codes[i * u.cols + j] =
                (uint8_t)(lrint((double)w[i * u.cols + j] / u.scales[at]) + u.zeros[at]);
        }
    }
    free(w);
    free(s);
    return u;
}

/* Field i of a stream of words; independent of the reader's. */
static uint8_t field(const uint32_t *w, int64_t pitch, int64_t i, int64_t bits)
{
    uint8_t out = 0;
    for (int64_t b = 0; b < bits; b++) {
        const int64_t at = i * bits + b;
        out |= (uint8_t)((w[at / 32 * pitch] >> (at % 32) & 1) << b);
    }
    return out;
}

/* Every tensor that the writer makes of u has the bytes of the fixture's. */
static void check_written(const char *setting, const struct packed_layout *l,
                          const struct unpacked *u)
{
    struct packed_part parts[PACKED_PARTS];
    const struct packed_source from = {.rows = u->rows,
                                       .cols = u->cols,
                                       .codes = u->codes,
                                       .zeros = u->zeros,
                                       .scales = u->scales,
                                       .groups = u->group};
    const int n = packed_parts(l, u->rows, u->cols, parts);
    assert_true(n >= 3);
    for (int i = 0; i < n; i++) {
        const char *name = parts[i].ending + 1;
        if (strcmp(name, "qzeros") == 0 && l->format == PACKED_GPTQ) name = "qzeros_v1";
        if (strcmp(name, "qzeros") == 0 && l->format == PACKED_GPTQ_V2) name = "qzeros_v2";
        const struct tensor_entry *want = stored(setting, name);
        if (!want && strcmp(name, "g_idx") == 0) continue;
        if (!want) fail_msg("%s has no %s", setting, name);
        assert_int_equal(parts[i].dtype, want->dtype);
        assert_int_equal(parts[i].n, want->n_elements);
        assert_true(tensor_has_shape(want, parts[i].n_dims, parts[i].shape));
        void *expected = bytes_of(want), *got = bytes_of(want);
        memset(got, 0xA5, (size_t)want->n_bytes);
        packed_fill(l, &parts[i], &from, got);
        if (memcmp(got, expected, (size_t)want->n_bytes) != 0) fail_msg("%s.%s", setting, name);
        free(expected);
        free(got);
    }
}

static void gptq_is_written_as_it_is_read(void **state)
{
    (void)state;
    for (int i = 0; i < GPTQ_SETTINGS; i++) {
        char setting[64];
        snprintf(setting, sizeof setting, "gptq_%s", gptq_settings[i]);
        const struct tensor_entry *scales = stored(setting, "scales"),
                                  *packed = stored(setting, "qzeros_v2");
        const int64_t bits = gptq_settings[i][1] - '0', rows = scales->shape[1],
                      groups = scales->shape[0];
        uint32_t *words = bytes_of(packed);
        uint8_t *zeros = calloc((size_t)(rows * groups), 1);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t g = 0; g < groups; g++)
                zeros[r * groups + g] = field(words + g * packed->shape[1], 1, r, bits);
        struct unpacked u = unpack(setting, false, "scales", zeros);
        struct packed_layout l = {.bits = bits, .group_size = 32};
        for (l.format = PACKED_GPTQ; l.format <= PACKED_GPTQ_V2; l.format++)
            check_written(setting, &l, &u);
        unpacked_free(&u);
        free(words);
        free(zeros);
    }
}

static void awq_is_written_as_it_is_read(void **state)
{
    (void)state;
    static const int64_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    const struct tensor_entry *packed = stored("awq", "qzeros");
    const int64_t groups = packed->shape[0], words = packed->shape[1];
    uint32_t *w = bytes_of(packed);
    uint8_t *zeros = calloc((size_t)(groups * words * 8), 1);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t k = 0; k < words * 8; k++)
            zeros[(k / 8 * 8 + order[k % 8]) * groups + g] =
                w[g * words + k / 8] >> (4 * (k % 8)) & 15;
    struct unpacked u = unpack("awq", false, "scales", zeros);
    const struct packed_layout l = {.format = PACKED_AWQ, .bits = 4, .group_size = 32};
    check_written("awq", &l, &u);
    unpacked_free(&u);
    free(w);
    free(zeros);
}

static void compressed_tensors_are_written_as_read(void **state)
{
    (void)state;
    for (int i = 0; i < COMPRESSED_SETTINGS; i++) {
        char setting[64];
        const char *name = compressed_settings[i];
        snprintf(setting, sizeof setting, "ct_%s", name);
        const struct tensor_entry *scales = stored(setting, "weight_scale"),
                                  *packed = stored(setting, "weight_zero_point");
        const struct packed_layout l = {.format = PACKED_COMPRESSED,
                                        .bits = name[1] - '0',
                                        .group_size = strstr(name, "channel") ? -1 : 32,
                                        .symmetric = !strstr(name, "asym"),
                                        .wide = true};
        const int64_t rows = scales->shape[0], groups = scales->shape[1];
        uint32_t *words = packed ? bytes_of(packed) : NULL;
        uint8_t *zeros = calloc((size_t)(rows * groups), 1);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t g = 0; g < groups; g++)
                zeros[r * groups + g] =
                    words ? field(words + g, groups, r, l.bits) : (uint8_t)(1 << (l.bits - 1));
        struct unpacked u = unpack(setting, true, "weight_scale", zeros);
        check_written(setting, &l, &u);
        unpacked_free(&u);
        free(words);
        free(zeros);
    }
}

static void refuse_layout(struct packed_layout l, const char *format, const char *message)
{
    struct err e = {0};
    assert_int_equal(packed_layout_choose(&l, format, &e), ERR_USAGE);
    if (!strstr(e.text, message) || !strstr(e.text, "it holds ")) fail_msg("%s", e.text);
}

static void refuse_size(const char *format, int64_t rows, int64_t cols)
{
    struct packed_layout l = {.bits = 4, .group_size = 32};
    struct err e = {0};
    assert_int_equal(packed_layout_choose(&l, format, &e), OK);
    assert_int_equal(packed_check_size(&l, "l.0.weight", 64, 64, &e), OK);
    assert_int_equal(packed_check_size(&l, "l.0.weight", rows, cols, &e), ERR_USAGE);
    if (!strstr(e.text, "cannot hold l.0.weight")) fail_msg("%s", e.text);
}

static void layouts_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    refuse_layout((struct packed_layout){.bits = 3, .group_size = 32}, "awq", "3 bits");
    refuse_layout((struct packed_layout){.bits = 5, .group_size = 32}, "gptq", "5 bits");
    refuse_layout((struct packed_layout){.bits = 4, .wide = true}, "gptq", "scales of 32 bits");
    refuse_layout((struct packed_layout){.bits = 4, .wide = true}, "awq", "scales of 32 bits");
    refuse_layout((struct packed_layout){.bits = 4, .ordered = true}, "awq", "order of activation");
    refuse_layout((struct packed_layout){.bits = 4, .ordered = true}, "compressed-tensors",
                  "order of activation");
    refuse_size("gptq", 48, 64);
    refuse_size("gptq", 64, 80);
    refuse_size("awq", 60, 64);
    refuse_size("awq", 64, 80);
    refuse_size("compressed-tensors", 64, 80);
}

static void refuse_folder(const char *folder, enum status code, const char *message)
{
    struct checkpoint *c;
    struct err e = {0};
    const enum status st = checkpoint_open(folder, &c, &e);
    if (st != code || !strstr(e.text, message))
        fail_msg("%d, expected %d and \"%s\": %s", (int)st, (int)code, message, e.text);
}

static void refuse(const char *config, enum status code, const char *message)
{
    refuse_folder(write_folder("ct_b4_sym", config, compressed), code, message);
}

static void bad_configs_are_refused(void **state)
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
    static const char *const bitnet[][2] = {
        {"\"linear_class\": \"bitlinear2\"", "linear_class \"bitlinear2\": expected bitlinear or"},
        {"\"quantization_mode\": \"later\"", "quantization_mode \"later\": expected offline or"},
        {"\"use_rms_norm\": true", "use_rms_norm: a norm of each linear's own"},
        {"\"modules_to_not_convert\": [\"model\"]", "only null and [\"lm_head\"]"}};
    for (int i = 0; i < 4; i++) {
        snprintf(config, sizeof config,
                 "{\"quantization_config\": {\"quant_method\": \"bitnet\", %s}}", bitnet[i][0]);
        refuse(config, ERR_USAGE, bitnet[i][1]);
    }
    refuse("{\"quantization_config\": {\"quant_method\": \"bitnet\"}}", ERR_FORMAT,
           "no tensor l.0.weight, though l.0.weight_scale is there");
    compressed_config(config, sizeof config, '8', true, "32");
    refuse(config, ERR_SHAPE, "weight_packed has shape [40, 12] where [40, 24] is expected");
    compressed_config(config, sizeof config, '4', true, "9223372036854775807");
    refuse(config, ERR_SHAPE, "weight_scale has shape [40, 3] where [40, 1] is expected");
    compressed_config(config, sizeof config, '4', false, "32");
    refuse(config, ERR_FORMAT, "no tensor l.0.weight_zero_point");
}

/* Settings beside which the stored weights alone are not what the model computes. */
static void settings_that_change_the_model_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *all, *group, *weights, *message;
    } cases[] = {
        {"\"kv_cache_scheme\": {\"num_bits\": 8}", "", "", "kv_cache_scheme"},
        {"\"transform_config\": {\"config_groups\": {\"R1\": {}}}", "", "", "transform_config"},
        {"\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}", "", "", "sparse-24-bitmask"},
        {"", "\"output_activations\": {\"num_bits\": 8}", "", "output_activations"},
        {"", "\"input_activations\": {\"num_bits\": 8}", "", "input_activations"},
        {"", "\"format\": \"float-quantized\"", "", "format \"float-quantized\""},
        {"", "", "\"type\": \"float\"", "type \"float\""},
        {"", "", "\"type\": 3", "type \"of another type\""},
        {"", "", "\"dynamic\": true", "dynamic"},
        {"", "", "\"block_structure\": [128, 128]", "block_structure"},
        {"\"kv_cache_scheme\": null, \"transform_config\": {}, \"sparsity_config\": {}",
         "\"output_activations\": null, \"format\": \"pack-quantized\"",
         "\"type\": \"int\", \"dynamic\": false, \"block_structure\": null", NULL},
        {"\"sparsity_config\": {\"format\": \"dense\"}", "\"format\": null", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[900];
        snprintf(config, sizeof config,
                 "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
                 "\"pack-quantized\", %s%s \"config_groups\": {\"group_0\": {%s%s \"weights\": "
                 "{%s%s \"num_bits\": 4, \"group_size\": 32, \"symmetric\": true}}}}}",
                 cases[i].all, cases[i].all[0] ? "," : "", cases[i].group,
                 cases[i].group[0] ? "," : "", cases[i].weights, cases[i].weights[0] ? "," : "");
        if (cases[i].message)
            refuse(config, ERR_USAGE, cases[i].message);
        else
            check("ct_b4_sym", config, compressed);
    }
    static const char *const gptq[] = {"\"dynamic\": {\"+:.*q_proj\": {\"bits\": 8}}",
                                       "\"adapter\": {\"name\": \"lora\"}",
                                       "\"is_marlin_format\": true", "\"rotation\": \"hadamard\""};
    for (size_t i = 0; i < sizeof gptq / sizeof *gptq; i++) {
        char config[300], name[32];
        sscanf(gptq[i], "\"%31[^\"]", name);
        snprintf(config, sizeof config,
                 "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, %s}}",
                 gptq[i]);
        refuse(config, ERR_USAGE, name);
    }
}

/* What stands beside the codes: the size they say, and tensors that nothing here applies. */
static void tensors_that_nothing_applies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *part, *name, *message;
    } cases[] = {
        {"ct_b4_sym", "R1_input.weight", "tensor l.0.R1_input.weight: it would change"},
        {"ct_b4_sym", "weight_zero_point", "tensor l.0.weight_zero_point: it would change"},
        {"ct_b4_sym", "act.weight_scale", "tensor l.0.act.weight_scale: it would change"},
    };
    char config[512];
    compressed_config(config, sizeof config, '4', true, "32");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct part parts[PARTS_MAX] = {{"weight_packed", "weight_packed"},
                                              {"weight_scale", "weight_scale"},
                                              {"weight_shape", "weight_shape"},
                                              {"weight_scale", cases[i].name}};
        refuse_folder(write_folder(cases[i].part, config, parts), ERR_FORMAT, cases[i].message);
    }
    const struct part without[PARTS_MAX] = {{"weight_packed", "weight_packed"},
                                            {"weight_scale", "weight_scale"}};
    refuse_folder(write_folder("ct_b4_sym", config, without), ERR_FORMAT,
                  "no tensor l.0.weight_shape");
    const struct part other[PARTS_MAX] = {{"weight_packed", "weight_packed"},
                                          {"weight_scale", "weight_scale"},
                                          {"weight_scale", "weight_shape"}};
    refuse_folder(write_folder("ct_b4_sym", config, other), ERR_SHAPE, "rows and columns expected");
}

/* Codes, scales and size of a linear (2, cols) of 3 bits, the whole row a group; the size is
 * written as `says`. */
static const char *write_row(int64_t cols, const int64_t says[2])
{
    const int64_t words = (3 * cols + 31) / 32;
    const struct tensor_shape shapes[] = {{"l.weight_packed", DTYPE_I32, 2, {2, words}},
                                          {"l.weight_scale", DTYPE_F32, 2, {2, 1}},
                                          {"l.weight_shape", DTYPE_I64, 1, {2}}};
    const float scales[2] = {1, 0.5F};
    uint32_t codes[20] = {0};
    char config[512];
    struct safetensors_out *out;
    for (int64_t i = 0; i < 2 * cols; i++) {
        const int64_t at = i / cols * words * 32 + i % cols * 3;
        for (int64_t b = 0; b < 3; b++)
            codes[(at + b) / 32] |= (uint32_t)(i % 8 >> b & 1) << (at + b) % 32;
    }
    assert_int_equal(safetensors_create(scratch_path("model.safetensors"), shapes, 3, &out, NULL),
                     OK);
    assert_int_equal(safetensors_append(out, codes, 2 * words, NULL), OK);
    assert_int_equal(safetensors_append(out, scales, 2, NULL), OK);
    assert_int_equal(safetensors_append(out, says, 2, NULL), OK);
    assert_int_equal(safetensors_commit(out, NULL), OK);
    safetensors_out_close(out);
    compressed_config(config, sizeof config, '3', true, "null");
    scratch_put("config.json", config, strlen(config));
    return scratch_dir();
}

/* Columns whose codes do not fill their last word: the size is read, and held against the words. */
static void the_size_is_read_and_checked(void **state)
{
    (void)state;
    static const int64_t bad[][2] = {{2, 42}, {2, 54},  {3, 50},        {1, 50},
                                     {2, 0},  {2, -50}, {2, INT32_MAX}, {2, INT64_MAX}};
    for (int64_t cols = 43; cols <= 53; cols++) {
        struct checkpoint *c;
        struct err e = {0};
        float w[2 * 53];
        if (checkpoint_open(write_row(cols, (const int64_t[]){2, cols}), &c, &e) != OK)
            fail_msg("%s", e.text);
        if (checkpoint_read_f32(c, "l.weight", 2, (const int64_t[]){2, cols}, w, &e) != OK)
            fail_msg("%s", e.text);
        for (int64_t i = 0; i < 2 * cols; i++)
            assert_true(w[i] == (i < cols ? 1 : 0.5F) * (float)(i % 8 - 4));
        checkpoint_close(c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const bool fits = bad[i][1] <= INT32_MAX;
        refuse_folder(write_row(50, bad[i]), fits ? ERR_SHAPE : ERR_FORMAT,
                      fits ? "l.weight_packed" : "does not fit 32 bits");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_of_gptq_are_read),
                                       cmocka_unit_test(folders_of_awq_are_read),
                                       cmocka_unit_test(compressed_tensors_are_read),
                                       cmocka_unit_test(gptq_is_written_as_it_is_read),
                                       cmocka_unit_test(awq_is_written_as_it_is_read),
                                       cmocka_unit_test(compressed_tensors_are_written_as_read),
                                       cmocka_unit_test(layouts_that_do_not_exist_are_refused),
                                       cmocka_unit_test(bad_configs_are_refused),
                                       cmocka_unit_test(settings_that_change_the_model_are_refused),
                                       cmocka_unit_test(tensors_that_nothing_applies_are_refused),
                                       cmocka_unit_test(the_size_is_read_and_checked)};
    if (safetensors_open(FIXTURES "/packed/packed.safetensors", &fixture, NULL) != OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safetensors_close(&fixture);
    return failed;
}
