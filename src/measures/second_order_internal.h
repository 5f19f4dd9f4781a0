/* second_order_internal: predicts the change of the loss that quantization causes to second order
 * in the change of the weights, and compares it with the true change, on the curvature tokens.
 * During the blocks each variant's quantized weights are written to a file on scratch
 * (second_order.c); after them the differences are computed (second_order_measure.c). The numbers
 * and any failures complete the cells' records, after each pass those of its variants; a failure
 * here does not fail the cell. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "curvature/critical.h"
#include "curvature/hvp_predict.h"
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

/* Result for one variant. */
struct second_order_result {
    bool done;
    char *failure;                /* why it is not done */
    enum status code;             /* of the failure */
    struct critical critical;     /* passes 0: not requested */
    struct prediction prediction; /* n_tensors 0: not requested */
    double true_difference;       /* loss of the quantized model minus that of the model */
    int64_t n_tensors;
    char **names; // (n_tensors) of prediction.parts
    double seconds;
};
void second_order_result_free(struct second_order_result *r);

/* A variant's quantized weights: one file per node, written by the node's first rank. */
struct weights_spill {
    char *path;                  /* NULL once it is opened for reading and unlinked */
    struct safetensors_out *out; /* on the rank that writes the file */
    int64_t linears;             /* linears written so far */
    struct checkpoint *quantized;
};

struct second_order {
    const struct part_context *context;
    struct part_context *writable; /* the same, which has the saved state of the running pass */
    const struct second_order_setup *setup;
    /* Ranks that measure: the visit's group or, with run.reproducible, only its rank 0; NULL on
     * ranks that do not take part. */
    const struct visit_group *group;
    int64_t n, n_linears;
    struct weights_spill *spills;        // (n)
    struct second_order_result *results; // (variants of the visit)
    struct second_order_result of_checkpoint;
    int64_t planned; /* predicted peak of the process, bytes */
};

/* Opens spill->quantized, a variant's quantized checkpoint. Collective on the group. */
MUST_USE enum status second_order_quantized(struct second_order *s, struct weights_spill *spill,
                                            struct err *e);
/* Measures every variant whose weights are complete; the results, failures included, are the same
 * on all ranks. ERR_STOPPED; ERR_NOMEM: a failure could not be stored. Collective. */
MUST_USE enum status second_order_measure(struct second_order *s, struct err *e);
/* Sets of_checkpoint: critical sharpness of the visit's checkpoint along the direction from the
 * previous one (n_tensors 0). failure: why that could not be opened, else code OK. ERR_NOMEM: a
 * failure could not be stored. Collective. */
MUST_USE enum status second_order_of_checkpoint(struct second_order *s,
                                                const struct checkpoint *previous,
                                                struct err *failure, struct err *e);
