/* Entries of `methods`. */
#include "activation/kivi.h"
#include "config/preset.h"
#include "quant/quant.h"
#include "util/mem.h"
#include "util/words.h"
#include <stdio.h>

/* --- grids of what the model computes --- */

static bool grid_absent(const void *grid)
{
    const struct activation_grid *g = grid;
    return !activation_quantizes(g) && g->rotation == RUN_ROTATION_NONE && g->qkv_bits == 0;
}

/* The cache of KIVI. */
static enum status check_cache(const struct activation_grid *g, const struct option_scope *scope,
                               struct err *e)
{
    const bool keys = scope->name && strcmp(scope->name, "keys") == 0;
    if (g->kind == CACHE_CHANNEL && g->residual == 0)
        return options_fail(scope, "kind", e,
                            "channel: its groups are tokens of a cache; expected residual too");
    if (g->residual == 0) return OK;
    if (g->codes != INPUT_INTEGER)
        return options_fail(scope, "codes", e, "a cache with a residual has integers");
    if (keys && g->kind != CACHE_CHANNEL)
        return options_fail(scope, "residual", e, "of keys it goes with kind: channel");
    if (keys && (g->group_size < 1 || g->group_size > KIVI_GROUP_MAX))
        return options_fail(scope, "group", e,
                            "with kind: channel it is a number of tokens, from 1 to %d",
                            KIVI_GROUP_MAX);
    if (keys && g->residual % g->group_size != 0)
        return options_fail(scope, "residual", e, "expected a multiple of the group, %lld tokens",
                            (long long)g->group_size);
    if (g->symmetric || g->clip != 1 || g->before_rope || g->clamp_zero)
        return options_fail(scope,
                            g->symmetric     ? "symmetric"
                            : g->clip != 1   ? "clip"
                            : g->before_rope ? "before_rope"
                                             : "clamp_zero",
                            e,
                            "a cache with a residual has KIVI's grid, from the least to the "
                            "largest number, behind the rotary embedding");
    return OK;
}

static enum status grid_finish(void *grid, const struct option_scope *scope, struct err *e)
{
    const struct activation_grid *g = grid;
    const bool written = scope->node && scope->node->kind != NODE_NULL;
    const bool turned = g->rotation && scope->name && strcmp(scope->name, "activations") == 0;
    if (written && !turned && g->qkv_bits == 0 && !node_find(scope->node, "bits"))
        return options_fail(scope, "bits", e, "missing: expected an integer from %d to %d",
                            ACTIVATION_BITS_MIN, ACTIVATION_BITS_MAX);
    if (g->clip <= 0) return options_fail(scope, "clip", e, "expected a number above 0 up to 1");
    if (g->granularity == GRANULARITY_TENSOR && g->group_size > 0)
        return options_fail(scope, "group_size", e, "a tensor has one range and no groups");
    if (g->granularity == GRANULARITY_STATIC &&
        (!g->symmetric || g->group_size > 0 || g->calibrated))
        return options_fail(scope, "granularity", e,
                            "static: one symmetric range without groups, of inputs as they come; "
                            "expected symmetric: true, group_size: -1 and calibrated: false");
    if (g->clamp_zero && g->symmetric)
        return options_fail(scope, "clamp_zero", e, "expected symmetric: false");
    if (g->o_group > 0 && (g->granularity != GRANULARITY_TOKEN || g->outliers > 0))
        return options_fail(scope, "o_group", e, "expected granularity: token without outliers");
    if (g->outliers > 0 && g->granularity != GRANULARITY_TOKEN)
        return options_fail(scope, "outliers", e, "expected granularity: token");
    if (g->codes != INPUT_INTEGER &&
        ((activation_quantizes(g) && g->bits != 8) ||
         (g->down_bits > 0 && g->down_bits != 8 && g->down_bits != ACTIVATION_BITS_NONE)))
        return options_fail(scope, "codes", e, "these floats have 8 bits; expected bits: 8");
    if (g->down_bits > 0 && !activation_quantizes(g))
        return options_fail(scope, "down_bits", e, "expected bits too, of the other linears");
    if (g->before_rope && g->rotation != RUN_ROTATION_NONE)
        return options_fail(scope, "rotation", e,
                            "it comes behind the rotary embedding, which before_rope: true does "
                            "not");
    return check_cache(g, scope, e);
}

static const char *const granularities[] = {"token", "tensor", "static", NULL};
static const char *const input_codes[] = {"integer", "fp8_e4m3", "fp8_e5m2", NULL};
static const char *const run_rotations[] = {"none", "hadamard", NULL};
static const char *const cache_kinds[] = {"token", "channel", NULL};

#define GRID_BITS                                                                                  \
    OPTION(activation_grid, bits, INT, "width; 16: not quantized", .unit = "bits",                 \
           .fallback = "16", .low = ACTIVATION_BITS_MIN, .high = ACTIVATION_BITS_MAX,              \
           OPTION_SPECIAL(ACTIVATION_BITS_NONE, NULL))
#define GRID_SYMMETRIC(value)                                                                      \
    OPTION(activation_grid, symmetric, BOOL, "the range is centred on zero", .fallback = value,    \
           .with = "codes=integer"),                                                               \
        OPTION(activation_grid, clamp_zero, BOOL,                                                  \
               "the zero is one of the codes, which cuts off a group that does not hold 0 (Atom)", \
               .fallback = "false", .with = "codes=integer", .later = true),                       \
        OPTION(activation_grid, codes, CHOICE, "integers, or floats with a symmetric range",       \
               .fallback = "integer", .choices = input_codes, .later = true)
#define GRID_CLIP                                                                                  \
    OPTION(activation_grid, clip, REAL, "factor of both ends of the range, above 0",               \
           .fallback = "1", .minimum = 0, .maximum = 1)
#define GRID_GROUP                                                                                 \
    OPTION_AT("group", activation_grid, group_size, INT,                                           \
              "channels of a head that share a range; head: all of them", .unit = "channels",      \
              .fallback = "head", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(-1, "head"))
#define GRID_CACHE                                                                                 \
    OPTION(activation_grid, residual, INT,                                                         \
           "the youngest tokens, which are not quantized, as in a cache while text is generated "  \
           "(KIVI); 0: all are",                                                                   \
           .unit = "tokens", .fallback = "0", .low = 0, .high = INT64_MAX, .later = true),         \
        OPTION(activation_grid, prefill, INT,                                                      \
               "first tokens that are one call, which sees nothing quantized", .unit = "tokens",   \
               .fallback = "0", .low = 0, .high = INT64_MAX, .with = "residual", .later = true)

static const struct option input_keys[] = {
    GRID_BITS,
    GRID_SYMMETRIC("true"),
    GRID_CLIP,
    OPTION(activation_grid, group_size, INT,
           "columns that share a range; -1: all of a token's, and 0 is in it", .unit = "columns",
           .fallback = "-1", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(-1, NULL)),
    OPTION(activation_grid, granularity, CHOICE,
           "each token has a range of its own, all tokens of a sequence share one (tensor), or all "
           "inputs of a linear, that of the calibration text (static)",
           .fallback = "token", .choices = granularities),
    OPTION(activation_grid, rotation, CHOICE,
           "Hadamard matrices mix the inputs of o (over the heads) and of the last linear, whose "
           "weights are turned back",
           .fallback = "none", .choices = run_rotations, .later = true),
    OPTION(activation_grid, calibrated, BOOL,
           "the method sees inputs, keys and values quantized when it calibrates (Atom), not as "
           "they come (QuaRot)",
           .fallback = "false", .later = true),
    OPTION(activation_grid, down_bits, INT, "width of the last linear's input", .unit = "bits",
           .fallback = "same", .low = ACTIVATION_BITS_MIN, .high = ACTIVATION_BITS_MAX,
           OPTION_SPECIAL_2(0, "same", ACTIVATION_BITS_NONE, NULL), .later = true),
    OPTION(activation_grid, o_group, INT,
           "columns of the input of o that share a range, as heads do in SpinQuant",
           .unit = "columns", .fallback = "same", .low = 1, .high = INT64_MAX,
           OPTION_SPECIAL(0, "same"), .later = true),
    OPTION(activation_grid, qkv_bits, INT,
           "width of the outputs of q, k and v as they come: one symmetric range for a token's "
           "queries, one for its keys, one for its values (SmoothQuant); none: not quantized",
           .unit = "bits", .fallback = "none", .low = ACTIVATION_BITS_MIN,
           .high = ACTIVATION_BITS_MAX, OPTION_SPECIAL(0, "none"), .later = true),
    OPTION(activation_grid, outliers, INT,
           "channels with the largest scores on the calibration text, which have a grid of their "
           "own; groups are made of the others by ascending score",
           .unit = "channels", .fallback = "0", .low = 0, .high = INT64_MAX, .later = true),
    OPTION(activation_grid, outlier_bits, INT, "their width, symmetric; 16: not quantized",
           .unit = "bits", .fallback = "16", .low = ACTIVATION_BITS_MIN,
           .high = ACTIVATION_BITS_MAX, OPTION_SPECIAL(ACTIVATION_BITS_NONE, NULL),
           .with = "outliers", .later = true),
    OPTION(activation_grid, outlier_score, CHOICE,
           "largest magnitude (QUIK), sum of squares, or largest mean magnitude of a sequence "
           "(Atom) of a channel",
           .fallback = "largest", .choices = outlier_scores, .with = "outliers", .later = true),
    OPTION(activation_grid, outlier_least, REAL,
           "linears have outliers only if a score is above it, the last with down_bits above twice "
           "that (QUIK)",
           .fallback = "0", .minimum = 0, .maximum = HUGE_VAL, .with = "outliers", .later = true),
    OPTION(activation_grid, outlier_relative, BOOL,
           "so many outliers for each whole hidden size of channels (QUIK)", .fallback = "false",
           .with = "outliers", .later = true),
};
static const struct option key_keys[] = {
    GRID_BITS,
    GRID_SYMMETRIC("false"),
    GRID_CLIP,
    GRID_GROUP,
    OPTION(activation_grid, before_rope, BOOL, "before the rotary embedding, not behind it",
           .fallback = "false"),
    OPTION(activation_grid, rotation, CHOICE,
           "a Hadamard matrix mixes the channels of each head of keys and queries",
           .fallback = "none", .choices = run_rotations),
    OPTION(activation_grid, kind, CHOICE,
           "channels of a token share a range, or `group` tokens of each channel (KIVI)",
           .fallback = "token", .choices = cache_kinds, .later = true),
    GRID_CACHE,
};
static const struct option value_keys[] = {
    GRID_BITS, GRID_SYMMETRIC("false"), GRID_CLIP, GRID_GROUP, GRID_CACHE,
};
#define GRID_TABLE(keys)                                                                           \
    {                                                                                              \
        OPTION_ROWS(keys, activation_grid), .absent = grid_absent, .finish = grid_finish           \
    }
static const struct option_table input_table = GRID_TABLE(input_keys),
                                 key_table = GRID_TABLE(key_keys),
                                 value_table = GRID_TABLE(value_keys);

/* The method and, where they quantize, the widths: rtn-a8-kv4, rtn-k4-v2. */
static enum status make_name(struct method_entry *m, struct err *e)
{
    const struct activation_grids *g = &m->grids;
    const struct {
        const char *letters;
        const struct activation_grid *grid;
    } parts[] = {{"a", &g->inputs}, {"kv", &g->keys}, {"k", &g->keys}, {"v", &g->values}};
    const bool together = activation_quantizes(&g->keys) && g->keys.bits == g->values.bits;
    char suffix[32] = "";
    for (int i = 0; i < 4; i++) {
        if (!activation_quantizes(parts[i].grid) || (i == 1 && !together) || (i > 1 && together))
            continue;
        const size_t n = strlen(suffix);
        snprintf(suffix + n, sizeof suffix - n, "-%s%lld", parts[i].letters,
                 (long long)parts[i].grid->bits);
    }
    return mem_format(&m->name, e, "%s%s", m->method, suffix);
}

/* --- rotation --- */

static const struct {
    const char *name;
    unsigned place;
} places[] = {{"Q1", ROTATE_RANDOM}, {"R1", ROTATE_R1}, {"R2", ROTATE_R2}, {"R4", ROTATE_R4}};
enum { PLACES_N = sizeof places / sizeof *places };

static unsigned places_of(const char *names)
{
    unsigned set = 0;
    for (int i = 0; names && i < PLACES_N; i++)
        if (words_have(names, "\n", places[i].name, strlen(places[i].name))) set |= places[i].place;
    return set;
}

unsigned method_entry_places(const struct method_entry *m)
{
    const bool runs = m->grids.inputs.rotation != RUN_ROTATION_NONE;
    const unsigned set = places_of(m->rotation);
    return set | (set & ROTATE_RANDOM ? ROTATE_R1 : 0) | (runs ? ROTATE_HEADS | ROTATE_R4 : 0);
}

/* Names in one order, each once, so that equal sets have equal keys. */
static enum status sort_places(struct method_entry *m, const struct option_scope *scope,
                               struct err *e)
{
    const unsigned set = places_of(m->rotation);
    char sorted[16] = "";
    size_t lines = 1, n = 0;
    if (!m->rotation) return OK;
    for (const char *c = m->rotation; *c; c++) lines += *c == '\n';
    for (int i = 0; i < PLACES_N; i++) {
        if (!(set & places[i].place)) continue;
        if (sorted[0]) strcat(sorted, "\n");
        strcat(sorted, places[i].name);
        n++;
    }
    if (n != lines || (set & ROTATE_R1 && set & ROTATE_RANDOM))
        return options_fail(
            scope, "rotation", e,
            "expected one or several of R1 or Q1, R2 and R4, each once; mixing: hadamard "
            "mixes the columns of each linear");
    memcpy(m->rotation, sorted, strlen(sorted) + 1);
    return OK;
}

static enum status check_rotation(struct method_entry *m, const struct option_scope *scope,
                                  struct err *e)
{
    const struct quant_method *method = quant_find(m->method);
    PASS(sort_places(m, scope, e));
    if (!method_entry_places(m) || !method) return OK;
    const char *key = m->rotation ? "rotation" : "activations";
    const struct quant_needs needs = quant_needs_of(method, &m->options);
    if (method == &quant_stored)
        return options_fail(scope, key, e, "a stored checkpoint is in the basis that it is in");
    if (needs.shared || needs.pairs || needs.scores)
        return options_fail(scope, key, e,
                            "%s calibrates on inputs of the model in full precision, which are in "
                            "another basis; expected hessian: own without outliers, or a method "
                            "without calibration",
                            m->method);
    m->options.learns = m->rotation_steps > 0;
    if (m->options.learns &&
        !(method->describe_grids && method_entry_places(m) & (ROTATE_R1 | ROTATE_R2)))
        return options_fail(scope, "rotation_steps", e,
                            "R1 or R2 are learned, of a method with integer grids, such as rtn or "
                            "gptq");
    return OK;
}

static enum status check_grids(struct method_entry *m, const struct option_scope *scope,
                               struct err *e)
{
    const struct quant_method *method = quant_find(m->method);
    if (method && method->apply && activation_quantizes(&m->grids.inputs))
        return options_fail(scope, "activations", e, "method %s quantizes its inputs itself",
                            m->method);
    const struct quant_needs needs =
        method ? quant_needs_of(method, &m->options) : (struct quant_needs){0};
    if (m->grids.inputs.calibrated && method && (!needs.own || needs.pairs))
        return options_fail(scope, "activations", e,
                            "calibrated: %s does not calibrate on the inputs of its own variant",
                            m->method);
    if (method != &quant_none) return OK;
    if (!activation_any(&m->grids) && !method_entry_places(m))
        return options_fail(scope, "method", e,
                            "none changes nothing by itself; it goes with activations, keys or "
                            "values");
    if (m->n_bits == 0) m->bits[m->n_bits++] = QUANT_BITS_FULL;
    return OK;
}

/* --- entries --- */

/* What its grid needs to know of inputs on the calibration text. */
static unsigned input_statistics(const struct activation_grid *g)
{
    if (!activation_quantizes(g)) return 0;
    return (g->granularity == GRANULARITY_STATIC ? WANTS(STATISTIC_LARGEST) : 0) |
           (g->outliers > 0 ? WANTS(outlier_statistic(g->outlier_score)) : 0);
}

static enum status finish(void *entry, const struct option_scope *scope, struct err *e)
{
    struct method_entry *m = entry;
    const bool stored = m->method && strcmp(m->method, quant_stored.name) == 0;
    if (m->path && !stored) return options_fail(scope, "path", e, "goes with method: stored");
    if (stored && !m->path)
        return options_fail(scope, "path", e,
                            "missing: where the quantized checkpoint is, a folder or a GGUF file");
    if (stored && m->n_bits != 1)
        return options_fail(scope, "bits", e,
                            "expected one width of its own, at which its cells are listed");
    m->options.input_statistics = input_statistics(&m->grids.inputs);
    if (stored && m->options.input_statistics)
        return options_fail(scope, "activations", e,
                            "a stored checkpoint has no calibration, which static ranges and "
                            "outliers need");
    PASS(check_rotation(m, scope, e));
    PASS(check_grids(m, scope, e));
    return m->name ? OK : make_name(m, e);
}

static const struct option keys[] = {
    OPTION(method_entry, name, TEXT, "label on the cube's quantizer axis, each only once",
           .otherwise = "the method, -a8-kv4 behind it where these are quantized"),
    OPTION(method_entry, method, TEXT,
           "a name that `qtraj methods` lists, stored, or none (the weights stay as they are)",
           .required = true),
    OPTION(
        method_entry, path, PATH,
        "stored: the quantized checkpoint, a folder or a GGUF file, with {model}, {checkpoint} or "
        "{step}",
        .file_only = true),
    OPTION(method_entry, preset, CHOICE,
           "defaults of this method's options by a published protocol (listed below)",
           .fallback = "none", .otherwise = "the sweep's", .choices = preset_names,
           .file_only = true),
    OPTION(method_entry, bits, INTS, "widths of this method only", .unit = "bits",
           .count = offsetof(struct method_entry, n_bits), .capacity = QUANT_BITS_N,
           .otherwise = "the sweep's", .low = QUANT_BITS_LEAST, .high = QUANT_BITS_FULL),
    OPTION(
        method_entry, replicates, INT,
        "runs with different calibration sequences: the usual ones, then random ones of the same "
        "text, whose losses are stored along the axis replicate",
        .fallback = "1", .low = 1, .high = REPLICATES_MAX, .file_only = true),
    OPTION_AT("activations", method_entry, grids.inputs, GROUP,
              "inputs of linears in few bits, when losses are measured", .otherwise = "none",
              .table = &input_table),
    OPTION_AT("keys", method_entry, grids.keys, GROUP, "the same of keys", .otherwise = "none",
              .table = &key_table),
    OPTION_AT("values", method_entry, grids.values, GROUP, "the same of values",
              .otherwise = "none", .table = &value_table),
    OPTION(
        method_entry, rotation, TEXTS,
        "the model is turned into another basis before it is quantized, by random Hadamard "
        "matrices: R1 of the residual stream (Q1: by a random orthogonal one), R2 of the heads of "
        "the values, R4 of the input of the last linear",
        .otherwise = "none", .file_only = true),
    OPTION(method_entry, rotation_seed, INT, "seed of the signs of R1 and R2, and of Q1",
           .fallback = "0", .low = 0, .high = INT64_MAX, .with = "rotation", .file_only = true),
    OPTION(method_entry, rotation_steps, INT,
           "steps in which R1 and R2 are learned from there on (SpinQuant): their loss is that of "
           "weights rounded to nearest, on the calibration text",
           .fallback = "0", .low = 0, .high = 100000, .with = "rotation", .file_only = true),
    OPTION(method_entry, rotation_sequences, INT, "calibration sequences of such a step",
           .fallback = "8", .low = 1, .high = INT32_MAX, .with = "rotation_steps",
           .file_only = true),
    OPTION(method_entry, rotation_rate, REAL, "the greatest such step, with a cosine to 0",
           .fallback = "1.5", .minimum = 0, .maximum = 100, .with = "rotation_steps",
           .file_only = true),
    {.type = OPTION_KEYS, .table = &quant_table, .offset = offsetof(struct method_entry, options)},
};
const struct option_table method_table = {OPTION_ROWS(keys, method_entry), .begin = method_begin,
                                          .finish = finish};

enum status method_entry_check_weights(const struct method_entry *m, const char *what,
                                       struct err *e)
{
    PASS(quant_check_weights(quant_find(m->method), what, e));
    NEED(!activation_any(&m->grids), ERR_USAGE,
         "%s: %s quantizes activations, keys or values too, so that its weights alone are not the "
         "model that it measures",
         what, m->name);
    NEED(!method_entry_places(m), ERR_USAGE,
         "%s: %s quantizes the model in another basis, so that its weights are no weights of the "
         "model",
         what, m->name);
    return OK;
}

json_t *method_entry_to_json(const struct method_entry *m)
{
    json_t *json = options_to_json(&method_table, m);
    const struct quant_method *method = quant_find(m->method);
    const char *key;
    for (int64_t i = 0; json && (key = quant_options_key(i)) != NULL; i++)
        if (quant_options_owner(key) >= 0 && (!method || !quant_concerns(method, key)))
            json_object_del(json, key);
    return json;
}

json_t *method_grids_to_json(const struct method_entry *m)
{
    static const char *const names[] = {"activations",        "keys",          "values",
                                        "rotation",           "rotation_seed", "rotation_steps",
                                        "rotation_sequences", "rotation_rate"};
    const unsigned turned = method_entry_places(m);
    if (!activation_any(&m->grids) && !turned) return NULL;
    json_auto_t *all = options_to_key(&method_table, m);
    json_t *kept = json_object();
    for (int i = 0; i < (m->rotation_steps ? 8 : turned ? 5 : 3); i++)
        if (json_object_get(all, names[i]))
            json_object_set(kept, names[i], json_object_get(all, names[i]));
    return kept;
}
