/* config.json into shapes: the published sizes of every family, the key names of transformers 4 and
 * 5, and invalid input. */
#include "model/arch.h"
#include "model/describe.h"
#include "model/positions.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum status read_text(const char *text, struct spec *s, struct err *e)
{
    json_t *config = NULL;
    err_clear(e);
    assert_int_equal(json_read_text("config.json", text, strlen(text), &config, e), OK);
    enum status st = spec_read(config, "x/config.json", s, e);
    json_decref(config);
    return st;
}

/* Published models: h, L, heads, key/value heads, I, V, head_dim (0: not in the config), tied, and
 * their parameters without embedding and in total. */
static const struct {
    const char *name, *type;
    int64_t h, layers, heads, kv, I, V, head_dim;
    bool tied;
    int64_t non_embedding, all;
} sizes[] = {
    {"Pythia 70M", "gpt_neox", 512, 6, 8, 8, 2048, 50304, 0, false, 18915328, 70426624},
    {"Pythia 160M", "gpt_neox", 768, 12, 12, 12, 3072, 50304, 0, false, 85056000, 162322944},
    {"Pythia 410M", "gpt_neox", 1024, 24, 16, 16, 4096, 50304, 0, false, 302311424, 405334016},
    {"Pythia 1B", "gpt_neox", 2048, 16, 8, 8, 8192, 50304, 0, false, 805736448, 1011781632},
    {"Pythia 1.4B", "gpt_neox", 2048, 24, 16, 16, 8192, 50304, 0, false, 1208602624, 1414647808},
    {"Pythia 2.8B", "gpt_neox", 2560, 32, 32, 32, 10240, 50304, 0, false, 2517652480, 2775208960},
    {"Pythia 6.9B", "gpt_neox", 4096, 32, 32, 32, 16384, 50432, 0, false, 6444163072, 6857302016},
    {"Pythia 12B", "gpt_neox", 5120, 36, 40, 40, 20480, 50688, 0, false, 11327027200, 11846072320},
    {"OLMo-1B-hf", "olmo", 2048, 16, 16, 16, 8192, 50304, 0, true, 1073741824, 1176764416},
    {"OLMo-1B-0724-hf", "olmo", 2048, 16, 16, 16, 8192, 50304, 0, false, 1073741824, 1279787008},
    {"OLMo-7B-hf", "olmo", 4096, 32, 32, 32, 11008, 50304, 0, false, 6476005376, 6888095744},
    {"OLMo2 1B", "olmo2", 2048, 16, 16, 16, 8192, 100352, 0, false, 1073874944, 1484916736},
    {"OLMo2 7B", "olmo2", 4096, 32, 32, 32, 11008, 100352, 0, false, 6476533760, 7298617344},
    {"OLMo2 13B", "olmo_1124", 5120, 40, 40, 40, 13824, 100352, 0, false, 12688593920, 13716198400},
    {"OLMo2 32B", "olmo2", 5120, 64, 40, 8, 27648, 100352, 0, false, 31206675456, 32234279936},
    {"OLMo 3 7B", "olmo3", 4096, 32, 32, 32, 11008, 100278, 0, false, 6476533760, 7298011136},
    {"OLMo 3 32B", "olmo3", 5120, 64, 40, 8, 27648, 100278, 0, false, 31206675456, 32233522176},
    {"SmolLM3-3B", "smollm3", 2048, 36, 16, 4, 11008, 128256, 0, true, 2812430336, 3075098624},
    {"Apertus-8B", "apertus", 4096, 32, 32, 8, 21504, 131072, 0, false, 6979596352, 8053338176},
    {"Apertus-70B", "apertus", 8192, 80, 64, 8, 43008, 131072, 0, false, 68452380832, 70599864480},
    {"BitNet b1.58 2B4T", "bitnet", 2560, 30, 20, 5, 6912, 128256, 0, true, 2084485120, 2412820480},
    {"Amber-7B", "llama", 4096, 32, 32, 32, 11008, 32000, 0, false, 6476271616, 6738415616},
    {"OpenSci 0.4B", "opensci", 1024, 22, 16, 16, 3840, 50304, 64, true, 352127744, 403639040},
    {"OpenSci 1.3B", "opensci", 2048, 24, 32, 32, 5440, 50304, 64, true, 1205424128, 1308446720},
    {"OpenSci 1.7B", "opensci", 2048, 24, 32, 32, 8192, 50304, 64, true, 1611355136, 1714377728},
    {"Qwen3 0.6B", "qwen3", 1024, 28, 16, 8, 3072, 151936, 128, true, 440467456, 596049920},
    {"Qwen3 4B", "qwen3", 2560, 36, 32, 8, 9728, 151936, 128, true, 3633511936, 4022468096},
    {"Qwen3 8B", "qwen3", 4096, 36, 32, 8, 12288, 151936, 128, false, 6946075648, 8190735360},
    {"Qwen3 32B", "qwen3", 5120, 64, 64, 8, 25600, 151936, 128, false, 31206298624, 32762123264},
};

static void published_sizes(void **state)
{
    (void)state;
    struct err e = {0};
    char text[600];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct spec s;
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", \"hidden_size\": %lld, \"num_hidden_layers\": %lld, "
                 "\"num_attention_heads\": %lld, \"num_key_value_heads\": %lld, "
                 "\"intermediate_size\": %lld, \"vocab_size\": %lld, \"head_dim\": %s%.0lld, "
                 "\"rope_theta\": 500000, \"tie_word_embeddings\": %s}",
                 sizes[i].type, (long long)sizes[i].h, (long long)sizes[i].layers,
                 (long long)sizes[i].heads, (long long)sizes[i].kv, (long long)sizes[i].I,
                 (long long)sizes[i].V, sizes[i].head_dim ? "" : "null",
                 (long long)sizes[i].head_dim, sizes[i].tied ? "true" : "false");
        if (read_text(text, &s, &e) != OK) fail_msg("%s: %s", sizes[i].name, e.text);
        if (s.shape.parameters_non_embedding != sizes[i].non_embedding ||
            s.shape.parameters != sizes[i].all)
            fail_msg("%s: %lld and %lld parameters, expected %lld and %lld", sizes[i].name,
                     (long long)s.shape.parameters_non_embedding, (long long)s.shape.parameters,
                     (long long)sizes[i].non_embedding, (long long)sizes[i].all);
    }
}

#define SHAPE(heads)                                                                               \
    "\"hidden_size\": 64, \"num_hidden_layers\": 8, \"intermediate_size\": 96, \"vocab_size\": "   \
    "256, \"num_attention_heads\": " heads
#define LLAMA "{\"model_type\": \"llama\", " SHAPE("4")
#define OLMO3 "{\"model_type\": \"olmo3\", " SHAPE("4") ", "
#define THETA OLMO3 "\"rope_theta\": 500000, "
#define YARN  "\"rope_type\": \"yarn\", \"factor\": 8, \"original_max_position_embeddings\": 512"

/* Expected status and words of the message for an invalid config. */
static const struct {
    const char *text;
    enum status status;
    const char *words[3];
} bad[] = {
    {"{" SHAPE("4") "}", ERR_FORMAT, {"model_type", "missing"}},
    {"{\"model_type\": 3}", ERR_FORMAT, {"model_type", "integer", "string"}},
    {"{\"model_type\": \"gpt2\"}", ERR_USAGE, {"gpt2", "llama, olmo", "opensci"}},
    {"{\"model_type\": \"llama\"}", ERR_FORMAT, {"vocab_size", "missing", "integer"}},
    {LLAMA ", \"rms_norm_eps\": \"tiny\"}", ERR_FORMAT, {"rms_norm_eps", "string", "number"}},
    {LLAMA ", \"tie_word_embeddings\": 1}", ERR_FORMAT, {"tie_word_embeddings", "true or false"}},
    {LLAMA ", \"num_key_value_heads\": 3}", ERR_FORMAT, {"num_key_value_heads", "multiple"}},
    {LLAMA ", \"num_key_value_heads\": 2.5}", ERR_FORMAT, {"num_key_value_heads", "fraction"}},
    {LLAMA ", \"num_key_value_heads\": 0}", ERR_FORMAT, {"num_key_value_heads", "at least 1"}},
    {LLAMA ", \"hidden_act\": \"relu\"}", ERR_USAGE, {"relu", "gelu_new"}},
    {LLAMA ", \"hidden_act\": null}", ERR_FORMAT, {"\"hidden_act\" is null"}},
    {LLAMA ", \"max_position_embeddings\": 0}", ERR_FORMAT, {"is 0; expected an integer of at"}},
    {LLAMA ", \"max_position_embeddings\": -1}", ERR_FORMAT, {"max_position_embeddings\" is -1"}},
    {LLAMA ", \"n_positions\": \"1k\"}", ERR_FORMAT, {"n_positions\" is a string"}},
    {LLAMA ", \"hidden_act\": \"xielu\"}", ERR_USAGE, {"xielu", "gated"}},
    {LLAMA ", \"head_dim\": 5}", ERR_FORMAT, {"5 values of a head", "even"}},
    {LLAMA ", \"head_dim\": 100000}", ERR_USAGE, {"head_dim", "at most"}},
    {LLAMA ", \"rope_theta\": -1}", ERR_FORMAT, {"rope_theta", "positive"}},
    {LLAMA ", \"rope_scaling\": 8}", ERR_FORMAT, {"rope_scaling", "an object"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\"}}", ERR_USAGE, {"dynamic", "llama3, yarn"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"attention_factor\": 1, "
           "\"long_factor\": [1], \"short_factor\": [2]}}",
     ERR_USAGE,
     {"long_factor and short_factor differ", "length"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"longrope\", \"attention_factor\": 1, "
           "\"long_factor\": [1], \"short_factor\": [1]}}",
     ERR_FORMAT,
     {"long_factor has 1 numbers"}},
    {LLAMA ", \"rope_theta\": 1e39}", ERR_FORMAT, {"rope_theta", "positive"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}",
     ERR_FORMAT,
     {"rope_scaling.factor is 0", "positive"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": -2.0}}",
     ERR_FORMAT,
     {"rope_scaling.factor is -2", "positive"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 1e-50}}",
     ERR_FORMAT,
     {"rope_scaling.factor is 1e-50", "positive"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": [1, 2]}}",
     ERR_FORMAT,
     {"rope_scaling.factor", "number"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
           "\"high_freq_factor\": 1, \"original_max_position_embeddings\": 8}}",
     ERR_FORMAT,
     {"rope_scaling.high_freq_factor is 1", "more than low_freq_factor, 4"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0, "
           "\"original_max_position_embeddings\": 8}}",
     ERR_FORMAT,
     {"rope_scaling.factor is 0", "positive"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"beta_slow\": 33, "
           "\"original_max_position_embeddings\": 8}}",
     ERR_FORMAT,
     {"rope_scaling.beta_fast is 32", "at least beta_slow, 33"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": -1, "
           "\"original_max_position_embeddings\": 8}}",
     ERR_FORMAT,
     {"rope_scaling.attention_factor is -1", "positive"}},
    {LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"mscale\": -1, "
           "\"original_max_position_embeddings\": 8}}",
     ERR_FORMAT,
     {"rope_scaling.mscale", "no negative"}},
    {LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
     ERR_FORMAT,
     {"rope_parameters.low_freq_factor", "missing", "number"}},
    {"{\"model_type\": \"llama\", " SHAPE("7") "}", ERR_FORMAT, {"hidden_size 64", "multiple"}},
    {"{\"model_type\": \"olmo\", " SHAPE("4") ", \"clip_qkv\": -2}", ERR_FORMAT, {"clip_qkv"}},
    {"{\"model_type\": \"smollm3\", " SHAPE("4") ", \"no_rope_layers\": [1, 0]}",
     ERR_FORMAT,
     {"no_rope_layers", "2 entries", "8 layers"}},
    {OLMO3 "\"sliding_window\": 16}", ERR_FORMAT, {"\"rope_theta\" is missing", "500000"}},
    {OLMO3 "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 500000}}}",
     ERR_FORMAT,
     {"\"rope_theta\" is missing"}},
    {OLMO3 "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 500000}, "
           "\"sliding_attention\": {}}}",
     ERR_FORMAT,
     {"rope_parameters.sliding_attention.rope_theta", "missing"}},
    {OLMO3 "\"rope_parameters\": {\"full_attention\": {" YARN
           ", \"beta_fast\": \"x\", \"rope_theta\": 5}}}",
     ERR_FORMAT,
     {"rope_parameters.full_attention.beta_fast", "number"}},
    {OLMO3 "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}, "
           "\"sliding_attention\": {\"rope_theta\": 5, \"partial_rotary_factor\": 0.5}}}",
     ERR_USAGE,
     {"8 values of a head in layers with a window", "16 in the others"}},
    {THETA "\"sliding_window\": 0}", ERR_FORMAT, {"sliding_window", "at least 1"}},
    {THETA "\"sliding_window\": null}", ERR_FORMAT, {"sliding_window", "null", "6 layers"}},
    {THETA "\"layer_types\": [\"full_attention\"]}",
     ERR_FORMAT,
     {"layer_types", "1 entries", "8 layers"}},
    {THETA "\"layer_types\": [1,1,1,1,1,1,1,1]}", ERR_FORMAT, {"layer_types[0]", "string"}},
    {THETA "\"layer_types\": [\"full_attention\", \"chunked_attention\", \"\", \"\", \"\", "
           "\"\", \"\", \"\"]}",
     ERR_USAGE,
     {"layer_types[1]", "chunked_attention", "sliding_attention"}},
    {THETA "\"layer_types\": [\"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\"]}",
     ERR_FORMAT,
     {"layer_types", "9 entries", "8 layers"}},
    {LLAMA ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}}",
     ERR_USAGE,
     {"rope_parameters.full_attention", "one set for all layers"}},
};

static void bad_configs_say_why(void **state)
{
    (void)state;
    struct spec s;
    struct err e = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (read_text(bad[i].text, &s, &e) != bad[i].status)
            fail_msg("%s: status %d (%s)", bad[i].text, e.code, e.text);
        assert_non_null(strstr(e.text, "x/config.json"));
        for (int k = 0; k < 3 && bad[i].words[k]; k++)
            if (!strstr(e.text, bad[i].words[k]))
                fail_msg("\"%s\" lacks \"%s\"", e.text, bad[i].words[k]);
    }
    assert_int_equal(read_text("{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 8, "
                               "\"num_hidden_layers\": 0}",
                               &s, &e),
                     ERR_FORMAT);
    assert_non_null(strstr(e.text, "num_hidden_layers"));
    assert_int_equal(spec_read(NULL, "x/config.json", &s, NULL), ERR_FORMAT);
}

static void must_read(const char *text, struct spec *s)
{
    struct err e = {0};
    if (read_text(text, s, &e) != OK) fail_msg("%s: %s", text, e.text);
}

static void numbers_may_be_written_either_way(void **state)
{
    (void)state;
    struct spec a, b;
    must_read(LLAMA ", \"rope_theta\": 10000, \"head_dim\": 16}", &a);
    must_read(LLAMA ", \"rope_theta\": 10000.0, \"head_dim\": 16.0}", &b);
    assert_memory_equal(&a, &b, sizeof a);
}

static void wordings_of_4_and_5_agree(void **state)
{
    (void)state;
    struct spec a, b;
    must_read(LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": {\"type\": \"linear\", "
                    "\"factor\": 4.0}}",
              &a);
    must_read(LLAMA ", \"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"linear\", "
                    "\"factor\": 4}}",
              &b);
    assert_memory_equal(&a.rope, &b.rope, sizeof a.rope);
    assert_true(a.rope[0].inv[0] == 0.25f && a.rope[0].half == 8);
    must_read("{\"model_type\": \"gpt_neox\", " SHAPE("4") ", \"rotary_emb_base\": 500}", &a);
    must_read("{\"model_type\": \"gpt_neox\", " SHAPE(
                  "4") ", \"rope_parameters\": "
                       "{\"rope_theta\": 500, \"partial_rotary_factor\": 0.25, \"rope_type\": "
                       "\"default\"}}",
              &b);
    assert_memory_equal(&a.rope, &b.rope, sizeof a.rope);
    assert_int_equal(a.rope[0].half, 2);
    assert_true(fabs(a.rope[0].inv[1] * sqrt(500) - 1) < 1e-6);
}

/* Apertus scales RoPE if its config does not mention it, and does not scale if the config says
 * null. */
static void apertus_scales_by_default(void **state)
{
    (void)state;
    struct spec silent, null, given;
#define APERTUS "{\"model_type\": \"apertus\", " SHAPE("1")
    must_read(APERTUS "}", &silent);
    must_read(APERTUS ", \"rope_scaling\": null}", &null);
    must_read(APERTUS ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                      "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                      "\"original_max_position_embeddings\": 8192}}",
              &given);
    assert_memory_equal(&silent.rope, &given.rope, sizeof given.rope);
    assert_true(null.rope[0].inv[31] > 7.9f * silent.rope[0].inv[31]);
    assert_true(null.rope[0].inv[0] == silent.rope[0].inv[0]);
}

static int64_t flagged(const struct spec *s, int flag)
{
    int64_t mask = 0;
    for (int64_t i = 0; i < s->shape.layers; i++)
        mask |= (int64_t)(s->flags[i] & flag ? 1 : 0) << i;
    return mask;
}

static void layers_without_rope(void **state)
{
    (void)state;
    struct spec s;
#define SMOL "{\"model_type\": \"smollm3\", " SHAPE("4")
    must_read(SMOL "}", &s);
    assert_int_equal(flagged(&s, LAYER_NO_ROPE), 0x88);
    assert_true(s.shape.tied && s.shape.kv_heads == 4);
    must_read(SMOL ", \"no_rope_layer_interval\": 3}", &s);
    assert_int_equal(flagged(&s, LAYER_NO_ROPE), 0x24);
    must_read(SMOL ", \"no_rope_layers\": [0, 1, 1, 1, 1, 1, 1, 0]}", &s);
    assert_int_equal(flagged(&s, LAYER_NO_ROPE), 0x81);
}

/* A window is set only if use_sliding_window asks for it. */
static void windows_only_when_asked(void **state)
{
    (void)state;
    struct spec s;
#define QWEN "{\"model_type\": \"qwen2\", " SHAPE("4") ", \"num_key_value_heads\": 2, "
    must_read(QWEN "\"sliding_window\": 32, \"max_window_layers\": 2}", &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0);
    must_read(
        QWEN "\"sliding_window\": 32, \"max_window_layers\": 6, \"use_sliding_window\": true}", &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0xC0);
    assert_int_equal(s.window, 32);
    must_read(QWEN "\"sliding_window\": null, \"use_sliding_window\": true}", &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0);
    must_read(SMOL ", \"sliding_window\": 16, \"use_sliding_window\": true}", &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0x88);
}

/* OLMo 3 lists its layers; without a list every fourth is full. */
static void layers_of_olmo3(void **state)
{
    (void)state;
    struct spec s;
    must_read(THETA "\"sliding_window\": 16}", &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0x77);
    assert_true(s.window == 16 && s.shape.kv_heads == 4);
    assert_true(spec_window(&s, 2) == 16 && spec_window(&s, 3) == 0);
    assert_true(spec_rope(&s, 2) == ROPE_WINDOW && spec_rope(&s, 3) == ROPE_FULL);
#define FULL    "\"full_attention\""
#define SLIDING "\"sliding_attention\""
    must_read(THETA "\"layer_types\": [" FULL "," SLIDING "," FULL "," FULL "," FULL "," FULL
                    "," FULL "," SLIDING "]}",
              &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0x82);
    assert_int_equal(s.window, 4096);
    must_read(THETA "\"sliding_window\": null, \"layer_types\": [" FULL "," FULL "," FULL "," FULL
                    "," FULL "," FULL "," FULL "," FULL "]}",
              &s);
    assert_int_equal(flagged(&s, LAYER_WINDOW), 0);
}

/* Scaled in layers with full attention only, however it is worded: by transformers 4, by 5 for all
 * layers (up to 5.12) and by 5 for each type of layer. */
static void olmo3_scales_full_layers(void **state)
{
    (void)state;
    static const char *const wordings[] = {
        THETA "\"rope_scaling\": {" YARN "}}",
        THETA "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, "
              "\"original_max_position_embeddings\": 512}}",
        OLMO3 "\"rope_parameters\": {\"rope_theta\": 500000, " YARN "}}",
        OLMO3 "\"rope_parameters\": {" FULL ": {\"rope_theta\": 5e5, " YARN "}, " SLIDING
              ": {\"rope_theta\": 5e5, \"rope_type\": \"default\"}}}",
        THETA "\"rope_parameters\": {" FULL ": {" YARN "}}}",
    };
    struct spec a, b, unscaled;
    must_read(wordings[0], &a);
    must_read(THETA "\"rope_scaling\": null}", &unscaled);
    assert_true(a.n_ropes == 2 && a.rope[ROPE_FULL].scale > 1.2f);
    assert_true(a.rope[ROPE_FULL].inv[7] < 0.2f * unscaled.rope[ROPE_FULL].inv[7]);
    assert_memory_equal(&a.rope[ROPE_WINDOW], &unscaled.rope[ROPE_FULL], sizeof *a.rope);
    assert_memory_equal(&a.rope[ROPE_WINDOW], &unscaled.rope[ROPE_WINDOW], sizeof *a.rope);
    for (size_t i = 1; i < sizeof wordings / sizeof *wordings; i++) {
        must_read(wordings[i], &b);
        assert_memory_equal(a.rope, b.rope, sizeof a.rope);
    }
    must_read(OLMO3 "\"rope_parameters\": {" FULL ": {\"rope_theta\": 5e5}, " SLIDING
                    ": {\"rope_theta\": 1e4, " YARN "}}}",
              &b);
    assert_memory_equal(&b.rope[ROPE_FULL], &unscaled.rope[ROPE_FULL], sizeof *b.rope);
    assert_true(b.rope[ROPE_WINDOW].scale > 1.2f);
}

/* The fixtures have the same configuration in the words of transformers 4 and 5. */
static void fixtures_in_both_wordings(void **state)
{
    (void)state;
    static const char *const names[] = {"olmo3", "olmo3_yarn"};
    for (int i = 0; i < 2; i++) {
        struct spec s[2];
        for (int k = 0; k < 2; k++) {
            char path[512];
            struct err e = {0};
            json_t *config;
            snprintf(path, sizeof path, "%s/models/%s/config%s.json", FIXTURES, names[i],
                     k ? "_v5" : "");
            assert_int_equal(json_read_file(path, 0, &config, &e), OK);
            if (spec_read(config, path, &s[k], &e) != OK) fail_msg("%s", e.text);
            json_decref(config);
        }
        assert_memory_equal(&s[0], &s[1], sizeof *s);
        assert_true((s[0].rope[ROPE_FULL].scale > 1) == (i == 1));
    }
}

static void table_is_whole(void **state)
{
    (void)state;
    int n = 0;
    for (const struct arch *a; (a = arch_at(n)); n++) {
        assert_ptr_equal(arch_find(arch_name(a)), a);
        assert_true(strlen(arch_doc(a)) > 10);
        assert_non_null(a->embed);
        assert_non_null(a->head);
        assert_non_null(a->linear[ROLE_DOWN]);
        assert_true((a->linear[ROLE_Q] != NULL) != (a->linear[ROLE_QKV] != NULL));
    }
    assert_true(n > 0);
    assert_null(arch_at(-1));
    assert_null(arch_find("mamba"));
}

/* How long sequences may be: the names of the key, and RoPE scaling whose length is not written. */
static void positions_come_from_any_of_their_keys(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        int64_t written, usable;
    } cases[] = {
        {"{}", 0, 0},
        {"{'max_position_embeddings': 1024}", 1024, 1024},
        {"{'max_sequence_length': 2048}", 2048, 2048},
        {"{'n_positions': 512, 'seq_length': 7}", 512, 512},
        {"{'max_position_embeddings': 4096, 'rope_scaling': null}", 4096, 4096},
        /* Llama 3.1 writes the scaled length, OLMo 3 too; Qwen2.5's YaRN and old linear scaling do
           not. */
        {"{'max_position_embeddings': 131072, 'rope_scaling': {'rope_type': 'llama3', 'factor': 8, "
         "'original_max_position_embeddings': 8192}}",
         131072, 131072},
        {"{'max_position_embeddings': 65536, 'rope_parameters': {'rope_type': 'yarn', 'factor': 8, "
         "'original_max_position_embeddings': 8192}}",
         65536, 65536},
        {"{'max_position_embeddings': 8192, 'rope_parameters': {'sliding_attention': {}, "
         "'full_attention': {'rope_type': 'yarn', 'factor': 8, "
         "'original_max_position_embeddings': 8192}}}",
         8192, 65536},
        {"{'max_position_embeddings': 32768, 'rope_scaling': {'type': 'yarn', 'factor': 4.0, "
         "'original_max_position_embeddings': 32768}}",
         32768, 131072},
        {"{'max_position_embeddings': 4096, 'rope_scaling': {'type': 'linear', 'factor': 4.0}}",
         4096, 16384},
        {"{'max_position_embeddings': 4096, 'rope_scaling': {'type': 'linear'}}", 4096, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        struct err e = {0};
        json_t *config = NULL;
        snprintf(text, sizeof text, "%s", cases[i].config);
        for (char *p = text; *p; p++)
            if (*p == '\'') *p = '"';
        assert_int_equal(json_read_text("config.json", text, strlen(text), &config, &e), OK);
        assert_int_equal(positions_written(config), cases[i].written);
        assert_int_equal(positions_usable(config), cases[i].usable);
        json_decref(config);
    }
}

/* Digest of a small Qwen3 with some members set in place of its own. */
static void digest_with(const char *members, char out[HASH_HEX])
{
    static const char base[] =
        "{'model_type': 'qwen3', 'hidden_size': 64, 'num_hidden_layers': 2, 'intermediate_size': "
        "128, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 16, 'vocab_size': "
        "100, 'rope_theta': 10000, 'rms_norm_eps': 1e-6, 'max_position_embeddings': 256}";
    struct err e = {0};
    char text[2][600];
    json_t *config[2];
    snprintf(text[0], sizeof text[0], "%s", base);
    snprintf(text[1], sizeof text[1], "%s", members);
    for (int i = 0; i < 2; i++) {
        for (char *p = text[i]; *p; p++)
            if (*p == '\'') *p = '"';
        assert_int_equal(json_read_text("config.json", text[i], strlen(text[i]), &config[i], &e),
                         OK);
    }
    json_object_update(config[0], config[1]);
    if (model_config_digest(config[0], "config.json", out, &e) != OK) fail_msg("%s", e.text);
    for (int i = 0; i < 2; i++) json_decref(config[i]);
}

static void digests_are_of_what_is_read(void **state)
{
    static const char *const none[] = {
        "{'torch_dtype': 'float32', 'use_cache': true, '_name_or_path': 'x', 'architectures': []}",
        "{'rope_theta': 10000.0, 'hidden_size': 64.0, 'rope_scaling': null}",
        "{'attention_bias': false, 'hidden_act': 'silu', 'use_sliding_window': false}",
        "{'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000}}"};
    static const char *const some[] = {"{'hidden_size': 128}",
                                       "{'num_hidden_layers': 3}",
                                       "{'intermediate_size': 129}",
                                       "{'num_key_value_heads': 4}",
                                       "{'head_dim': 32}",
                                       "{'vocab_size': 101}",
                                       "{'rms_norm_eps': 1.1e-6}",
                                       "{'rope_theta': 10001}",
                                       "{'tie_word_embeddings': true}",
                                       "{'attention_bias': true}",
                                       "{'hidden_act': 'gelu'}",
                                       "{'rope_scaling': {'rope_type': 'linear', 'factor': 2}}",
                                       "{'use_sliding_window': true, 'sliding_window': 8, "
                                       "'max_window_layers': 1}",
                                       "{'max_position_embeddings': 128}",
                                       "{'pad_token_id': 3}",
                                       "{'model_type': 'qwen2'}",
                                       "{'quantization_config': {'bits': 4}}"};
    char base[HASH_HEX], other[HASH_HEX];
    (void)state;
    digest_with("{}", base);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        digest_with(none[i], other);
        if (strcmp(base, other) != 0) fail_msg("%s has an effect", none[i]);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        digest_with(some[i], other);
        if (strcmp(base, other) == 0) fail_msg("%s has no effect", some[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_come_from_any_of_their_keys),
        cmocka_unit_test(published_sizes),
        cmocka_unit_test(bad_configs_say_why),
        cmocka_unit_test(numbers_may_be_written_either_way),
        cmocka_unit_test(wordings_of_4_and_5_agree),
        cmocka_unit_test(apertus_scales_by_default),
        cmocka_unit_test(layers_without_rope),
        cmocka_unit_test(windows_only_when_asked),
        cmocka_unit_test(layers_of_olmo3),
        cmocka_unit_test(olmo3_scales_full_layers),
        cmocka_unit_test(fixtures_in_both_wordings),
        cmocka_unit_test(table_is_whole),
        cmocka_unit_test(digests_are_of_what_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
