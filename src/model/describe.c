/* Lists of a model's tensors, for the commands and tools that work on names. */
#include "model/describe.h"
#include "model/model_internal.h"
#include "model/positions.h"
#include "util/mem.h"
#include <stdio.h>

_Static_assert((int)SLOTS_MAX <= (int)DESCRIBE_MAX && (int)NAME_MAX_LEN <= (int)DESCRIBE_NAME,
               "every tensor and every name fits");

/* The stage of which the slot's tensor norms the input, -1: none. */
static int norm_of(const struct spec *spec, const struct slot *s)
{
    if (s->kind != SLOT_EXTRA || spec->arch->place != NORM_PRE) return -1;
    if (s->index == EXTRA_ATTN_NORM || s->index == EXTRA_ATTN_NORM_BIAS) return STAGE_QKV;
    return s->index == EXTRA_MLP_NORM || s->index == EXTRA_MLP_NORM_BIAS ? STAGE_UP : -1;
}

/* All but the name. */
static struct tensor_description describe(const struct spec *spec, const struct slot *s,
                                          int64_t layer)
{
    return (struct tensor_description){.linear = s->kind == SLOT_WEIGHT,
                                       .stage = s->stage,
                                       .layer = layer,
                                       .bias = s->kind == SLOT_BIAS,
                                       .norm_of = norm_of(spec, s),
                                       .n_dims = s->n_dims,
                                       .shape = {s->n[0], s->n[1]}};
}

enum status model_describe(const json_t *config, const char *file, int64_t layer,
                           struct tensor_description out[DESCRIBE_MAX], int *n, struct err *e)
{
    struct spec spec;
    struct slot slots[SLOTS_MAX];
    char prefix[64] = "";
    PASS(spec_read(config, file, &spec, e));
    *n = slots_of(&spec, layer, slots);
    if (layer >= 0) snprintf(prefix, sizeof prefix, "%s%lld.", spec.arch->layers, (long long)layer);
    for (int i = 0; i < *n; i++) {
        out[i] = describe(&spec, &slots[i], layer);
        snprintf(out[i].name, sizeof out[i].name, "%s%s%s", prefix, slots[i].part, slots[i].suffix);
    }
    return OK;
}

enum status model_parameters(const struct checkpoint *c, struct tensor_description **out,
                             int64_t *n, struct err *e)
{
    struct model m = {.checkpoint = (struct checkpoint *)(uintptr_t)c}; /* only asked for names */
    struct slot slots[SLOTS_MAX];
    int64_t capacity = 0;
    *out = NULL;
    *n = 0;
    PASS(spec_read(checkpoint_config(c), checkpoint_dir(c), &m.spec, e));
    for (int64_t layer = -1; layer < m.spec.shape.layers; layer++) {
        int k = slots_of(&m.spec, layer, slots);
        for (int i = 0; i < k; i++) {
            if (slots[i].buffer) continue;
            PASS(mem_grow(out, *n, &capacity, sizeof **out, e));
            (*out)[*n] = describe(&m.spec, &slots[i], layer);
            slot_name(&m, &slots[i], layer, (*out)[(*n)++].name);
        }
    }
    return OK;
}

int64_t tensor_elements(const struct tensor_description *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

const char *model_stage_name(int stage)
{
    static const char *const names[STAGE_N] = {
        [STAGE_QKV] = "qkv", [STAGE_O] = "o", [STAGE_UP] = "up", [STAGE_DOWN] = "down"};
    return names[stage];
}

/* What of config.json is read besides the spec, as it is written. */
static json_t *read_beside(const json_t *config)
{
    static const char *const keys[] = {"pad_token_id", "bos_token_id", "eos_token_id",
                                       "quantization_config"};
    json_t *out = json_pack("{s:I, s:I}", "written", (json_int_t)positions_written(config),
                            "usable", (json_int_t)positions_usable(config));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(config, keys[i]);
        if (value && !json_is_null(value)) json_object_set(out, keys[i], value);
    }
    return out;
}

/* The bytes of a spec, which spec_read zeroes, without the addresses in it. */
enum status model_config_digest(const json_t *config, const char *file, char out[HASH_HEX],
                                struct err *e)
{
    struct spec spec;
    char numbers[HASH_HEX];
    AUTO_FREE char *text = NULL;
    json_auto_t *words = NULL;
    PASS(spec_read(config, file, &spec, e));
    words = json_pack("{s:s, s:o}", "family", spec.arch->name, "beside", read_beside(config));
    for (int i = 0; i < spec.n_ropes; i++) {
        json_object_set_new(words, i ? "window" : "rope", json_string(spec.rope[i].info.type));
        spec.rope[i].info.type = NULL;
    }
    spec.arch = NULL;
    hash_bytes(&spec, sizeof spec, numbers);
    json_object_set_new(words, "numbers", json_string(numbers));
    NEED(text = json_dump_whole(words, JSON_COMPACT | JSON_SORT_KEYS), ERR_NOMEM,
         "out of memory for a configuration");
    hash_text(text, out);
    return OK;
}
