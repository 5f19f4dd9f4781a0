/* Linears of BitNet b1.58, as transformers stores them (packed.h). */
#include "checkpoint/packed_internal.h"
#include "util/mem.h"
#include <inttypes.h>

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

enum status packed_bitnet_layout(const json_t *q, const char *file, struct packed_layout *out,
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

enum status
packed_bitnet_find(const struct packed_layout *l, const struct tensor_entry *scale,
                   const struct tensor_entry *(*find)(const void *context, const char *name),
                   const void *context, const char *file, struct packed_tensor *out, struct err *e)
{
    AUTO_FREE char *name = NULL;
    const int n = (int)(strlen(scale->name) - strlen("_scale"));
    PASS(mem_format(&name, e, "%.*s", n, scale->name));
    const struct tensor_entry *w = find(context, name);
    NEED(w, ERR_FORMAT, "%s: no tensor %s, though %s is there", file, name, scale->name);
    const bool bytes = w->dtype == DTYPE_U8;
    NEED(bytes || (!l->divides && dtype_is_float(w->dtype)), ERR_FORMAT,
         "%s: tensor %s is %s; expected U8%s", file, name, dtype_name(w->dtype),
         l->divides ? ", as linear_class is bitlinear" : " or floats");
    NEED(w->n_dims == 2 && scale->n_elements == 1 && dtype_is_float(scale->dtype), ERR_SHAPE,
         "%s: tensors %s and %s: expected two dimensions, and one float", file, name, scale->name);
    *out = (struct packed_tensor){.codes = w,
                                  .scales = scale,
                                  .rows = w->shape[0] * (bytes ? PER_BYTE : 1),
                                  .cols = w->shape[1]};
    return OK;
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
