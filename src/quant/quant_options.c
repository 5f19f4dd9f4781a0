/* The table of the methods' options: those that several methods share, then each method's own. */
#include "quant/quant_options.h"
#include "quant/quant.h"
#include <string.h>

/* In the order of their enums. */
static const char *const orders[] = {"none", "activation", "group", NULL};
static const char *const scale_dtypes[] = {"f32", "f16", "f16-packed", NULL};
static const char *const last_resorts[] = {"none", "round", "floor", NULL};
static const char *const hessians[] = {"own", "shared", NULL};

#define IN_QUANT(key) offsetof(struct quant_options, key)
#define OWN_KEYS(upper, lower)                                                                     \
    {.type = OPTION_KEYS, .table = &quant_##lower.own, .offset = IN_QUANT(own[METHOD_##upper])},

static const struct option shared_keys[] = {
    OPTION(quant_options, group_size, INT, "columns that share one scale; -1: the whole row",
           .fallback = "128", .low = 1, .high = INT64_MAX, OPTION_SPECIAL(-1, NULL)),
    OPTION(quant_options, symmetric, BOOL,
           "range of a group centred on zero; false: from its least to its greatest weight",
           .fallback = "true", .unset = "asymmetric"),
    OPTION(quant_options, order, CHOICE,
           "columns are quantized as they stand (none), by falling diagonal of the Hessian "
           "(activation), or so inside each group and group by group (group)",
           .fallback = "none", .choices = orders),
    OPTION(quant_options, damping, REAL,
           "share of the mean of the Hessian's diagonal that is added to it", .fallback = "0.01",
           .least = 0, .most = 1),
    OPTION(quant_options, block_size, INT,
           "columns quantized before the rest of the matrix is updated", .fallback = "128",
           .low = 1, .high = INT64_MAX),
    OPTION(quant_options, true_sequential, BOOL,
           "each stage of a block sees the block's earlier stages quantized", .fallback = "true"),
    OPTION(quant_options, static_groups, BOOL,
           "scales of all groups from the original weights, before the sweep", .fallback = "false"),
    OPTION(quant_options, damping_increment, REAL,
           "step by which damping is raised where the Hessian cannot be factored; 0: ten times, at "
           "most thrice",
           .fallback = "0", .least = 0, .most = 1),
    OPTION(quant_options, range_search, REAL,
           "exponent of the error that the search of a smaller range makes least (GPTQ's mse: "
           "2.4); 0: no search",
           .fallback = "0", .least = 0, .most = 16),
    OPTION(quant_options, hessian_per_token, BOOL,
           "the Hessian is a mean over tokens instead of sequences; tells only where input "
           "channels are dead",
           .fallback = "false"),
    OPTION(quant_options, scale_dtype, CHOICE,
           "what the scales are stored as: the weights are code times stored scale, the codes come "
           "from the scale in f32; f16-packed: later layers are calibrated on weights whose scales "
           "are not rounded yet, as GPTQModel rounds when it packs",
           .fallback = "f32", .choices = scale_dtypes),
    OPTION(quant_options, last_resort, CHOICE,
           "where no damping lets the Hessian be factored: the cell fails (none), the layer is "
           "rounded to nearest (round), or first a floor of 1e-6 to 0.1 of its greatest entry is "
           "put under the diagonal (floor)",
           .fallback = "none", .choices = last_resorts),
    OPTION(quant_options, hessian, CHOICE,
           "of the inputs that the variant's own quantized layers give (own), or of the "
           "full-precision model's, one for all variants of a checkpoint (shared)",
           .fallback = "own", .choices = hessians),
};
enum { N_SHARED = sizeof shared_keys / sizeof *shared_keys };

static const struct option_table shared_table = {
    .options = shared_keys, .n = N_SHARED, .size = IN_QUANT(own)};

static const struct option quant_keys[] = {{.type = OPTION_KEYS, .table = &shared_table},
                                           QUANT_METHODS(OWN_KEYS)};

const struct option_table quant_table = {.options = quant_keys,
                                         .n = sizeof quant_keys / sizeof *quant_keys,
                                         .size = sizeof(struct quant_options)};

const char *quant_options_key(int64_t i)
{
    for (int64_t k = 0; i >= 0 && k < quant_table.n; i -= quant_keys[k++].table->n)
        if (i < quant_keys[k].table->n) return quant_keys[k].table->options[i].name;
    return NULL;
}

bool quant_options_differ(const struct quant_options *a, const struct quant_options *b,
                          const char *key)
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
    return quant_options_differ(q, &plain, key);
}

int quant_options_owner(const char *key)
{
    size_t base;
    for (int i = 0; i < METHOD_N; i++)
        if (options_find(quant_keys[1 + i].table, key, &base)) return i;
    return -1;
}
