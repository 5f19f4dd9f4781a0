/* activation: numbers that a model computes, in few bits: inputs of linears, keys and values.
 *
 * Quantized and dequantized in place ("fake quantization"), each token with a grid of its own range
 * (QuaRot, arXiv 2404.00456: fake_quant/quant_utils.py, ActQuantizer). With b bits, and the range
 * [low, high] of a group, both ends times `clip`:
 *
 *     symmetric: s = max(|low|, |high|) / (2^(b-1) - 1),
 *                x -> s clamp(round(x / s), -2^(b-1), 2^(b-1) - 1);
 *     asymmetric: s = (high - low) / (2^b - 1), z = round(-low / s),
 *                 x -> s (clamp(round(x / s) + z, 0, 2^b - 1) - z).
 *
 * Division is IEEE's, rounding half to even, all in f32. The range of a whole row is extended to
 * hold 0; that of a group of fewer columns is not, so that z may lie outside the codes (but with
 * clamp_zero, which cuts off such a group).
 */
#pragma once
#include "util/err.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Widths; NONE: not quantized. */
enum { ACTIVATION_BITS_MIN = 2, ACTIVATION_BITS_MAX = 8, ACTIVATION_BITS_NONE = 16 };

/* What shares a range: a token, all tokens of a sequence, or all inputs of a linear, whose range
 * the calibration text gives. */
enum granularity { GRANULARITY_TOKEN, GRANULARITY_TENSOR, GRANULARITY_STATIC };
/* Numbers on a grid: integers, or 8-bit floats with a scale s = max |x| / the largest float. */
enum input_codes { INPUT_INTEGER, INPUT_FP8_E4M3, INPUT_FP8_E5M2 };
/* By which outlier channels are found on the calibration text: the largest |x| (QUIK), the sum of
 * squares, the Hessian's diagonal (Atom), or the largest mean |x| of a sequence (Atom's abs_mean).
 */
enum outlier_score { OUTLIER_LARGEST, OUTLIER_SQUARES, OUTLIER_MEAN };
/* Their names, and NULL. */
extern const char *const outlier_scores[];
/* Hadamard matrices at run time. Keys: on the heads of keys and queries behind the rotary
 * embedding; inputs: on those of o (over the heads) and of the last linear, whose weights are
 * turned back. */
enum run_rotation { RUN_ROTATION_NONE, RUN_ROTATION_HADAMARD };
/* What shares a range of keys: channels of a token, or tokens of a channel. */
enum cache_kind { CACHE_TOKEN, CACHE_CHANNEL };
/* Places of a rotated model (model/rotated.h), a set. RANDOM: R1 is no Hadamard matrix. */
enum { ROTATE_R1 = 1, ROTATE_R2 = 2, ROTATE_R4 = 4, ROTATE_HEADS = 8, ROTATE_RANDOM = 16 };

struct activation_grid {
    int64_t bits;
    bool symmetric;
    double clip;     /* in (0, 1] */
    bool clamp_zero; /* asymmetric: the zero is one of the codes */
    int64_t
        group_size;    /* columns that share a range; -1: whole rows, or of keys and values heads */
    int granularity;   /* enum granularity; inputs only */
    bool before_rope;  /* keys: quantized before the rotary embedding */
    int rotation;      /* enum run_rotation; inputs and keys */
    bool calibrated;   /* inputs: methods see what is quantized as such when they calibrate */
    int codes;         /* enum input_codes */
    int64_t down_bits; /* inputs: of the last linear; 0: bits */
    int64_t o_group;   /* inputs: group_size of o; 0: the others' */
    /* Inputs: of the outputs of q, k and v, before anything else happens to them, with a symmetric
     * range of a token's queries, keys or values; 0: as they are. */
    int64_t qkv_bits;
    /* Inputs: so many channels with the largest scores have a grid of their own, with outlier_bits
     * (NONE: they stay); groups are made of the others, by ascending score. */
    int64_t outliers, outlier_bits;
    int outlier_score; /* enum outlier_score */
    /* None in layers without a score above it (0: all have some), of the last linear twice it if
     * down_bits is set; so many for each whole hidden size of inputs. */
    double outlier_least;
    bool outlier_relative;
    int kind; /* enum cache_kind; keys only */
    /* Keys and values as in a cache (activation/kivi.h): the youngest `residual` tokens or so are
     * not quantized, and nothing is for the first `prefill` queries. residual 0: no such cache. */
    int64_t residual, prefill;
};

/* The grids of a variant. */
struct activation_grids {
    struct activation_grid inputs, keys, values;
};

/* Whether it is not NONE; 0 is as NONE. */
static inline bool activation_quantizes(const struct activation_grid *g)
{
    return g->bits > 0 && g->bits != ACTIVATION_BITS_NONE;
}
/* Whether a token of inputs has one grid, of integers whose zero is a code. */
static inline bool activation_coded(const struct activation_grid *g)
{
    return activation_quantizes(g) && g->codes == INPUT_INTEGER && g->group_size < 0 &&
           g->outliers == 0;
}
/* Whether one of them quantizes. */
bool activation_any(const struct activation_grids *g);

/* A range; begins empty, as ACTIVATION_EMPTY. */
struct activation_range {
    float low, high;
};
#define ACTIVATION_EMPTY ((struct activation_range){INFINITY, -INFINITY})
/* *r = also holds x (n). Local. */
void activation_extend(struct activation_range *r, const float *x, int64_t n);

/* Whether no number of x (n) is NaN or infinite. Local. */
bool activation_finite(const float *x, int64_t n);

/* A scale of 0 (all numbers of an asymmetric group are equal) leaves numbers as they are. */
struct activation_scale {
    float scale, zero, least, most; /* codes are in [least, most] */
    int mantissa; /* > 0: of floats with steps as at `least` below it, magnitudes up to `most` */
};
/* whole: the range is extended to hold 0. */
struct activation_scale activation_scale(const struct activation_grid *g, struct activation_range r,
                                         bool whole);
/* x (n) <- its quantized values. Local. NaN and infinities give NaN. */
void activation_round(const struct activation_scale *s, float *x, int64_t n);
/* The codes of x (n), from 0 on: the quantized value is scale (code - *zero); for a scale of 0, and
 * NaN, any. Grids of integers only. Local. */
void activation_codes(const struct activation_scale *s, const float *x, int64_t n, uint8_t *code,
                      int32_t *zero);
/* The scale of a row x (n) with one range. */
struct activation_scale activation_scale_of(const struct activation_grid *g, const float *x,
                                            int64_t n, bool whole);
/* activation_round for a row x (n) with a range for each `group` columns, the last of fewer; -1:
 * for all, which holds 0. */
void activation_row(const struct activation_grid *g, int64_t group, float *x, int64_t n);

/* What the inputs of a stage's linears take from the calibration text. */
struct activation_inputs {
    float largest;        /* of their magnitudes, for GRANULARITY_STATIC */
    const int32_t *order; // (channels) by ascending score, borrowed; NULL: no outliers
    int64_t outliers;     /* of these, the last */
};
/* order (n) = the channels by ascending score, equal ones by number. Local. ERR_NOMEM. */
MUST_USE enum status activation_order(const double *score, int64_t n, int32_t *order,
                                      struct err *e);
/* activation_row with outliers. scratch (n). */
void activation_row_outliers(const struct activation_grid *g, int64_t group, const int32_t *order,
                             float *x, int64_t n, float *scratch);
