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

/* E2M1, the 4-bit float of the OCP Microscaling Formats v1.0 (section 5.3.3): ±{0, 0.5, 1, 1.5, 2,
 * 3, 4, 6}, ties to the even mantissa, larger numbers to 6. */
extern const struct codes codes_e2m1;

/* The nearest value to x, by the table's thresholds. */
static inline float codes_value(const struct codes *c, float x)
{
    const float size = c->sign && x < 0 ? -x : x;
    int i = 0;
    for (int k = 0; k < CODES_MAX - 1; k++) i += k < c->n - 1 && size > c->threshold[k];
    return c->sign && x < 0 ? -c->value[i] : c->value[i];
}
