/* quant_options: the options of the quantization methods.
 *
 * Options of several methods are fields of struct quant_options; a method names those that concern
 * it (quant_method.options). Options of a single method are in a table in the method's file
 * (quant_method.own) and are stored in own[METHOD_...]. Names are unique over all methods, so that
 * the sweep file, the command line and the JSON form are flat. */
#pragma once
#include "activation/activation.h"
#include "coding/grid_kind.h"
#include "options/options.h"
#include "quant/quant_table.h"

/* Widths of all methods, and the least of uniform grids. FULL: weights as they are (quant_none);
 * N: all of these. */
enum {
    QUANT_BITS_LEAST = 1,
    QUANT_BITS_MIN = 2,
    QUANT_BITS_MAX = 8,
    QUANT_BITS_FULL = 16,
    QUANT_BITS_N = 9
};

/* One number per method of the table: METHOD_rtn, METHOD_gptq, ... */
#define METHOD_NUMBER(name) METHOD_##name,
enum { QUANT_METHODS(METHOD_NUMBER) METHOD_N };

/* The order in which columns are quantized. */
enum quant_order { ORDER_NONE, ORDER_ACTIVATION, ORDER_GROUP };

/* Fallback if a Hessian cannot be factored with any damping. */
enum last_resort { RESORT_NONE, RESORT_ROUND, RESORT_FLOOR };

/* Inputs of the statistics: those computed with the variant's already quantized layers, or those of
 * the full-precision model, which all such variants of a checkpoint share. */
enum quant_hessian { HESSIAN_OWN, HESSIAN_SHARED };

/* Random orthogonal change of a linear's inputs before its weights are quantized (mixing.h). */
enum quant_mixing { MIXING_NONE, MIXING_HADAMARD };

/* The method whose change of the weights gives the norm of another change (controls.c). */
enum quant_change { CHANGE_GPTQ, CHANGE_RTN };

/* Memory of the options of a single method: a plain struct of numbers, copied with the rest. */
enum { QUANT_OWN_BYTES = 64 };
union quant_own {
    int64_t align;
    char bytes[QUANT_OWN_BYTES];
};

struct quant_options {
    int64_t group_size; /* columns that share a scale; -1: the whole row */
    bool symmetric;
    bool narrow_range; /* symmetric: the largest magnitude is on the grid */
    int order;         /* enum quant_order */
    double damping;    /* fraction of mean(diag H) added to the diagonal */
    int64_t block_size;
    bool true_sequential; /* each stage sees the block's earlier stages quantized */
    bool static_groups;   /* scales of all groups are computed from the original weights before the
                             sweep */
    double damping_increment; /* step by which damping is increased if the factorisation fails; 0:
                                 by a factor of ten, at most three times */
    double range_search; /* exponent of the error that the search for a smaller range minimises; 0:
                            no search */
    double range_factor; /* of both ends of a range, in (0, 1] */
    int64_t down_bits;   /* width of the last linear; 0: the variant's */
    /* So many columns with the largest scores of their inputs have outlier_bits
     * (ACTIVATION_BITS_NONE: they stay). */
    int64_t outlier_columns, outlier_bits;
    int outlier_score;    /* enum outlier_score */
    double outlier_least; /* as of activation_grid, applied by whoever makes a job */
    bool outlier_relative;
    bool hessian_per_token; /* H is a mean over tokens, not sequences: matters for dead channels */
    int scale_dtype;        /* enum scale_dtype; codes are always chosen with f32 scales */
    int last_resort;        /* enum last_resort */
    int hessian;            /* enum quant_hessian */
    int64_t absmax_block;   /* weights of the flattened matrix that share a largest magnitude */
    bool double_quant;      /* these magnitudes are quantized in turn */
    int mixing;             /* enum quant_mixing */
    int64_t mixing_seed;
    bool importance;    /* weights count by the mean squares of their inputs */
    int codes;          /* enum quant_codes */
    int64_t scale_rows; /* rows that share a scale; -1: all */
    int change_of;      /* enum quant_change */
    int64_t change_seed;
    bool incoherence; /* incoherent.h: inputs and outputs are mixed, with signs of this seed */
    int64_t incoherence_seed;
    int64_t lqer_rank; /* of a correction of the weights (lqer.h); 0: none */
    bool feedback; /* incoherent.h: the error of a block of columns is compensated by later ones */
    /* No option: statistics of its inputs that the variant needs besides the method's (WANTS). */
    unsigned input_statistics;
    bool learns; /* no option: something is learned from the calibration text */
    union quant_own own[METHOD_N];
};

/* The options of all methods; they are also keys of an entry of `methods` in a sweep file. */
extern const struct option_table quant_table;

/* Name of the i-th shared option, NULL after the last. */
const char *quant_options_key(int64_t i);
/* Whether the option of that name differs from its default. */
bool quant_options_changed(const struct quant_options *q, const char *key);
/* The number (METHOD_*) of the only method that has the option; -1: it is a shared option or
 * unknown. */
int quant_options_owner(const char *key);
