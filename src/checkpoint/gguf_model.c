/* The names and the configuration of the checkpoint that a GGUF file was converted from. */
#include "checkpoint/gguf.h"
#include "util/mem.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>

/* Architectures by their names in both formats. */
static const struct {
    const char *name;
    bool interleaved;
    const char *class;
} families[] = {{"llama", true, "LlamaForCausalLM"},
                {"qwen2", false, "Qwen2ForCausalLM"},
                {"qwen3", false, "Qwen3ForCausalLM"},
                {"olmo2", false, "Olmo2ForCausalLM"},
                {"smollm3", true, "SmolLM3ForCausalLM"}};

/* A file that is being adapted. */
struct adapting {
    struct safetensors *s;
    const json_t *metadata;
    const char *arch;
    bool interleaved;
    json_t *config;
};

/* --- metadata --- */

/* *out = the value of a key of the architecture; NULL: there is none. Of a list for the layers,
 * which must be equal, the first. */
static enum status find(const struct adapting *a, const char *key, const json_t **out,
                        struct err *e)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", a->arch, key);
    const json_t *value = json_object_get(a->metadata, name);
    *out = json_is_array(value) ? json_array_get(value, 0) : value;
    for (size_t i = 0; i < json_array_size(value); i++)
        NEED(json_equal(*out, json_array_get(value, i)), ERR_USAGE,
             "%s: %s differs between layers, which is not supported", a->s->path, name);
    return OK;
}

static enum status find_number(const struct adapting *a, const char *key, double otherwise,
                               double *out, struct err *e)
{
    const json_t *value;
    PASS(find(a, key, &value, e));
    *out = value ? json_number_value(value) : otherwise;
    return OK;
}

static enum status find_architecture(struct adapting *a, struct err *e)
{
    const char *name = json_text(a->metadata, "general.architecture", NULL);
    char known[128] = "";
    NEED(name, ERR_FORMAT, "%s: general.architecture is missing or no text", a->s->path);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", families[i].name);
        if (strcmp(families[i].name, name) != 0) continue;
        a->arch = name;
        a->interleaved = families[i].interleaved;
        a->config = json_pack("{s:s, s:[s], s:s}", "model_type", name, "architectures",
                              families[i].class, "torch_dtype", "float32");
        NEED(a->config, ERR_NOMEM, "out of memory for a configuration");
        return OK;
    }
    RAISE(ERR_USAGE, "%s: architecture \"%s\" is not supported (supported: %s)", a->s->path, name,
          known);
}

/* Keys that would change what the model computes. */
static enum status refuse_features(const struct adapting *a, struct err *e)
{
    static const struct {
        const char *key;
        double harmless;
    } features[] = {
        {"expert_count", 0},
        {"attention.scale", 0},
        {"attention.clamp_kqv", 0},
        {"attn_logit_softcapping", 0},
        {"final_logit_softcapping", 0},
        {"logit_scale", 0},
        {"residual_scale", 0},
        {"embedding_scale", 0},
        {"rope.scale_linear", 1},
        {"rope.scaling.attn_factor", 1},
        {"rope.scaling.yarn_log_multiplier", 0},
        {"rope.scaling.yarn_attn_factor", 1},
    };
    double x, window;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        PASS(find_number(a, features[i].key, features[i].harmless, &x, e));
        NEED(x == features[i].harmless || x == 0, ERR_USAGE, "%s: %s.%s is %g, which is not read",
             a->s->path, a->arch, features[i].key, x);
    }
    NEED(!json_object_get(a->metadata, "split.count") ||
             json_integer_value(json_object_get(a->metadata, "split.count")) < 2,
         ERR_USAGE,
         "%s: one of several files of a model; join them with `llama-gguf-split --merge`",
         a->s->path);
    PASS(find_number(a, "attention.sliding_window", 0, &window, e));
    NEED(window == 0 || strcmp(a->arch, "olmo2") != 0, ERR_USAGE,
         "%s: OLMo 3, whose layers have a window, is not read from GGUF", a->s->path);
    return OK;
}

static const struct tensor_entry *find_tensor(const struct adapting *a, const char *name)
{
    for (int64_t i = 0; i < a->s->n; i++)
        if (strcmp(a->s->entries[i].name, name) == 0) return &a->s->entries[i];
    return NULL;
}

static enum status set_sizes(const struct adapting *a, struct err *e)
{
    static const struct {
        const char *key, *name, *otherwise; /* otherwise: that of this key; NULL: none */
    } keys[] = {
        {"block_count", "num_hidden_layers", ""},
        {"embedding_length", "hidden_size", ""},
        {"feed_forward_length", "intermediate_size", ""},
        {"attention.head_count", "num_attention_heads", ""},
        {"attention.head_count_kv", "num_key_value_heads", "attention.head_count"},
        {"attention.layer_norm_rms_epsilon", "rms_norm_eps", ""},
        {"rope.freq_base", "rope_theta", NULL},
        {"context_length", "max_position_embeddings", NULL},
    };
    static const char *const tokens[] = {"bos", "eos", "padding"};
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    json_object_set_new(a->config, "rope_theta", json_real(1e4)); /* llama.cpp's */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value;
        PASS(find(a, keys[i].key, &value, e));
        if (!value && keys[i].otherwise && keys[i].otherwise[0])
            PASS(find(a, keys[i].otherwise, &value, e));
        NEED(value || !keys[i].otherwise, ERR_FORMAT, "%s: %s.%s is missing", a->s->path, a->arch,
             keys[i].key);
        if (value) json_object_set(a->config, keys[i].name, (json_t *)(uintptr_t)value);
    }
    for (int i = 0; i < 3; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", tokens[i]);
        json_object_set(a->config, ids[i], json_object_get(a->metadata, key));
    }
    return OK;
}

/* --- RoPE --- */

/* The tensor rope_freqs.weight divides the frequencies of pairs of values; transformers' name for
 * such factors is longrope. *out NULL: there are none. */
static enum status read_factors(const struct adapting *a, json_t **out, struct err *e)
{
    enum { HALF_MAX = 512 };
    const struct tensor_entry *t = find_tensor(a, "rope_freqs.weight");
    float factors[HALF_MAX];
    *out = NULL;
    if (!t) return OK;
    NEED(t->n_elements <= HALF_MAX, ERR_FORMAT, "%s: tensor %s: %lld elements; at most %d",
         a->s->path, t->name, (long long)t->n_elements, HALF_MAX);
    PASS(safetensors_read_range(a->s, t, 0, t->n_elements, factors, e));
    *out = json_array();
    for (int64_t i = 0; i < t->n_elements; i++)
        (void)json_array_append_new(*out, json_real((double)factors[i]));
    return OK;
}

static enum status set_rope(const struct adapting *a, struct err *e)
{
    const json_t *type, *factor, *original;
    json_t *factors;
    PASS(find(a, "rope.scaling.type", &type, e));
    PASS(find(a, "rope.scaling.factor", &factor, e));
    PASS(find(a, "rope.scaling.original_context_length", &original, e));
    PASS(read_factors(a, &factors, e));
    const char *name = type && json_is_string(type) ? json_string_value(type) : "none";
    const bool scales = strcmp(name, "none") != 0;
    if (scales || !factors)
        json_object_set_new(a->config, "rope_scaling",
                            scales ? json_pack("{s:s, s:O*, s:O*}", "rope_type", name, "factor",
                                               factor, "original_max_position_embeddings", original)
                                   : json_null());
    else
        json_object_set_new(a->config, "rope_scaling",
                            json_pack("{s:s, s:O, s:O, s:f, s:O*}", "rope_type", "longrope",
                                      "short_factor", factors, "long_factor", factors,
                                      "attention_factor", 1.0, "original_max_position_embeddings",
                                      json_object_get(a->config, "max_position_embeddings")));
    json_decref(factors);
    NEED(!scales || !factors, ERR_USAGE,
         "%s: rope.scaling.type and the tensor rope_freqs.weight together are not read",
         a->s->path);
    return OK;
}

/* --- tensors --- */

static const struct {
    const char *stored, *name;
} outer[] = {{"token_embd.weight", "model.embed_tokens.weight"},
             {"output_norm.weight", "model.norm.weight"},
             {"output.weight", "lm_head.weight"}},
  parts[] = {{"attn_norm", "input_layernorm"},
             {"attn_q", "self_attn.q_proj"},
             {"attn_k", "self_attn.k_proj"},
             {"attn_v", "self_attn.v_proj"},
             {"attn_output", "self_attn.o_proj"},
             {"attn_q_norm", "self_attn.q_norm"},
             {"attn_k_norm", "self_attn.k_norm"},
             {"post_attention_norm", "post_attention_layernorm"},
             {"ffn_norm", "post_attention_layernorm"},
             {"ffn_gate", "mlp.gate_proj"},
             {"ffn_up", "mlp.up_proj"},
             {"ffn_down", "mlp.down_proj"},
             {"post_ffw_norm", "post_feedforward_layernorm"}};

/* *out (the caller frees) = the name of a tensor "blk.3.attn_q.weight" in the checkpoint; NULL: it
 * has none. */
static enum status rename_tensor(const char *stored, char **out, struct err *e)
{
    int layer = 0, n = 0;
    *out = NULL;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        if (strcmp(outer[i].stored, stored) == 0) return mem_string(out, outer[i].name, e);
    if (strncmp(stored, "blk.", 4) != 0 || !isdigit((unsigned char)stored[4]) ||
        sscanf(stored, "blk.%6d.%n", &layer, &n) != 1 || n == 0)
        return OK;
    const char *part = stored + n, *suffix = strrchr(part, '.');
    if (!suffix || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0)) return OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i].stored) == (size_t)(suffix - part) &&
            strncmp(parts[i].stored, part, (size_t)(suffix - part)) == 0)
            return mem_format(out, e, "model.layers.%d.%s%s", layer, parts[i].name, suffix);
    return OK;
}

/* Sets t->interleaved, of a tensor with its name in the checkpoint. */
static enum status set_heads(const struct adapting *a, struct tensor_entry *t, struct err *e)
{
    const bool q = strstr(t->name, ".q_proj."), k = strstr(t->name, ".k_proj.");
    if (!a->interleaved || !(q || k)) return OK;
    const json_int_t heads = json_integer_value(
        json_object_get(a->config, q ? "num_attention_heads" : "num_key_value_heads"));
    NEED(heads >= 1 && t->shape[0] % heads == 0 && t->shape[0] / heads % 2 == 0, ERR_FORMAT,
         "%s: tensor %s: %lld rows are no %lld heads of an even number of rows", a->s->path,
         t->name, (long long)t->shape[0], (long long)heads);
    t->interleaved = t->shape[0] / heads;
    return OK;
}

static enum status name_tensors(const struct adapting *a, struct err *e)
{
    struct safetensors *s = a->s;
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        struct tensor_entry t = s->entries[i];
        char *name;
        const bool factors = strcmp(t.name, "rope_freqs.weight") == 0; /* in the configuration */
        PASS(rename_tensor(t.name, &name, e));
        NEED(name || factors, ERR_USAGE, "%s: tensor %s is of no model that is read", s->path,
             t.name);
        free(t.name);
        s->entries[i].name = NULL;
        if (!name) continue;
        t.name = name;
        s->entries[kept++] = t;
        PASS(set_heads(a, &s->entries[kept - 1], e));
    }
    s->n = kept;
    qsort(s->entries, (size_t)s->n, sizeof *s->entries, name_compare);
    for (int64_t i = 1; i < s->n; i++)
        NEED(strcmp(s->entries[i - 1].name, s->entries[i].name) != 0, ERR_FORMAT,
             "%s: it has tensor %s twice", s->path, s->entries[i].name);
    return OK;
}

enum status gguf_adapt(struct safetensors *s, const json_t *metadata, struct err *e)
{
    struct adapting a = {.s = s, .metadata = metadata};
    PASS(find_architecture(&a, e));
    s->config = a.config;
    PASS(refuse_features(&a, e));
    PASS(set_sizes(&a, e));
    /* Keys and values of a head have one size, and all of it is rotated. */
    double hidden, heads, key, value, dims;
    PASS(find_number(&a, "embedding_length", 0, &hidden, e));
    PASS(find_number(&a, "attention.head_count", 0, &heads, e));
    PASS(find_number(&a, "attention.key_length", heads ? floor(hidden / heads) : 0, &key, e));
    PASS(find_number(&a, "attention.value_length", key, &value, e));
    PASS(find_number(&a, "rope.dimension_count", key, &dims, e));
    NEED(value == key && dims == key, ERR_USAGE,
         "%s: heads with keys of %g, values of %g and %g rotated numbers are not supported",
         a.s->path, key, value, dims);
    NEED(key >= 0 && key <= INT32_MAX, ERR_FORMAT, "%s: heads of %g numbers", a.s->path, key);
    json_object_set_new(a.config, "head_dim", json_integer((json_int_t)key));
    /* What the tensors say. */
    const struct tensor_entry *embed = find_tensor(&a, "token_embd.weight");
    NEED(embed && embed->n_dims == 2, ERR_FORMAT,
         "%s: no matrix token_embd.weight: not a language model?", a.s->path);
    json_object_set_new(a.config, "vocab_size", json_integer(embed->shape[0]));
    json_object_set_new(a.config, "tie_word_embeddings",
                        json_boolean(!find_tensor(&a, "output.weight")));
    json_object_set_new(a.config, "attention_bias",
                        json_boolean(find_tensor(&a, "blk.0.attn_q.bias")));
    json_object_set_new(a.config, "mlp_bias", json_boolean(find_tensor(&a, "blk.0.ffn_up.bias")));
    PASS(set_rope(&a, e));
    PASS(name_tensors(&a, e));
    return json_whole(e);
}
