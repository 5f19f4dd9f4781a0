/* second_order: predicts the change of the loss that quantization causes to second order in the
 * change of the weights, and compares it with the true change, on the curvature tokens. During the
 * blocks each variant's quantized weights are written to a file on scratch; after them the
 * differences are computed. The numbers and any failures complete the cells' records, after each
 * pass those of its variants; a failure here does not fail the cell. */
#pragma once
#include "engine/part.h"

struct second_order_setup {
    int depth;               /* enum second_order_depth */
    bool critical;           /* also the critical sharpness of each variant and of the checkpoint */
    struct weights previous; /* of the previous checkpoint; all zero: none */
    struct data_options data; /* tokens on which losses are computed */
    char *identity;           /* digest of the fields above, stored with results */
    int64_t together;         /* maximum number of variants that share a pass */
    double memory;            /* GiB of vectors */
};
