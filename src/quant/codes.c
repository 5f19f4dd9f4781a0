#include "quant/codes.h"

/* A tie goes up where the upper neighbour is even: there the threshold is the next float below. */
const struct codes codes_e2m1 = {
    .n = 8,
    .sign = true,
    .value = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6},
    .threshold = {0.25f, 0x1.7ffffep-1f, 1.25f, 0x1.bffffep+0f, 2.5f, 0x1.bffffep+1f, 5},
};
