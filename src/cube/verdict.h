/* verdict: whether the numbers that iterations approach have converged, in words. */
#pragma once
#include "records/rows.h"
#include <stdio.h>

/* One line: "3 of 5 sharpnesses not converged (residual up to 4.8 % of the value: more products or
 * a looser tolerance)"; nothing for a kind without such numbers, or where none is measured. */
void verdict_print(const struct rows *r, const char *indent, FILE *out);
