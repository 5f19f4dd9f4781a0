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
    {.name = "group_size",
     .doc = "columns that share one scale; -1: the whole row",
     .type = OPTION_INT,
     .offset = IN_QUANT(group_size),
     .fallback = "128",
     .low = 1,
     .high = INT64_MAX,
     .has_special = true,
     .special = -1},
    {.name = "symmetric",
     .doc = "range of a group centred on zero; false: from its least to its greatest weight",
     .type = OPTION_BOOL,
     .offset = IN_QUANT(symmetric),
     .fallback = "true",
     .unset = "asymmetric"},
    {.name = "order",
     .doc = "columns are quantized as they stand (none), by falling diagonal of the Hessian "
            "(activation), or so inside each group and group by group (group)",
     .type = OPTION_CHOICE,
     .offset = IN_QUANT(order),
     .fallback = "none",
     .choices = orders},
    {.name = "damping",
     .doc = "share of the mean of the Hessian's diagonal that is added to it",
     .type = OPTION_REAL,
     .offset = IN_QUANT(damping),
     .fallback = "0.01",
     .least = 0,
     .most = 1},
    {.name = "block_size",
     .doc = "columns quantized before the rest of the matrix is updated",
     .type = OPTION_INT,
     .offset = IN_QUANT(block_size),
     .fallback = "128",
     .low = 1,
     .high = INT64_MAX},
    {.name = "true_sequential",
     .doc = "each stage of a block sees the block's earlier stages quantized",
     .type = OPTION_BOOL,
     .offset = IN_QUANT(true_sequential),
     .fallback = "true"},
    {.name = "static_groups",
     .doc = "scales of all groups from the original weights, before the sweep",
     .type = OPTION_BOOL,
     .offset = IN_QUANT(static_groups),
     .fallback = "false"},
    {.name = "damping_increment",
     .doc = "step by which damping is raised where the Hessian cannot be factored; 0: ten "
            "times, at most thrice",
     .type = OPTION_REAL,
     .offset = IN_QUANT(damping_increment),
     .fallback = "0",
     .least = 0,
     .most = 1},
    {.name = "range_search",
     .doc = "exponent of the error that the search of a smaller range makes least (GPTQ's "
            "mse: 2.4); 0: no search",
     .type = OPTION_REAL,
     .offset = IN_QUANT(range_search),
     .fallback = "0",
     .least = 0,
     .most = 16},
    {.name = "hessian_per_token",
     .doc = "the Hessian is a mean over tokens instead of sequences; tells only where input "
            "channels are dead",
     .type = OPTION_BOOL,
     .offset = IN_QUANT(hessian_per_token),
     .fallback = "false"},
    {.name = "scale_dtype",
     .doc = "what the scales are stored as: the weights are code times stored scale, the "
            "codes come from the scale in f32; f16-packed: later layers are calibrated on "
            "weights whose scales are not rounded yet, as GPTQModel rounds when it packs",
     .type = OPTION_CHOICE,
     .offset = IN_QUANT(scale_dtype),
     .fallback = "f32",
     .choices = scale_dtypes},
    {.name = "last_resort",
     .doc = "where no damping lets the Hessian be factored: the cell fails (none), the layer "
            "is rounded to nearest (round), or first a floor of 1e-6 to 0.1 of its greatest "
            "entry is put under the diagonal (floor)",
     .type = OPTION_CHOICE,
     .offset = IN_QUANT(last_resort),
     .fallback = "none",
     .choices = last_resorts},
    {.name = "hessian",
     .doc = "of the inputs that the variant's own quantized layers give (own), or of the "
            "full-precision model's, one for all variants of a checkpoint (shared)",
     .type = OPTION_CHOICE,
     .offset = IN_QUANT(hessian),
     .fallback = "own",
     .choices = hessians},
};
enum { N_SHARED = sizeof shared_keys / sizeof *shared_keys };

static const struct option_table shared_table = {
    .options = shared_keys, .n = N_SHARED, .size = IN_QUANT(own)};

static const struct option quant_keys[] = {{.type = OPTION_KEYS, .table = &shared_table},
                                           QUANT_METHODS(OWN_KEYS)};

const struct option_table quant_table = {.options = quant_keys,
                                         .n = sizeof quant_keys / sizeof *quant_keys,
                                         .size = sizeof(struct quant_options)};

void quant_options_default(struct quant_options *q)
{
    options_default(&quant_table, q);
}

enum status quant_options_flag(struct quant_options *q, int argc, char **argv, int *used,
                               struct err *e)
{
    return options_flag(&quant_table, "", q, argc, argv, used, e);
}

void quant_options_print_flags(FILE *out)
{
    options_print_flags(&quant_table, "", out);
}

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
    quant_options_default(&plain);
    return quant_options_differ(q, &plain, key);
}

int quant_options_owner(const char *key)
{
    size_t base;
    for (int i = 0; i < METHOD_N; i++)
        if (options_find(quant_keys[1 + i].table, key, &base)) return i;
    return -1;
}
