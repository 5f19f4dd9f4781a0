/* quant_options: the options of the quantization methods.
 *
 * Options that several methods understand are fields of struct quant_options; a method names those
 * that concern it (quant_method.options). Options that one method alone has stand in a table in its
 * own file (quant_method.own) and are kept in that method's part of `own`. Names are unique over
 * all of them, so that the sweep file, the command line and the JSON form are flat.
 */
#pragma once
#include "options/options.h"
#include "quant/quant_table.h"

enum { QUANT_BITS_MIN = 2, QUANT_BITS_MAX = 8, QUANT_BITS_N = 7 };

/* One number a method of the table: METHOD_RTN, METHOD_GPTQ, ... */
#define METHOD_NUMBER(upper, lower) METHOD_##upper,
enum { QUANT_METHODS(METHOD_NUMBER) METHOD_N };

/* How the column sweep of a method walks the input channels. */
enum quant_order { ORDER_NONE, ORDER_ACTIVATION, ORDER_GROUP };

/* What the scales of quantized weights are stored as. Later layers are calibrated on the stored
 * weights; packed: on those whose scales are still f32, since scales are rounded after the last
 * layer. */
enum scale_dtype { SCALE_F32, SCALE_F16, SCALE_F16_PACKED };

/* What is left to try where a Hessian cannot be factored with any damping. */
enum last_resort { RESORT_NONE, RESORT_ROUND, RESORT_FLOOR };

/* Whose inputs statistics are taken of: those of the variant's own quantized prefix, or those of
 * the full-precision model, which all variants of a checkpoint that ask for it share. */
enum quant_hessian { HESSIAN_OWN, HESSIAN_SHARED };

/* Memory of a method's own options: a plain struct of numbers, which is copied with the rest. */
enum { QUANT_OWN_BYTES = 64 };
union quant_own {
    int64_t align;
    char bytes[QUANT_OWN_BYTES];
};

struct quant_options {
    int64_t group_size; /* columns that share a scale; -1: the whole row */
    bool symmetric;
    int order;      /* enum quant_order */
    double damping; /* share of mean(diag H) added to the diagonal */
    int64_t block_size;
    bool true_sequential;     /* each stage sees the block's earlier stages quantized */
    bool static_groups;       /* scales of all groups from the original weights, before the sweep */
    double damping_increment; /* step by which damping is raised where the factorisation fails; 0:
                                 ten times, at most thrice */
    double range_search;      /* exponent of the error that the search of a smaller range minimises;
                                 0: no search */
    bool hessian_per_token; /* H is a mean over tokens, not sequences: matters for dead channels */
    int scale_dtype;        /* enum scale_dtype: codes come from scales in f32 in any case */
    int last_resort;        /* enum last_resort */
    int hessian;            /* enum quant_hessian */
    union quant_own own[METHOD_N];
};

/* The keys of all methods; an entry of `methods` in a sweep file has them among its own. */
extern const struct option_table quant_table;

/* Name of the i-th option, NULL after the last. */
const char *quant_options_key(int64_t i);
/* Whether the option of that name differs from its default. */
bool quant_options_changed(const struct quant_options *q, const char *key);
/* The number (METHOD_*) of the method that alone has the option; -1: several may have it, or there
 * is none of that name. */
int quant_options_owner(const char *key);
