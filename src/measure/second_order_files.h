/* second_order_files: the variants' quantized weights on scratch, as second_order.c writes and
 * second_order_measure.c reads them. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "group/group.h"
#include "measure/second_order.h"

struct spill {
    char *path;                  /* NULL once it is open for reading and its name is gone */
    struct safetensors_out *out; /* on the rank that writes it */
    int64_t linears;             /* written */
    struct checkpoint *quantized;
};

struct second_order {
    const struct visit *visit;
    const struct checkpoint *base;
    const struct visit_hooks *outer;
    struct visit_hooks own;
    const struct visit_group *group;
    bool may_stop; /* it is the visit's: the hooks may be asked */
    int64_t n, n_linears;
    struct spill *spills; // (n)
};

/* The quantized checkpoint of a variant whose weights are all there. Collective on the group. */
MUST_USE enum status second_order_quantized(struct second_order *s, struct spill *spill,
                                            struct err *e);
