/* The table of methods and the table of their options: shared options, then those of each method.
 */
#include "quant/quant.h"
#include "options/nearest.h"
#include "util/mem.h"
#include "util/words.h"

/* --- options --- */

/* In the order of their enums. */
static const char *const orders[] = {"none", "activation", "group", NULL};
static const char *const scale_dtypes[] = {"f32", "f16", "f16-packed", NULL};
static const char *const last_resorts[] = {"none", "round", "floor", NULL};
static const char *const mixings[] = {"none", "hadamard", NULL};
static const char *const code_names[] = {"integer",    "fp8_e5m2",   "fp8_e4m3",   "fp6_e3m2",
                                         "fp6_e2m3",   "fp4_e2m1",   "mxfp8_e5m2", "mxfp8_e4m3",
                                         "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4",      "nvfp4",
                                         "nvfp4_46",   "ternary",    "sign",       NULL};
static const char *const changes[] = {"gptq", "rtn", NULL};
static const char *const hessians[] = {"own", "shared", NULL};

#define IN_QUANT(key) offsetof(struct quant_options, key)
#define OWN_KEYS(name)                                                                             \
    {.type = OPTION_KEYS, .table = &quant_##name.own, .offset = IN_QUANT(own[METHOD_##name])},

static const struct option shared_keys[] = {
    OPTION(quant_options, group_size, INT, "columns that share one scale; -1: the whole row",
           .unit = "columns", .fallback = "128", .low = 1, .high = INT64_MAX,
           OPTION_SPECIAL(-1, NULL)),
    OPTION(quant_options, symmetric, BOOL,
           "the range of a group is centred on zero; false: from its minimum to its maximum",
           .fallback = "true", .unset = "asymmetric"),
    OPTION(quant_options, narrow_range, BOOL,
           "the largest magnitude of a group is on its grid: scale max / (2^(bits-1) - 1), as in "
           "QuaRot and SpinQuant, not GPTQ's 2 max / (2^bits - 1)",
           .fallback = "false", .later = true, .with = "symmetric"),
    OPTION(quant_options, order, CHOICE,
           "order of the columns: unchanged (none), by decreasing diagonal of the Hessian "
           "(activation), or so inside each group and for whole groups (group)",
           .fallback = "none", .choices = orders),
    OPTION(quant_options, damping, REAL,
           "fraction of the mean of the Hessian's diagonal that is added to the diagonal",
           .fallback = "0.01", .minimum = 0, .maximum = 1),
    OPTION(quant_options, block_size, INT,
           "columns quantized before the rest of the matrix is updated", .unit = "columns",
           .fallback = "128", .low = 1, .high = INT64_MAX),
    OPTION(quant_options, true_sequential, BOOL,
           "each stage of a block sees the block's earlier stages quantized", .fallback = "true",
           .with = "hessian=own"),
    OPTION(quant_options, static_groups, BOOL,
           "scales of all groups from the original weights, before the sweep", .fallback = "false"),
    OPTION(quant_options, damping_increment, REAL,
           "step by which damping increases if the Hessian cannot be factored; 0: by a factor of "
           "ten, at most three times",
           .fallback = "0", .minimum = 0, .maximum = 1),
    OPTION(quant_options, range_search, REAL,
           "exponent of the error that the search for a smaller range minimises (GPTQ's mse: 2.4); "
           "0: no search",
           .fallback = "0", .minimum = 0, .maximum = 16),
    OPTION(quant_options, hessian_per_token, BOOL,
           "the Hessian is a mean over tokens instead of sequences; matters only with dead input "
           "channels",
           .fallback = "false"),
    OPTION(quant_options, scale_dtype, CHOICE,
           "type of the stored scales; codes are chosen with f32 scales, weights are code times "
           "stored scale; f16-packed: later layers are calibrated on weights with f32 scales, "
           "because GPTQModel rounds when it packs",
           .fallback = "f32", .choices = scale_dtypes),
    OPTION(quant_options, last_resort, CHOICE,
           "if the Hessian cannot be factored with any damping: the cell fails (none), the layer "
           "is rounded to nearest (round), or first 1e-6 to 0.1 of the largest diagonal entry is "
           "added to the diagonal (floor)",
           .fallback = "none", .choices = last_resorts),
    OPTION(quant_options, hessian, CHOICE,
           "Hessian of inputs computed with the variant's quantized layers (own), or of the "
           "full-precision model's, once for all variants of a checkpoint (shared)",
           .fallback = "own", .choices = hessians),
    OPTION(quant_options, absmax_block, INT,
           "consecutive weights of the flattened matrix that are scaled by their largest magnitude",
           .unit = "weights", .fallback = "64", .low = 1, .high = INT64_MAX),
    OPTION(quant_options, double_quant, BOOL, "the blocks' largest magnitudes are stored in 8 bits",
           .fallback = "false"),
    OPTION(
        quant_options, mixing, CHOICE,
        "the columns of the weights are mixed before they are quantized, and back after it, by a "
        "Hadamard matrix with random signs (hadamard)",
        .fallback = "none", .choices = mixings, .later = true),
    OPTION(quant_options, mixing_seed, INT, "seed of a mixing's signs", .fallback = "0", .low = 0,
           .high = INT64_MAX, .later = true, .with = "mixing"),
    OPTION(quant_options, importance, BOOL,
           "weights count by the mean square of their calibration inputs (llama.cpp's importance "
           "matrix)",
           .fallback = "false"),
    OPTION(quant_options, codes, CHOICE,
           "numbers that stand for weights: integers of the width in `bits`, floats of 8, 6 or 4 "
           "bits (fp8_e4m3 has 4 exponent and 3 mantissa bits; mx: with powers of two as scales of "
           "32 columns; nvfp4: with 8-bit scales of 16 columns and one of the matrix, nvfp4_46: "
           "its four over six), -1, 0 and 1 (ternary), or -1 and 1 (sign)",
           .fallback = "integer", .choices = code_names, .later = true),
    OPTION(quant_options, scale_rows, INT,
           "rows that share a scale: with `codes` 1, a multiple of 64, or -1: all; else a divisor "
           "of 64",
           .unit = "rows", .fallback = "1", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(-1, NULL),
           .later = true),
    OPTION(quant_options, change_of, CHOICE,
           "method whose change of the weights has the norm that this change gets",
           .fallback = "gptq", .choices = changes),
    OPTION(quant_options, change_seed, INT,
           "seed of the change's random numbers; replicates have "
           "others",
           .fallback = "0", .low = 0, .high = INT64_MAX),
    OPTION(quant_options, incoherence, BOOL,
           "inputs and outputs of the layer are mixed by a Hadamard matrix with random signs",
           .fallback = "true", .later = true),
    OPTION(quant_options, incoherence_seed, INT, "seed of these signs", .fallback = "0", .low = 0,
           .high = INT64_MAX, .later = true, .with = "incoherence=true"),
    OPTION(quant_options, feedback, BOOL,
           "the error of a block of columns is compensated by those that are quantized later",
           .fallback = "true", .later = true),
    OPTION(quant_options, range_factor, REAL, "factor of both ends of a range, above 0",
           .fallback = "1", .minimum = 0, .maximum = 1, .later = true),
    OPTION(quant_options, outlier_columns, INT,
           "columns with the largest scores of their calibration inputs, which come last in the "
           "order of the columns and have a width of their own",
           .unit = "columns", .fallback = "0", .low = 0, .high = INT64_MAX, .later = true),
    OPTION(quant_options, outlier_bits, INT,
           "their width, with a symmetric range of a row; 16: they are not rounded", .unit = "bits",
           .fallback = "16", .low = ACTIVATION_BITS_MIN, .high = ACTIVATION_BITS_MAX,
           OPTION_SPECIAL(ACTIVATION_BITS_NONE, NULL), .later = true, .with = "outlier_columns"),
    OPTION(quant_options, outlier_score, CHOICE,
           "largest magnitude (QUIK), sum of squares, or largest mean magnitude of a sequence "
           "(Atom) of a column's inputs",
           .fallback = "largest", .choices = outlier_scores, .later = true,
           .with = "outlier_columns"),
    OPTION(quant_options, outlier_least, REAL,
           "layers have outlier columns only if a score is above it, of the last linear with "
           "down_bits above twice that (QUIK)",
           .fallback = "0", .minimum = 0, .maximum = HUGE_VAL, .later = true,
           .with = "outlier_columns"),
    OPTION(quant_options, outlier_relative, BOOL,
           "so many outlier columns for each whole hidden size of columns (QUIK)",
           .fallback = "false", .later = true, .with = "outlier_columns"),
    OPTION(quant_options, down_bits, INT, "width of the last linear's weights", .unit = "bits",
           .fallback = "same", .low = QUANT_BITS_MIN, .high = QUANT_BITS_MAX,
           OPTION_SPECIAL(0, "same"), .later = true),
    OPTION(quant_options, lqer_rank, INT,
           "rank of a correction of the quantized weights by two matrices in 16 bits (LQER)",
           .fallback = "0", .low = 0, .high = INT64_MAX, .later = true),
};
enum { N_SHARED = sizeof shared_keys / sizeof *shared_keys };

static const struct option_table shared_table = {
    .options = shared_keys, .n = N_SHARED, .size = IN_QUANT(own)};

static const struct option quant_keys[] = {{.type = OPTION_KEYS, .table = &shared_table},
                                           QUANT_METHODS(OWN_KEYS)};

const struct option_table quant_table = {OPTION_ROWS(quant_keys, quant_options)};

const char *quant_options_key(int64_t i)
{
    for (int64_t k = 0; i >= 0 && k < quant_table.n; i -= quant_keys[k++].table->n)
        if (i < quant_keys[k].table->n) return quant_keys[k].table->options[i].name;
    return NULL;
}

static bool differ(const struct quant_options *a, const struct quant_options *b, const char *key)
{
    size_t base;
    const struct option *o = options_find(&quant_table, key, &base);
    if (!o) return false;
    size_t size = o->type == OPTION_BOOL     ? sizeof(bool)
                  : o->type == OPTION_CHOICE ? sizeof(int)
                  : o->type == OPTION_REAL   ? sizeof(double)
                                             : sizeof(int64_t);
    base += o->offset;
    return memcmp((const char *)a + base, (const char *)b + base, size) != 0;
}

bool quant_options_changed(const struct quant_options *q, const char *key)
{
    struct quant_options plain;
    options_default(&quant_table, &plain);
    return differ(q, &plain, key);
}

int quant_options_owner(const char *key)
{
    size_t base;
    for (int i = 0; i < METHOD_N; i++)
        if (options_find(quant_keys[1 + i].table, key, &base)) return i;
    return -1;
}

/* --- methods --- */

#define METHOD_LINE(name) &quant_##name,
static const struct quant_method *const methods[] = {QUANT_METHODS(METHOD_LINE)};
static const struct quant_method *added; /* by a test (quant_add) */

const struct quant_method *quant_at(int i)
{
    return i >= 0 && i < METHOD_N ? methods[i] : NULL;
}

void quant_add(const struct quant_method *method)
{
    added = method;
}

const struct quant_method *quant_find(const char *name)
{
    for (int i = 0; i < METHOD_N; i++)
        if (strcmp(methods[i]->name, name) == 0) return methods[i];
    if (strcmp(name, quant_stored.name) == 0) return &quant_stored;
    if (strcmp(name, quant_none.name) == 0) return &quant_none;
    return added && strcmp(added->name, name) == 0 ? added : NULL;
}

void quant_widths(const struct quant_method *m, const struct quant_options *o, int64_t *low,
                  int64_t *high)
{
    const int64_t only = m->only_bits ? m->only_bits(o) : 0;
    *low = only ? only : m->bits_min;
    *high = only ? only : m->bits_max;
}

#define NAME(name) #name,
const char *const *quant_names(void)
{
    static const char *const names[] = {QUANT_METHODS(NAME) NULL};
    return names;
}

enum status quant_require(const char *name, const struct quant_method **out, struct err *e)
{
    char advice[400];
    *out = quant_find(name);
    if (*out) return OK;
    nearest_advice(name, quant_names(), METHOD_N, advice, sizeof advice);
    RAISE(ERR_USAGE, "there is no method '%s'%s", name, advice);
}

/* The statistics that the options ask for. */
static unsigned asked(const struct quant_options *o)
{
    return o->input_statistics |
           (o->outlier_columns > 0 ? WANTS(outlier_statistic(o->outlier_score)) : 0) |
           (o->lqer_rank > 0 ? WANTS(STATISTIC_MAGNITUDE) : 0);
}

/* Whether the method by itself does. */
static bool method_calibrates(const struct quant_method *m, const struct quant_options *o)
{
    const char *only = o ? m->calibrates_with : NULL;
    return (m->statistics && (!only || quant_options_changed(o, only))) || m->prepare_block;
}

bool quant_calibrates(const struct quant_method *m, const struct quant_options *o)
{
    return (o && (asked(o) || o->learns)) || method_calibrates(m, o);
}

/* Those of the statistics that are of pairs of inputs, or of the full-precision model's. */
static unsigned only(unsigned statistics, bool paired)
{
    unsigned some = 0;
    for (int k = 0; k < STATISTIC_N; k++)
        if (paired ? statistic_at(k)->paired : statistic_at(k)->of_full) some |= WANTS(k);
    return statistics & some;
}

struct quant_needs quant_needs_of(const struct quant_method *m, const struct quant_options *o)
{
    const bool method = method_calibrates(m, o);
    const unsigned all = (method ? m->statistics : 0) | asked(o), scores = only(all, false);
    bool shared = method && (m->full_precision || o->hessian == HESSIAN_SHARED);
    bool own = (method || all != scores) && !shared;
    return (struct quant_needs){
        .statistics = all & ~scores,
        .scores = scores,
        .shared = shared,
        .own = own,
        .sequential = own && o->true_sequential && !m->prepare_block,
        .unrounded = own && m->unrounded && o->scale_dtype == SCALE_F16_PACKED,
        .distributed = m->distributed && o->mixing == MIXING_NONE,
        .whole = !m->distributed || o->mixing != MIXING_NONE,
        .pairs = only(m->statistics, true) != 0,
        .trials = m->prepare_block != NULL,
    };
}

void quant_needs_add(struct quant_needs *to, const struct quant_needs *more)
{
    to->statistics |= more->statistics;
    to->scores |= more->scores;
    to->own = to->own || more->own;
    to->shared = to->shared || more->shared;
    to->sequential = to->sequential || more->sequential;
    to->unrounded = to->unrounded || more->unrounded;
    bool sums = more->statistics != 0;
    to->distributed = to->distributed || (sums && more->distributed);
    to->whole = to->whole || (sums && more->whole);
    to->pairs = to->pairs || more->pairs;
    to->trials = to->trials || more->trials;
}

void quant_needs_share(struct quant_needs *full, const struct quant_needs *variant)
{
    if (variant->shared) quant_needs_add(full, variant);
    full->statistics |= variant->scores;
    full->shared = full->shared || variant->scores;
}

bool quant_concerns(const struct quant_method *method, const char *key)
{
    int owner = quant_options_owner(key);
    return owner >= 0 ? methods[owner] == method
                      : words_have(method->options, " ", key, strlen(key));
}

enum status quant_option_names(const struct quant_method *method, char **out, struct err *e)
{
    enum status st = mem_string(out, method->options, e);
    for (int64_t i = 0; st == OK && i < method->own.n; i++) {
        char *shorter = *out;
        st = mem_format(out, e, "%s %s", shorter, method->own.options[i].name);
        free(shorter);
    }
    return st;
}

bool quant_shares_prepare(const struct quant_method *method, const struct quant_options *a,
                          const struct quant_options *b)
{
    const char *key, *list = method->prepare_options;
    for (int64_t i = 0; method->prepare && (key = quant_options_key(i)) != NULL; i++) {
        bool matters = list ? words_have(list, " ", key, strlen(key)) : quant_concerns(method, key);
        if (matters && differ(a, b, key)) return false;
    }
    return true;
}

enum status quant_check(const char *name, const struct quant_options *o, const int64_t *bits,
                        int64_t n, struct err *e)
{
    const struct quant_method *method;
    AUTO_FREE char *known = NULL;
    const char *key;
    PASS(quant_require(name, &method, e));
    PASS(quant_option_names(method, &known, e));
    for (int64_t i = 0; (key = quant_options_key(i)) != NULL; i++)
        NEED(!quant_options_changed(o, key) || quant_concerns(method, key), ERR_USAGE,
             "method %s has no option %s; it takes: %s", name, key, known);
    int64_t supported = 0, low, high;
    quant_widths(method, o, &low, &high);
    for (int64_t i = 0; i < n; i++) {
        if (bits[i] < low || bits[i] > high) continue;
        supported++;
        if (method->check) PASS(method->check(bits[i], o, e));
    }
    NEED(supported > 0, ERR_USAGE,
         "method %s has widths from %lld to %lld bits, and none of these is asked for", name,
         (long long)low, (long long)high);
    return OK;
}

enum status quant_check_weights(const struct quant_method *method, const char *what, struct err *e)
{
    NEED(!method->apply, ERR_USAGE,
         "%s: method %s quantizes activations too, so that its weights alone are not the model "
         "that it measures",
         what, method->name);
    NEED(method != &quant_none, ERR_USAGE, "%s: method none leaves the weights as they are", what);
    NEED(method != &quant_stored, ERR_USAGE,
         "%s: a stored checkpoint has an embedding, norms and a head of its own, so that its "
         "quantized weights alone are not the model",
         what);
    return OK;
}
