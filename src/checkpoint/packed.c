#include "checkpoint/packed_internal.h"
#include "util/mem.h"
#include <inttypes.h>

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

static enum status read_gptq(const json_t *q, const char *file, struct packed_layout *out,
                             struct err *e)
{
    static const char *const others[] = {"dynamic", "adapter", "is_marlin_format", "rotation",
                                         NULL};
    const char *form = json_text(q, "checkpoint_format", "gptq");
    PASS(refuse_settings(q, others, file, e));
    NEED(strcmp(form, "gptq") == 0 || strcmp(form, "gptq_v2") == 0, ERR_USAGE,
         "%s: quantization_config.checkpoint_format %s: gptq and gptq_v2 can be read", file, form);
    out->format = strcmp(form, "gptq") == 0 ? PACKED_GPTQ : PACKED_GPTQ_V2;
    return OK;
}

static enum status read_awq(const json_t *q, const char *file, struct packed_layout *out,
                            struct err *e)
{
    const char *version = json_text(q, "version", "gemm");
    NEED(strcmp(version, "gemm") == 0 || strcmp(version, "GEMM") == 0, ERR_USAGE,
         "%s: quantization_config.version %s: only gemm can be read", file, version);
    out->format = PACKED_AWQ;
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

enum status packed_layout_read(const json_t *config, const char *file, struct packed_layout *out,
                               struct err *e)
{
    const json_t *q = json_object_get(config, "quantization_config"), *weights = q;
    *out = (struct packed_layout){.format = PACKED_NONE};
    if (!q || json_is_null(q)) return OK;
    NEED(json_is_object(q), ERR_FORMAT, "%s: quantization_config is no object", file);
    const char *method = json_text(q, "quant_method", "");
    if (strcmp(method, "gptq") == 0)
        PASS(read_gptq(q, file, out, e));
    else if (strcmp(method, "bitnet") == 0)
        return packed_bitnet_layout(q, file, out, e);
    else if (strcmp(method, "qtraj") == 0)
        return packed_blocks_layout(q, file, out, e);
    else if (strcmp(method, "awq") == 0)
        PASS(read_awq(q, file, out, e));
    else if (strcmp(method, "compressed-tensors") == 0)
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

struct search {
    const struct tensor_entry *(*find)(const void *context, const char *name);
    const void *context;
    const char *stem; /* name of the codes without their ending */
    int n;            /* its length */
    const char *file;
};

/* *out = the tensor STEM ENDING. */
static enum status find_one(const struct search *s, const char *ending, bool needed,
                            const struct tensor_entry **out, struct err *e)
{
    AUTO_FREE char *name = NULL;
    PASS(mem_format(&name, e, "%.*s%s", s->n, s->stem, ending));
    *out = s->find(s->context, name);
    NEED(*out || !needed, ERR_FORMAT, "%s: no tensor %s, though %s is there", s->file, name,
         s->stem);
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

enum status
packed_tensor_find(const struct packed_layout *l, const struct tensor_entry *codes,
                   const struct tensor_entry *(*find)(const void *context, const char *name),
                   const void *context, const char *file, struct packed_tensor *out, struct err *e)
{
    if (l->format == PACKED_BITNET)
        return packed_bitnet_find(l, codes, find, context, file, out, e);
    const struct packed_endings *of = packed_endings_of(l->format);
    const struct search s = {.find = find,
                             .context = context,
                             .stem = codes->name,
                             .n = (int)(strlen(codes->name) - strlen(of->codes)),
                             .file = file};
    const bool zeros = l->format == PACKED_BLOCKS       ? l->mixed
                       : l->format == PACKED_COMPRESSED ? !l->symmetric
                                                        : true;
    *out = (struct packed_tensor){.codes = codes};
    PASS(find_one(&s, of->scales, true, &out->scales, e));
    if (of->groups) PASS(find_one(&s, of->groups, false, &out->groups, e));
    if (zeros) PASS(find_one(&s, of->zeros, true, &out->zeros, e));
    if (of->size) PASS(find_one(&s, of->size, true, &out->size, e));
    NEED(codes->n_dims == 2 && out->scales->n_dims == 2 &&
             (!out->groups || out->groups->n_dims == 1),
         ERR_SHAPE, "%s: tensor %s: %s and scales of 2 dimensions are expected", file, codes->name,
         of->codes);
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

/* Code i of a stream of words that are `pitch` apart. */
static uint32_t stream_code(const uint32_t *w, int64_t pitch, int64_t i, int64_t bits)
{
    const int64_t at = i * bits, word = at / PACKED_WORD, shift = at % PACKED_WORD;
    uint64_t pair = w[word * pitch];
    if (shift + bits > PACKED_WORD) pair |= (uint64_t)w[(word + 1) * pitch] << PACKED_WORD;
    return (uint32_t)(pair >> shift) & ((1u << bits) - 1);
}

/* The nibble of AutoAWQ's word that has row i. */
static uint32_t awq_code(const uint32_t *w, int64_t i)
{
    return w[i / PACKED_AWQ_ROWS] >> (4 * packed_awq_nibble(i % PACKED_AWQ_ROWS)) & 15;
}

static uint32_t code_at(const struct packed_layout *l, const struct packed_tensor *t,
                        const struct packed_numbers *n, int64_t row, int64_t col)
{
    if (l->format == PACKED_AWQ) return awq_code(n->codes + col * (t->rows / PACKED_AWQ_ROWS), row);
    if (l->format == PACKED_COMPRESSED)
        return stream_code(n->codes + row * packed_words(t->cols, l->bits), 1, col, l->bits);
    return stream_code(n->codes + row, t->rows, col, l->bits);
}

/* The first form of gptq stores zeros less one: at 2, 4 and 8 bits one constant was subtracted from
 * each word, so that a zero borrows from the next one; at 3 bits each field wraps by itself. */
static uint32_t gptq_zero(const struct packed_layout *l, const uint32_t *w, int64_t row)
{
    const uint32_t mask = (1u << l->bits) - 1;
    if (PACKED_WORD % l->bits != 0) return (stream_code(w, 1, row, l->bits) + 1) & mask;
    const uint32_t word = w[row * l->bits / PACKED_WORD] + UINT32_MAX / mask;
    return word >> (row * l->bits % PACKED_WORD) & mask;
}

static uint32_t zero_at(const struct packed_layout *l, const struct packed_tensor *t,
                        const struct packed_numbers *n, int64_t row, int64_t group, int64_t groups)
{
    if (!n->zeros) return 1u << (l->bits - 1);
    if (l->format == PACKED_AWQ)
        return awq_code(n->zeros + group * (t->rows / PACKED_AWQ_ROWS), row);
    if (l->format == PACKED_COMPRESSED) return stream_code(n->zeros + group, groups, row, l->bits);
    const uint32_t *w = n->zeros + group * packed_words(t->rows, l->bits);
    return l->format == PACKED_GPTQ ? gptq_zero(l, w, row) : stream_code(w, 1, row, l->bits);
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
            zero = (float)zero_at(l, t, n, i, g, groups);
        }
        last = g;
        dst[j] = scale * ((float)code_at(l, t, n, i, j) - zero);
    }
}
