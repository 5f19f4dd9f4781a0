/* codes: number formats of few bits that are no uniform grid, as tables of values and of the
 * thresholds between them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { CODES_MAX = 16 };

/* A number x gets the value number i where i thresholds are smaller than x. */
struct codes {
    int n;
    bool sign;              /* the table is of magnitudes; a bit of its own holds the sign */
    float value[CODES_MAX]; // (n) rising
    float threshold[CODES_MAX - 1]; // (n - 1) rising
};

/* NF4, the normal-float format of QLoRA (Dettmers et al. 2023, appendix E), and FP4 (magnitudes 0,
 * 0.0625, 2, 3, 4, 6, 8 and 12, divided by 12), as bitsandbytes 0.50 has them (values:
 * functional.get_4bit_type; thresholds: csrc/kernels.cu, dQuantizeNF4 and dQuantizeFP4). */
extern const struct codes codes_nf4, codes_fp4;

/* The nearest value to x, by the table's thresholds. */
static inline float codes_value(const struct codes *c, float x)
{
    const float size = c->sign && x < 0 ? -x : x;
    int i = 0;
    for (int k = 0; k < CODES_MAX - 1; k++) i += k < c->n - 1 && size > c->threshold[k];
    return c->sign && x < 0 ? -c->value[i] : c->value[i];
}

enum { CODES_DYNAMIC = 256 };
/* The values of bitsandbytes' signed 8-bit dynamic map, rising (functional.create_dynamic_map). */
void codes_dynamic(float map[CODES_DYNAMIC]);
/* What the code of x, -1 to 1, means. As in the package's CPU code, x is moved to the nearest of
 * 65,536 evenly spaced numbers before (csrc/cpu_ops.cpp: build_quantize_lut, norm_to_lut_index). */
float codes_dynamic_value(const float map[CODES_DYNAMIC], float x);
