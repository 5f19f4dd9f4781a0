/* outlier: what makes numbers that a model computes hard to quantize: few of them, in few
 * channels, are much larger than the others (docs/math/outliers.md has definitions and sources).
 * Sums are of one sequence each and added in their order, everything else is counts and maxima, so
 * that numbers depend on neither threads nor ranks. Nothing here communicates. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

/* The widths at which rounding errors are measured: 4 and 8 bits. */
enum { OUTLIER_WIDTHS = 2 };
extern const int64_t outlier_widths[OUTLIER_WIDTHS];

/* Magnitudes are counted by the upper 15 bits of |x| in f32: 128 bins in each octave. */
enum { OUTLIER_BINS = 1 << 15 };

/* Sums over a sequence, all in f64 so that ranks may add them as an array. */
struct outlier_sums {
    double numbers, broken;       /* how many there are, and how many of them are NaN or infinite */
    double power[4];              /* of x, x^2, x^3 and x^4 */
    double error[OUTLIER_WIDTHS]; /* of (Q(x) - x)^2 */
    double largest, position, channel; /* the first of the largest |x|, its token and channel */
};
enum { OUTLIER_SUMS = sizeof(struct outlier_sums) / sizeof(double) };

/* How tokens are quantized for the error. */
enum outlier_grid {
    OUTLIER_PLAIN,  /* they are not */
    OUTLIER_TOKEN,  /* symmetric, a range for each token */
    OUTLIER_KEYS,   /* asymmetric, a range for each token and head that holds 0 */
    OUTLIER_VALUES, /* the same, which need not hold 0 */
};

/* Tokens of whole sequences: of token t, `heads` runs of so many columns at x + t * pitch + h *
 * stride. Channels are counted over all heads. */
struct outlier_rows {
    const float *x;
    int64_t pitch, heads, stride, columns;
    enum outlier_grid grid;
};
static inline int64_t outlier_channels(const struct outlier_rows *r)
{
    return r->heads * r->columns;
}

/* Adds the sequences [0, n), whose tokens begin at offset[i] (n + 1) and of which the first
 * valid[i] count (valid NULL, or 0: all), to sums[i]; to channel (channels) = the largest |x| of
 * each so far; and to bin (OUTLIER_BINS). Tokens with a number that is not finite count in `broken`
 * alone. Parallel. ERR_NOMEM. */
MUST_USE enum status outliers_add(const struct outlier_rows *r, int64_t n, const int64_t *offset,
                                  const int64_t *valid, struct outlier_sums *sums, float *channel,
                                  int64_t *bin, struct err *e);
/* Bytes that outliers_add takes for so many tokens and channels. */
int64_t outliers_bytes(int64_t tokens, int64_t channels, int64_t threads);

struct outliers {
    double kurtosis; /* E (x - Ex)^4 / (E (x - Ex)^2)^2; of a normal distribution 3 */
    double largest;  /* of |x|, */
    int64_t channel; /* its channel, and its token's place in its sequence */
    int64_t position;
    double largest_over_median; /* of |x| */
    double channels; /* share of channels whose largest |x| make 99 % of the sum of all */
    double error[OUTLIER_WIDTHS]; /* |Q(x) - x| / |x| over all tokens */
    int64_t broken;
};
/* Of the sums of n sequences in their order, and channel (channels) and bin of all of them; channel
 * is sorted. NaN where there is no number. */
struct outliers outliers_of(const struct outlier_sums *sums, int64_t n, float *channel,
                            int64_t channels, const int64_t *bin);
