/* second_order_internal: the state of the second-order account. second_order.c keeps the variants'
 * quantized weights on scratch, second_order_measure.c measures with them. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "curvature/critical.h"
#include "curvature/hvp_predict.h"
#include "measure/second_order.h"

/* What becomes of one variant. */
struct second_order_result {
    bool done;
    char *failure;                /* why not */
    struct critical critical;     /* passes 0: not asked for */
    struct prediction prediction; /* n_tensors 0: not asked for */
    double true_difference;       /* loss of the quantized model minus that of the model */
    int64_t n_tensors;
    char **names; // (n_tensors) of prediction.parts
    double seconds;
};
void second_order_result_free(struct second_order_result *r);

/* A variant's quantized weights: one file for each node of the group, written by its first rank. */
struct weights_spill {
    char *path;                  /* NULL once it is open for reading and its name is gone */
    struct safetensors_out *out; /* on the rank that writes it */
    int64_t linears;             /* written */
    struct checkpoint *quantized;
};

struct second_order {
    const struct part_context *context;
    const struct second_order_task *task;
    /* The ranks that measure: the visit's group, or, where its size must not show in any bit, its
     * rank 0 alone. NULL: not this rank. */
    const struct visit_group *group;
    int64_t n, n_linears;
    struct weights_spill *spills;        // (n)
    struct second_order_result *results; // (variants of the visit)
    struct second_order_result of_checkpoint;
    int64_t planned; /* bytes of the process at the peak */
};

/* The quantized checkpoint of a variant whose weights are all there. Collective on the group. */
MUST_USE enum status second_order_quantized(struct second_order *s, struct weights_spill *spill,
                                            struct err *e);
/* Measures every variant whose weights are whole: the same results on all ranks of the group.
 * ERR_STOPPED; ERR_NOMEM while noting what went wrong. Collective on the group. */
MUST_USE enum status second_order_measure(struct second_order *s, struct err *e);
/* Critical sharpness of the visit's checkpoint along the way from the one before: n_tensors 0.
 * ERR_NOMEM while noting what went wrong. Collective on the group. */
MUST_USE enum status second_order_of_checkpoint(struct second_order *s, struct err *e);
