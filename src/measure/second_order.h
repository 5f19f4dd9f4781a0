/* second_order: the account of where a cell's error comes from. The quantized weights of each
 * variant go to a file on scratch while the visit makes them; afterwards the change of the loss on
 * the curvature's tokens is predicted to second order and measured. Its numbers are fields of the
 * cells' records; what goes wrong stands there and makes no cell fail. */
#pragma once
#include "group/part.h"

struct second_order_task {
    int depth;                /* enum second_order_depth */
    bool critical;            /* critical sharpness too, also of the checkpoint itself */
    struct weights previous;  /* of the checkpoint before; all zero: none */
    struct data_options data; /* the tokens */
    char *identity;           /* digest of the above, to tell results of other settings */
    int64_t together;         /* variants that share a pass, as far as memory allows */
    double memory;            /* GiB of vectors */
};

extern const struct part second_order_part;
