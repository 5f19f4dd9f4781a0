#include "checkpoint/packed_internal.h"
#include "util/mem.h"
#include <inttypes.h>
#include <math.h>

/* --- the layout --- */

/* Whether a setting asks for nothing: absent, null, false, or empty. */
static bool is_idle(const json_t *value)
{
    const bool holds = json_is_object(value) || json_is_array(value);
    return !value || json_is_null(value) || json_is_false(value) ||
           (holds && json_object_size(value) + json_array_size(value) == 0);
}

/* Settings that change weights or activations and are not applied here. */
static enum status refuse_settings(const json_t *object, const char *const *names, const char *file,
                                   struct err *e)
{
    for (; *names; names++)
        NEED(is_idle(json_object_get(object, *names)), ERR_USAGE,
             "%s: quantization_config: checkpoints with %s cannot be read, as it changes what they "
             "compute",
             file, *names);
    return OK;
}

/* A setting has that value or is absent. */
static enum status need_word(const json_t *object, const char *name, const char *word,
                             const char *file, struct err *e)
{
    const json_t *value = json_object_get(object, name);
    const char *found = json_string_value(value);
    NEED(is_idle(value) || (found && strcmp(found, word) == 0), ERR_USAGE,
         "%s: quantization_config: %s \"%s\" cannot be read, only %s", file, name,
         found ? found : "of another type", word);
    return OK;
}

/* quantization_config.config_groups has one group of linears, with weights in 2 to 8 bits. */
static enum status read_compressed(const json_t *q, const char *file, struct packed_layout *out,
                                   const json_t **weights, struct err *e)
{
    static const char *const of_all[] = {"kv_cache_scheme", "transform_config", NULL},
                             *const of_group[] = {"input_activations", "output_activations", NULL},
                             *const of_weights[] = {"dynamic", "block_structure", NULL};
    const char *form = json_text(q, "format", "");
    const json_t *groups = json_object_get(q, "config_groups");
    NEED(strcmp(form, "pack-quantized") == 0, ERR_USAGE,
         "%s: quantization_config.format \"%s\": only pack-quantized can be read", file, form);
    NEED(json_object_size(groups) == 1, ERR_USAGE,
         "%s: quantization_config.config_groups: one group can be read, %zu are there", file,
         json_object_size(groups));
    const json_t *group = json_object_iter_value(json_object_iter((json_t *)(uintptr_t)groups));
    *weights = json_object_get(group, "weights");
    PASS(refuse_settings(q, of_all, file, e));
    PASS(need_word(json_object_get(q, "sparsity_config"), "format", "dense", file, e));
    PASS(refuse_settings(group, of_group, file, e));
    PASS(need_word(group, "format", form, file, e));
    PASS(need_word(*weights, "type", "int", file, e));
    PASS(refuse_settings(*weights, of_weights, file, e));
    out->symmetric = !json_is_false(json_object_get(*weights, "symmetric"));
    out->format = PACKED_COMPRESSED;
    return OK;
}

/* Linears of BitNet b1.58, as transformers stores them. */
enum { PER_BYTE = 4 };

static bool is_online(const json_t *q)
{
    return strcmp(json_text(q, "linear_class", "bitlinear"), "autobitlinear") == 0 &&
           strcmp(json_text(q, "quantization_mode", "offline"), "online") == 0;
}

enum bitnet_linears packed_bitnet_linears(const json_t *config)
{
    const json_t *q = json_object_get(config, "quantization_config");
    if (strcmp(json_text(q, "quant_method", ""), "bitnet") != 0) return BITNET_NONE;
    return is_online(q) ? BITNET_ONLINE : BITNET_STORED;
}

static enum status check_word(const json_t *q, const char *key, const char *otherwise,
                              const char *other, const char *file, struct err *e)
{
    const char *word = json_text(q, key, otherwise);
    NEED(strcmp(word, otherwise) == 0 || strcmp(word, other) == 0, ERR_USAGE,
         "%s: quantization_config.%s \"%s\": expected %s or %s", file, key, word, otherwise, other);
    return OK;
}

static enum status bitnet_layout(const json_t *q, const char *file, struct packed_layout *out,
                                 struct err *e)
{
    const json_t *whole = json_object_get(q, "modules_to_not_convert");
    const char *first = json_string_value(json_array_get(whole, 0));
    PASS(check_word(q, "linear_class", "bitlinear", "autobitlinear", file, e));
    PASS(check_word(q, "quantization_mode", "offline", "online", file, e));
    NEED(!json_is_true(json_object_get(q, "use_rms_norm")), ERR_USAGE,
         "%s: quantization_config.use_rms_norm: a norm of each linear's own cannot be read", file);
    NEED(!whole || json_is_null(whole) ||
             (json_array_size(whole) == 1 && first && strcmp(first, "lm_head") == 0),
         ERR_USAGE,
         "%s: quantization_config.modules_to_not_convert: only null and [\"lm_head\"] can be read",
         file);
    out->divides = strcmp(json_text(q, "linear_class", "bitlinear"), "bitlinear") == 0;
    out->format = is_online(q) ? PACKED_NONE : PACKED_BITNET;
    return OK;
}

static enum status blocks_layout(const json_t *q, const char *file, struct packed_layout *out,
                                 struct err *e)
{
    const char *code = json_text(q, "code", "");
    int kind = 0;
    while (block_kinds[kind] && strcmp(block_kinds[kind], code) != 0) kind++;
    NEED(block_kinds[kind], ERR_FORMAT,
         "%s: quantization_config.code is \"%s\"; expected 1mad, 3inst, hyb or e8p", file, code);
    const bool e8p = kind == BLOCK_E8P;
    const int64_t bits = json_int(q, "bits"), window = e8p ? 0 : json_int(q, "window");
    const int64_t values = e8p ? 1 : bitshift_values(kind);
    NEED(bits >= (e8p ? 2 : 1) && bits <= 4, ERR_FORMAT,
         "%s: quantization_config: %s has no codes of %lld bits", file, code, (long long)bits);
    NEED(e8p || (window >= BITSHIFT_WINDOW_MIN && window <= BITSHIFT_WINDOW_MAX &&
                 window >= 2 * bits * values),
         ERR_FORMAT, "%s: quantization_config: %s of %lld bits has no window of %lld", file, code,
         (long long)bits, (long long)window);
    *out = (struct packed_layout){.format = PACKED_BLOCKS,
                                  .bits = bits,
                                  .group_size = -1,
                                  .blocks = {kind, bits, window},
                                  .mixed = json_is_true(json_object_get(q, "incoherence"))};
    return OK;
}

enum status packed_blocks_code(const json_t *q, const char *file, struct block_code *out,
                               struct err *e)
{
    const json_t *numbers = json_object_get(q, "table");
    float table[2 * BITSHIFT_TABLE];
    struct packed_layout l;
    PASS(blocks_layout(q, file, &l, e));
    const bool hyb = l.blocks.kind == BLOCK_HYB;
    NEED(!hyb || json_array_size(numbers) == 2 * BITSHIFT_TABLE, ERR_FORMAT,
         "%s: quantization_config.table: %d numbers are expected", file, 2 * BITSHIFT_TABLE);
    for (size_t i = 0; hyb && i < 2 * BITSHIFT_TABLE; i++) {
        table[i] = (float)json_number_get(json_array_get(numbers, i));
        NEED(isfinite(table[i]), ERR_FORMAT,
             "%s: quantization_config.table: number %zu is none, or not finite", file, i);
    }
    return block_code_open(&l.blocks, hyb ? table : NULL, out, e);
}

enum status packed_layout_read(const json_t *config, const char *file, struct packed_layout *out,
                               struct err *e)
{
    const json_t *q = json_object_get(config, "quantization_config"), *weights = q;
    *out = (struct packed_layout){.format = PACKED_NONE};
    if (!q || json_is_null(q)) return OK;
    NEED(json_is_object(q), ERR_FORMAT, "%s: quantization_config is no object", file);
    const char *method = json_text(q, "quant_method", "");
    if (strcmp(method, "bitnet") == 0) return bitnet_layout(q, file, out, e);
    if (strcmp(method, "qtraj") == 0) return blocks_layout(q, file, out, e);
    if (strcmp(method, "gptq") == 0) {
        static const char *const others[] = {"dynamic", "adapter", "is_marlin_format", "rotation",
                                             NULL};
        const char *form = json_text(q, "checkpoint_format", "gptq");
        PASS(refuse_settings(q, others, file, e));
        NEED(strcmp(form, "gptq") == 0 || strcmp(form, "gptq_v2") == 0, ERR_USAGE,
             "%s: quantization_config.checkpoint_format %s: gptq and gptq_v2 can be read", file,
             form);
        out->format = strcmp(form, "gptq") == 0 ? PACKED_GPTQ : PACKED_GPTQ_V2;
    } else if (strcmp(method, "awq") == 0) {
        const char *version = json_text(q, "version", "gemm");
        NEED(strcmp(version, "gemm") == 0 || strcmp(version, "GEMM") == 0, ERR_USAGE,
             "%s: quantization_config.version %s: only gemm can be read", file, version);
        out->format = PACKED_AWQ;
    } else if (strcmp(method, "compressed-tensors") == 0)
        PASS(read_compressed(q, file, out, &weights, e));
    else
        RAISE(ERR_USAGE,
              "%s: quantization_config.quant_method \"%s\" cannot be read: gptq, awq, "
              "compressed-tensors, bitnet and qtraj can",
              file, method);
    const json_t *bits = json_object_get(weights, "bits"),
                 *size = json_object_get(weights, "group_size");
    if (!bits) bits = json_object_get(weights, "num_bits");
    out->bits = json_integer_value(bits);
    out->group_size = size && !json_is_null(size) ? json_integer_value(size) : -1;
    NEED(out->bits >= 2 && out->bits <= PACKED_BITS_MAX, ERR_USAGE,
         "%s: quantization_config: %" PRId64 " bits cannot be read, 2 to 8 can", file, out->bits);
    NEED(out->format != PACKED_AWQ || out->bits == 4, ERR_USAGE,
         "%s: quantization_config: awq has 4 bits, not %" PRId64, file, out->bits);
    NEED(out->group_size == -1 || out->group_size > 0, ERR_FORMAT,
         "%s: quantization_config.group_size is %" PRId64, file, out->group_size);
    return OK;
}

/* --- tensors --- */

static const struct packed_endings gptq_endings = {".qweight", ".qzeros", ".scales", ".g_idx",
                                                   NULL};
static const struct packed_endings other_endings[] = {
    [PACKED_COMPRESSED] = {".weight_packed", ".weight_zero_point", ".weight_scale", ".weight_g_idx",
                           ".weight_shape"},
    [PACKED_BITNET] = {.codes = ".weight_scale"},
    [PACKED_BLOCKS] = {".codes", ".signs", ".scale", NULL, NULL}};

const struct packed_endings *packed_endings_of(enum packed_format format)
{
    return format < PACKED_COMPRESSED ? &gptq_endings : &other_endings[format];
}

const char *packed_ending(enum packed_format format)
{
    return packed_endings_of(format)->codes;
}

bool packed_is_part(enum packed_format format, const char *name)
{
    const struct packed_endings *of = packed_endings_of(format);
    const char *const all[] = {of->codes, of->zeros, of->scales, of->groups, of->size};
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < sizeof all / sizeof *all; i++)
        if (all[i] && strcmp(ending, all[i]) == 0) return true;
    return false;
}

int64_t packed_groups(const struct packed_layout *l, int64_t cols)
{
    return l->group_size < 0 ? 1 : cols / l->group_size + (cols % l->group_size != 0);
}

struct packed_shapes packed_shapes_of(const struct packed_layout *l, int64_t rows, int64_t cols)
{
    const int64_t groups = packed_groups(l, cols), b = l->bits;
    if (l->format == PACKED_COMPRESSED)
        return (struct packed_shapes){
            {rows, packed_words(cols, b)}, {packed_words(rows, b), groups}, {rows, groups}};
    if (l->format == PACKED_AWQ)
        return (struct packed_shapes){
            {cols, rows / PACKED_AWQ_ROWS}, {groups, rows / PACKED_AWQ_ROWS}, {groups, rows}};
    if (l->format == PACKED_BLOCKS)
        return (struct packed_shapes){
            {rows / BAND_ROWS, cols / block_columns(&l->blocks) * block_bytes(&l->blocks)},
            {1, block_sign_bytes(rows, cols)},
            {1, 1}};
    return (struct packed_shapes){
        {packed_words(cols, b), rows}, {groups, packed_words(rows, b)}, {groups, rows}};
}

/* *out = the tensor that has the first `stem` characters of the name of `codes` and that ending;
 * NULL: there is none. ERR_FORMAT: it is needed. ERR_NOMEM. */
static enum status find_part(const struct packed_among *in, bool needed,
                             const struct tensor_entry *codes, int stem, const char *ending,
                             const struct tensor_entry **out, struct err *e)
{
    AUTO_FREE char *name = NULL;
    PASS(mem_format(&name, e, "%.*s%s", stem, codes->name, ending));
    *out = bsearch(&name, in->entries, (size_t)in->n, sizeof *in->entries, name_compare);
    NEED(*out || !needed, ERR_FORMAT, "%s: no tensor %s, though %s is there", in->file, name,
         codes->name);
    return OK;
}

static enum status bitnet_find(const struct packed_layout *l, const struct packed_among *in,
                               const struct tensor_entry *scale, struct packed_tensor *out,
                               struct err *e)
{
    const struct tensor_entry *w;
    const int n = (int)(strlen(scale->name) - strlen("_scale"));
    PASS(find_part(in, true, scale, n, "", &w, e));
    const bool bytes = w->dtype == DTYPE_U8;
    NEED(bytes || (!l->divides && dtype_is_float(w->dtype)), ERR_FORMAT,
         "%s: tensor %s is %s; expected U8%s", in->file, w->name, dtype_name(w->dtype),
         l->divides ? ", as linear_class is bitlinear" : " or floats");
    NEED(w->n_dims == 2 && scale->n_elements == 1 && dtype_is_float(scale->dtype), ERR_SHAPE,
         "%s: tensors %s and %s: expected two dimensions, and one float", in->file, w->name,
         scale->name);
    *out = (struct packed_tensor){.codes = w,
                                  .scales = scale,
                                  .rows = w->shape[0] * (bytes ? PER_BYTE : 1),
                                  .cols = w->shape[1]};
    return OK;
}

static enum status check_shape(const struct tensor_entry *t, int n_dims, const int64_t *shape,
                               const char *file, struct err *e)
{
    NEED(!t || tensor_has_shape(t, n_dims, shape), ERR_SHAPE,
         "%s: tensor %s has shape %s where %s is expected for the weight's size, bits and group "
         "size",
         file, t->name, tensor_shape_text(t->shape, t->n_dims).text,
         tensor_shape_text(shape, n_dims).text);
    return OK;
}

/* Rows and columns of the weight, where no tensor says them. */
static void size_of(const struct packed_layout *l, struct packed_tensor *t)
{
    const int64_t *codes = t->codes->shape;
    if (l->format == PACKED_BLOCKS) {
        t->rows = codes[0] * BAND_ROWS;
        t->cols = codes[1] / block_bytes(&l->blocks) * block_columns(&l->blocks);
        return;
    }
    t->rows = t->scales->shape[1];
    t->cols = l->format == PACKED_AWQ ? codes[0] : codes[0] * PACKED_WORD / l->bits;
    if (t->groups) t->cols = t->groups->shape[0];
}

enum status packed_tensor_find(const struct packed_layout *l, const struct packed_among *in,
                               const struct tensor_entry *codes, struct packed_tensor *out,
                               struct err *e)
{
    if (l->format == PACKED_BITNET) return bitnet_find(l, in, codes, out, e);
    const struct packed_endings *of = packed_endings_of(l->format);
    const int n = (int)(strlen(codes->name) - strlen(of->codes));
    const bool zeros = l->format == PACKED_BLOCKS       ? l->mixed
                       : l->format == PACKED_COMPRESSED ? !l->symmetric
                                                        : true;
    *out = (struct packed_tensor){.codes = codes};
    PASS(find_part(in, true, codes, n, of->scales, &out->scales, e));
    if (of->groups) PASS(find_part(in, false, codes, n, of->groups, &out->groups, e));
    if (zeros) PASS(find_part(in, true, codes, n, of->zeros, &out->zeros, e));
    if (of->size) PASS(find_part(in, true, codes, n, of->size, &out->size, e));
    NEED(codes->n_dims == 2 && out->scales->n_dims == 2 &&
             (!out->groups || out->groups->n_dims == 1),
         ERR_SHAPE, "%s: tensor %s: %s and scales of 2 dimensions are expected", in->file,
         codes->name, of->codes);
    size_of(l, out);
    return OK;
}

enum status packed_tensor_check(const struct packed_layout *l, const struct packed_tensor *t,
                                const char *file, struct err *e)
{
    if (l->format == PACKED_BITNET) return OK;               /* checked when it was found */
    const int64_t most = t->codes->n_elements * PACKED_WORD; /* so that products do not overflow */
    NEED(t->rows > 0 && t->cols > 0 && t->rows <= most && t->cols <= most, ERR_SHAPE,
         "%s: tensor %s of shape %s cannot hold %s of [%" PRId64 ", %" PRId64 "]", file,
         t->codes->name, tensor_shape_text(t->codes->shape, 2).text, t->name, t->rows, t->cols);
    const struct packed_shapes shapes = packed_shapes_of(l, t->rows, t->cols);
    PASS(check_shape(t->codes, 2, shapes.codes, file, e));
    PASS(check_shape(t->zeros, 2, shapes.zeros, file, e));
    PASS(check_shape(t->groups, 1, &t->cols, file, e));
    return check_shape(t->scales, 2, shapes.scales, file, e);
}

/* --- numbers --- */

static uint32_t code_at(const uint32_t *w, struct packed_place p, int64_t bits)
{
    uint64_t pair = w[p.at];
    if (p.shift + bits > PACKED_WORD) pair |= (uint64_t)w[p.at + p.pitch] << PACKED_WORD;
    return (uint32_t)(pair >> p.shift) & ((1u << bits) - 1);
}

/* The first form of gptq stores zeros less one: at 2, 4 and 8 bits one constant was subtracted from
 * each word, so that a zero borrows from the next one; at 3 bits each field wraps by itself. */
static uint32_t zero_at(const struct packed_layout *l, const uint32_t *w, struct packed_place p)
{
    const uint32_t mask = (1u << l->bits) - 1;
    if (!w) return 1u << (l->bits - 1);
    if (l->format != PACKED_GPTQ) return code_at(w, p, l->bits);
    if (PACKED_WORD % l->bits != 0) return (code_at(w, p, l->bits) + 1) & mask;
    return (w[p.at] + UINT32_MAX / mask) >> p.shift & mask;
}

enum status packed_check(const struct packed_layout *l, const struct packed_tensor *t,
                         const struct packed_numbers *n, struct err *e)
{
    const int64_t groups = packed_groups(l, t->cols);
    for (int64_t j = 0; n->groups && j < t->cols; j++)
        NEED(n->groups[j] >= 0 && n->groups[j] < groups, ERR_FORMAT,
             "%s: column %" PRId64 " is in group %d of %" PRId64, t->groups->name, j, n->groups[j],
             groups);
    return OK;
}

void packed_row(const struct packed_layout *l, const struct packed_tensor *t,
                const struct packed_numbers *n, int64_t i, float *dst)
{
    const int64_t groups = packed_groups(l, t->cols);
    const int64_t size = l->group_size < 0 ? t->cols : l->group_size;
    float scale = 0, zero = 0;
    for (int64_t j = 0, last = -1; j < t->cols; j++) {
        const int64_t g = n->groups ? n->groups[j] : j / size;
        if (g != last) {
            scale = n->scales[l->format == PACKED_COMPRESSED ? i * groups + g : g * t->rows + i];
            zero = (float)zero_at(l, n->zeros, packed_zero_place(l, t->rows, groups, i, g));
        }
        last = g;
        const struct packed_place at = packed_code_place(l, t->rows, t->cols, i, j);
        dst[j] = scale * ((float)code_at(n->codes, at, l->bits) - zero);
    }
}

enum status packed_bitnet_decode(const struct packed_layout *l, const struct packed_tensor *t,
                                 const uint8_t *codes, float scale, int64_t first, int64_t n,
                                 float *dst, struct err *e)
{
    const int64_t part =
        t->rows / PER_BYTE * t->cols; /* of the weight's elements in one bit pair */
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + i;
        const int code = codes[at % part] >> (2 * (at / part)) & 3;
        NEED(code < 3, ERR_FORMAT,
             "tensor %s: element %" PRId64 " has code 3; ternary ones are 0 to 2", t->codes->name,
             at);
        dst[i] = l->divides ? (float)(code - 1) / scale : (float)(code - 1) * scale;
    }
    return OK;
}
