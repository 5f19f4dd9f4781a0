/* The config.json of a model that is to be trained. */
#include "checkpoint/packed.h"
#include "model/arch_table.h"
#include "model/positions.h"
#include "model/sizes.h"
#include "train/initial.h"
#include "util/mem.h"
#include <math.h>

/* transformers' classes. */
static const char *const classes[][2] = {
    {"llama", "Llama"},      {"olmo", "Olmo"},       {"olmo2", "Olmo2"},   {"olmo3", "Olmo3"},
    {"smollm3", "SmolLM3"},  {"apertus", "Apertus"}, {"qwen2", "Qwen2"},   {"qwen3", "Qwen3"},
    {"gpt_neox", "GPTNeoX"}, {"opensci", "OpenSci"}, {"bitnet", "BitNet"},
};

static const char *const schemes[] = {"huggingface", "pythia", "olmo2", "plainlm", "scaled", NULL};

static const char *const kinds[] = {"float", "ternary", NULL};

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    const struct model_options *o = entry;
    if (!o->config && !(o->family && o->hidden && o->layers && o->heads))
        PASS(options_fail(scope, NULL, e,
                          "expected family, hidden, layers and heads, or config, a config.json"));
    if (o->family && !arch_find(o->family)) {
        char known[400];
        arch_list(known, sizeof known);
        PASS(options_fail(scope, "family", e, "%s: not supported; expected one of %s", o->family,
                          known));
    }
    return OK;
}

#define SIZE(member, doc, words)                                                                   \
    OPTION(model_options, member, INT, doc, .otherwise = words, .low = 1, .high = INT32_MAX,       \
           .fallback = "0", OPTION_SPECIAL(0, NULL))

static const struct option keys[] = {
    OPTION(model_options, config, PATH, "config.json that the keys below change",
           .otherwise = "none"),
    OPTION(model_options, family, TEXT, "model_type: gpt_neox, llama, olmo2, ...",
           .otherwise = "config's"),
    SIZE(hidden, "hidden size", "config's"),
    SIZE(layers, "blocks", "config's"),
    SIZE(heads, "attention heads", "config's"),
    SIZE(kv_heads, "key and value heads", "config's, else as many as heads"),
    SIZE(head_dim, "size of a head", "config's, else hidden / heads, of qwen3 128"),
    SIZE(intermediate, "inner size of the MLP",
         "config's, else 4 hidden, of a gated MLP 8/3 hidden rounded up to 32"),
    SIZE(vocab, "tokens of the vocabulary", "config's, else the tokenizer's"),
    SIZE(positions, "max_position_embeddings", "config's, else batch.length"),
    OPTION(model_options, theta, REAL, "base of RoPE's frequencies", .fallback = "0",
           .otherwise = "config's, else 10000, of apertus 12e6, smollm3 2e6, olmo3 5e5, bitnet 5e5",
           .minimum = 0, .maximum = HUGE_VAL),
    OPTION(model_options, tied, BOOL, "the output matrix is the embedding", .fallback = "false",
           .otherwise = "config's, else false"),
    OPTION(
        model_options, linears, CHOICE,
        "weights and inputs of the linears of blocks: as they are, or -m, 0 and m, and 8 bits, as "
        "BitNet b1.58 has them",
        .fallback = "float", .otherwise = "config's, else float", .choices = kinds),
    OPTION(model_options, init, CHOICE, "how initial weights are drawn", .fallback = "huggingface",
           .choices = schemes),
    OPTION(model_options, std, REAL,
           "initializer_range: standard deviation of initial weights, where init has none of its "
           "own",
           .fallback = "0", .otherwise = "config's, else 0.02", .minimum = 0, .maximum = HUGE_VAL),
};
const struct option_table model_options_table = {OPTION_ROWS(keys, model_options),
                                                 .finish = finish};

static void set(json_t *config, const char *key, int64_t given, int64_t otherwise)
{
    if (given || !json_is_integer(json_object_get(config, key)))
        json_object_set_new(config, key, json_integer(given ? given : otherwise));
}

/* 0: the family's, which config.json need not say, or OLMo 3's, whose class reads rope_theta for
 * some layers only. */
static void set_theta(const struct arch *a, double theta, const char *key, json_t *c)
{
    const bool known =
        a->rope.theta > 0 || json_object_get(c, "rope_parameters") || json_object_get(c, key);
    if (theta == 0 && known) return;
    if (theta == 0) theta = 500000;
    json_object_del(c, "rope_parameters");
    json_object_del(c, key);
    json_t *rope = json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", theta);
    if (a->rope.by_layer)
        json_object_set_new(
            c, "rope_parameters",
            json_pack("{s:O, s:O}", "full_attention", rope, "sliding_attention", rope));
    else
        json_object_set_new(c, key, json_real(theta));
    json_decref(rope);
}

static void set_rest(const struct model_options *o, const struct arch *a, int64_t vocab,
                     int64_t positions, int32_t eos, json_t *c)
{
    const bool neox = strcmp(arch_name(a), "gpt_neox") == 0;
    const int64_t hidden = json_int(c, "hidden_size");
    const int64_t gated = (hidden * 8 + 95) / 96 * 32;
    set(c, "intermediate_size", o->intermediate, a->linear[ROLE_GATE] ? gated : 4 * hidden);
    if (!neox) set(c, "num_key_value_heads", o->kv_heads, json_int(c, "num_attention_heads"));
    if (o->head_dim) set(c, "head_dim", o->head_dim, 0);
    set(c, "vocab_size", o->vocab, vocab);
    set(c, "max_position_embeddings", o->positions, positions);
    if (o->tied || !json_object_get(c, "tie_word_embeddings"))
        json_object_set_new(c, "tie_word_embeddings", json_boolean(o->tied));
    set_theta(a, o->theta, neox ? "rotary_emb_base" : "rope_theta", c);
    if (o->std > 0 || !json_object_get(c, "initializer_range"))
        json_object_set_new(c, "initializer_range", json_real(o->std > 0 ? o->std : 0.02));
    /* transformers' own defaults may lie outside the vocabulary */
    json_t *end = eos >= 0 ? json_integer(eos) : json_null();
    if (!json_object_get(c, "bos_token_id")) json_object_set(c, "bos_token_id", end);
    if (!json_object_get(c, "eos_token_id")) json_object_set(c, "eos_token_id", end);
    if (!json_object_get(c, "pad_token_id")) json_object_set_new(c, "pad_token_id", json_null());
    json_decref(end);
    if (o->linears) /* as transformers' BitNetQuantConfig */
        json_object_set_new(c, "quantization_config",
                            json_pack("{s:s, s:s, s:s, s:b, s:n}", "quant_method", "bitnet",
                                      "linear_class", "autobitlinear", "quantization_mode",
                                      "online", "use_rms_norm", 0, "modules_to_not_convert"));
    json_object_set_new(c, "torch_dtype", json_string("float32"));
}

enum status model_config_make(const struct model_options *o, int64_t vocab, int64_t positions,
                              int32_t eos, json_t **out, struct err *e)
{
    enum status st = OK;
    json_auto_t *c = NULL;
    char name[64];
    struct model_sizes sizes;
    if (o->config)
        PASS(json_read_file(o->config, 1 << 20, &c, e));
    else
        c = json_object();
    NEED(c, ERR_NOMEM, "out of memory for a config.json");
    NEED(json_is_object(c), ERR_FORMAT, "%s: expected a JSON object", o->config);
    if (o->family) json_object_set_new(c, "model_type", json_string(o->family));
    const struct arch *a = arch_find(json_text(c, "model_type", ""));
    NEED(a, ERR_USAGE, "%s: model_type \"%s\" is not supported", o->config ? o->config : "model",
         json_text(c, "model_type", ""));
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i][0], arch_name(a)) != 0) continue;
        snprintf(name, sizeof name, "%sForCausalLM", classes[i][1]);
        json_object_set_new(c, "architectures", json_pack("[s]", name));
    }
    set(c, "hidden_size", o->hidden, 0);
    set(c, "num_hidden_layers", o->layers, 0);
    set(c, "num_attention_heads", o->heads, 0);
    set_rest(o, a, vocab, positions, eos, c);
    PASS(json_whole(e));
    NEED(!json_object_get(c, "quantization_config") || packed_bitnet_linears(c) == BITNET_ONLINE,
         ERR_USAGE, "%s: quantization_config: only ternary weights in mode online can be trained",
         o->config);
    st = model_sizes_read(c, o->config ? o->config : "model", &sizes, e);
    if (st == ERR_FORMAT && !o->config) st = ERR_USAGE;
    if (st != OK) return st;
    NEED(positions_usable(c) >= positions, ERR_USAGE,
         "batch.length: %lld tokens, but the model has %lld positions (model.positions)",
         (long long)positions, (long long)positions_usable(c));
    NEED(sizes.shape.vocab >= vocab, ERR_USAGE,
         "model.vocab: %lld, but the tokenizer has ids up to %lld; give %lld or more",
         (long long)sizes.shape.vocab, (long long)vocab - 1, (long long)vocab);
    *out = TAKE(c);
    return st;
}
