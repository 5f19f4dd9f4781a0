/* int8_linear: a linear layer whose weights and inputs are both 8-bit integers, for methods that
 * quantize activations. A row of weights has a scale, and so has every token of the inputs. Sums of
 * products of codes are exact, so that outputs do not depend on threads or on the order of sums. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { INT8_MOST = 127 };

/* How a method rounds. */
struct int8_format {
    /* x (n) <- its codes, integers of at most INT8_MOST; their scale as the method stores it. most:
     * the largest magnitude of what shares the scale. */
    float (*round)(float *x, int64_t n, float most);
    float unit;      /* a product of codes is worth unit times the two scales */
    float threshold; /* an input of at least this magnitude puts its channel among the outliers of
                        the sequence; INFINITY: there are none */
    bool half;       /* numbers are cast to f16 first (but inputs of outliers) */
    bool tensor;     /* all tokens of a sequence share a scale */
};

/* *out = the linear of w (rows, cols) for sequences of at most `longest` tokens. divisor (cols),
 * which is copied: inputs are divided by it and weights multiplied; NULL: by 1. The codes of
 * outlier channels are worth unit * INT8_MOST times their scale, and multiply the inputs in f32.
 * Freed by int8_linear_free. Local. ERR_NOMEM. */
MUST_USE enum status int8_linear_make(const float *w, int64_t rows, int64_t cols,
                                      const struct int8_format *format, const float *divisor,
                                      int64_t longest, void **out, struct err *e);
/* y (tokens, rows) with row pitch ld = the outputs for one whole sequence x (tokens, cols).
 * Parallel. False: a number cannot be rounded. */
bool int8_linear_apply(const void *linear, const float *x, int64_t tokens, float *y, int64_t ld);
void int8_linear_free(void *linear);
/* Linears that share their input: its channels, rows of the widest and of all, tokens of the
 * longest sequence. */
struct int8_extent {
    int64_t cols, rows, all_rows, longest, threads;
};
/* Their bytes. */
int64_t int8_linear_bytes(const struct int8_extent *x, bool outliers);
