/* int8_linear: a linear layer whose weights and inputs are both 8-bit integers, for methods that
 * quantize activations. A row of weights has a scale, and so has every token of the inputs. Sums of
 * products of codes are exact, so that outputs do not depend on threads or on the order of sums. */
#pragma once
#include "quant/quant.h"

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

/* A function of quant_method.make_linear. weights (rows, cols): what the codes are made of.
 * divisor (cols), which is copied: inputs are divided by it; NULL: by 1. The codes of outlier
 * channels are worth unit * INT8_MOST times their scale, and multiply the inputs in f32. Freed by
 * int8_linear_free. Local. ERR_NOMEM. */
MUST_USE enum status int8_linear_make(const struct quant_job *job, const struct int8_format *format,
                                      const float *divisor, int64_t longest, void **out,
                                      struct err *e);
/* quant_method.apply and free_linear. */
bool int8_linear_apply(const void *linear, const float *x, int64_t tokens, float *y, int64_t ld);
void int8_linear_free(void *linear);
/* Bytes of the linears of a stage. */
int64_t int8_linear_bytes(const struct quant_extent *x, bool outliers);
