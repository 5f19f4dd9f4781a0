/* Reads config.json into a spec, with shape and parameter counts. */
#include "model/arch_table.h"
#include "model/positions.h"
#include <string.h>

/* The rule of transformers: without num_key_value_heads the class default applies; null means as
 * many as heads. GPT-NeoX (fused q, k, v) has no such key. */
static enum status read_heads(const struct hfconfig *c, const struct arch *a, struct model_shape *m,
                              struct err *e)
{
    PASS(hf_int(c, "num_attention_heads", HF_REQUIRED, 1, &m->heads, e));
    int64_t kv = a->kv_heads && !hf_has(c, "num_key_value_heads") ? a->kv_heads : m->heads;
    m->kv_heads = m->heads;
    if (!a->linear[ROLE_QKV]) PASS(hf_int(c, "num_key_value_heads", kv, 1, &m->kv_heads, e));
    NEED(m->heads % m->kv_heads == 0, ERR_FORMAT,
         "%s: num_attention_heads %lld is not a multiple of num_key_value_heads %lld", c->name,
         (long long)m->heads, (long long)m->kv_heads);
    PASS(hf_int(c, "head_dim", a->head_dim, 0, &m->head_dim, e));
    if (m->head_dim == 0) {
        NEED(m->hidden % m->heads == 0, ERR_FORMAT,
             "%s: hidden_size %lld is not a multiple of num_attention_heads %lld, and there is "
             "no head_dim",
             c->name, (long long)m->hidden, (long long)m->heads);
        m->head_dim = m->hidden / m->heads;
    }
    return OK;
}

static enum status read_shape(const struct hfconfig *c, const struct arch *a, struct model_shape *m,
                              struct err *e)
{
    PASS(hf_int(c, "vocab_size", HF_REQUIRED, 1, &m->vocab, e));
    PASS(hf_int(c, "hidden_size", HF_REQUIRED, 1, &m->hidden, e));
    PASS(hf_int(c, "num_hidden_layers", HF_REQUIRED, 1, &m->layers, e));
    PASS(hf_int(c, "intermediate_size", HF_REQUIRED, 1, &m->intermediate, e));
    PASS(read_heads(c, a, m, e));
    PASS(hf_bool(c, "tie_word_embeddings", a->tied, &m->tied, e));
    for (const char *const *key = positions_keys; *key; key++) {
        int64_t positions; /* a family without a limit leaves the key out */
        PASS(hf_int(c, *key, 1, 1, &positions, e));
    }
    const struct {
        const char *key;
        int64_t value, max;
    } limits[] = {{"vocab_size", m->vocab, INT32_MAX},
                  {"hidden_size", m->hidden, 1 << 20},
                  {"num_hidden_layers", m->layers, LAYERS_MAX},
                  {"intermediate_size", m->intermediate, 1 << 24},
                  {"num_attention_heads", m->heads, 1 << 16},
                  {"head_dim", m->head_dim, 1 << 12}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        NEED(limits[i].value <= limits[i].max, ERR_USAGE, "%s: %s is %lld; at most %lld", c->name,
             limits[i].key, (long long)limits[i].value, (long long)limits[i].max);
    return OK;
}

static enum status read_activation(const struct hfconfig *c, struct spec *s, struct err *e)
{
    static const struct {
        const char *name;
        enum activation value;
    } known[] = {
        {"silu", ACT_SILU},           {"swish", ACT_SILU},
        {"gelu", ACT_GELU},           {"gelu_new", ACT_GELU_TANH},
        {"gelu_fast", ACT_GELU_TANH}, {"gelu_pytorch_tanh", ACT_GELU_TANH},
        {"relu2", ACT_RELU2},         {"xielu", ACT_XIELU},
    };
    const char *name;
    NEED(!hf_has(c, "hidden_act") || hf_value(c, "hidden_act"), ERR_FORMAT,
         "%s: \"hidden_act\" is null; expected the name of an activation", c->name);
    PASS(hf_text(c, "hidden_act", s->arch->activation, &name, e));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            s->activation = known[i].value;
            NEED(!s->gated || s->activation != ACT_XIELU, ERR_USAGE,
                 "%s: hidden_act \"xielu\" is not supported in a gated MLP", c->name);
            return OK;
        }
    RAISE(ERR_USAGE,
          "%s: hidden_act \"%s\" is not supported (supported: silu, swish, gelu, gelu_new, "
          "gelu_fast, gelu_pytorch_tanh, relu2, xielu)",
          c->name, name);
}

static bool bias_of(enum bias_rule rule, bool config)
{
    return rule == BIAS_ALWAYS || (rule == BIAS_CONFIG && config);
}

static enum status read_biases(const struct hfconfig *c, struct spec *s, struct err *e)
{
    const struct arch *a = s->arch;
    bool attention, mlp;
    PASS(hf_bool(c, "attention_bias", a->attention_bias, &attention, e));
    PASS(hf_bool(c, "mlp_bias", a->mlp_bias, &mlp, e));
    s->bias_qkv = bias_of(a->bias_qkv, attention);
    s->bias_o = bias_of(a->bias_o, attention);
    s->bias_mlp = bias_of(a->bias_mlp, mlp);
    return OK;
}

static void count_parameters(struct spec *s)
{
    struct slot slots[SLOTS_MAX];
    int64_t block = 0, outside = 0, embedding = 0;
    int n = slots_of(s, 0, slots);
    for (int i = 0; i < n; i++) block += slots[i].buffer ? 0 : slot_elements(&slots[i]);
    n = slots_of(s, -1, slots);
    for (int i = 0; i < n; i++) {
        bool matrix = slots[i].index == OUTER_EMBED || slots[i].index == OUTER_HEAD;
        *(matrix ? &embedding : &outside) += slot_elements(&slots[i]);
    }
    s->shape.parameters_non_embedding = s->shape.layers * block + outside;
    s->shape.parameters = s->shape.parameters_non_embedding + embedding;
}

static enum status read_ropes(const struct hfconfig *c, struct spec *s, struct err *e)
{
    s->n_ropes = s->arch->rope.by_layer ? 2 : 1;
    for (int i = 0; i < s->n_ropes; i++)
        PASS(rope_read(c, s->shape.head_dim, i, &s->arch->rope, &s->rope[i], e));
    NEED(s->n_ropes < 2 || s->rope[0].half == s->rope[1].half, ERR_USAGE,
         "%s: RoPE rotates %lld values of a head in layers with a window and %lld in the others; "
         "expected equally many",
         c->name, (long long)(2 * s->rope[1].half), (long long)(2 * s->rope[0].half));
    return OK;
}

enum status spec_read(const json_t *config, const char *name, struct spec *out, struct err *e)
{
    struct hfconfig c = {.json = config, .name = name, .prefix = ""};
    struct spec *s = out;
    const char *type;
    char list[256];
    memset(s, 0, sizeof *s);
    NEED(json_is_object(config), ERR_FORMAT, "%s: expected an object", name);
    PASS(hf_text(&c, "model_type", NULL, &type, e));
    arch_list(list, sizeof list);
    NEED(s->arch = arch_find(type), ERR_USAGE,
         "%s: model_type \"%s\" is not supported (supported: %s)", name, type, list);
    s->gated = s->arch->linear[ROLE_GATE] != NULL;
    s->fused = s->arch->linear[ROLE_QKV] != NULL;
    s->qk_norm = s->arch->qk_norm;
    s->linears = packed_bitnet_linears(config);
    PASS(read_shape(&c, s->arch, &s->shape, e));
    s->eps = s->arch->eps;
    if (s->arch->eps_key) PASS(hf_number(&c, s->arch->eps_key, s->eps, &s->eps, e));
    NEED(s->eps >= 0, ERR_FORMAT, "%s: %s is %g; expected a number of at least 0", name,
         s->arch->eps_key, s->eps);
    PASS(read_biases(&c, s, e));
    PASS(read_activation(&c, s, e));
    PASS(read_ropes(&c, s, e));
    if (s->arch->configure) PASS(s->arch->configure(&c, s, e));
    count_parameters(s);
    return OK;
}

enum status spec_read_layer_types(const struct hfconfig *c, struct spec *s, struct err *e)
{
    const json_t *types;
    PASS(hf_array(c, "layer_types", s->shape.layers, &types, e));
    if (!types) return OK;
    NEED((int64_t)json_array_size(types) == s->shape.layers, ERR_FORMAT,
         "%s: \"layer_types\" has %zu entries; expected one for each of %lld layers", c->name,
         json_array_size(types), (long long)s->shape.layers);
    for (int64_t i = 0; i < s->shape.layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        NEED(type, ERR_FORMAT, "%s: layer_types[%lld] is not a string", c->name, (long long)i);
        bool windowed = strcmp(type, "sliding_attention") == 0;
        NEED(windowed || strcmp(type, "full_attention") == 0, ERR_USAGE,
             "%s: layer_types[%lld] is \"%s\"; supported: full_attention, sliding_attention",
             c->name, (long long)i, type);
        s->flags[i] &= (uint8_t)~LAYER_WINDOW;
        if (windowed) s->flags[i] |= LAYER_WINDOW;
    }
    return OK;
}

enum status spec_read_window(const struct hfconfig *c, struct spec *s, int64_t first_layer,
                             bool no_rope_only, struct err *e)
{
    bool use;
    PASS(hf_bool(c, "use_sliding_window", false, &use, e));
    PASS(hf_int(c, "sliding_window", 0, 0, &s->window, e));
    if (!use || s->window == 0) return OK;
    for (int64_t i = first_layer; i < s->shape.layers; i++)
        if (!no_rope_only || s->flags[i] & LAYER_NO_ROPE) s->flags[i] |= LAYER_WINDOW;
    return spec_read_layer_types(c, s, e);
}

enum status spec_read_upper_window(const struct hfconfig *c, struct spec *s, struct err *e)
{
    int64_t first;
    PASS(hf_int(c, "max_window_layers", 28, 0, &first, e));
    return spec_read_window(c, s, first, false, e);
}
