/* memory_after: what a visit takes once its blocks are done: the second order of its cells, then
 * curvature. Neither is alive with the other, nor with the states of the blocks. Arithmetic on
 * shapes, the same for plans and for a rank that is about to begin. */
#pragma once
#include "config/curvature_options.h"
#include "memory/memory.h"

struct memory_after {
    const struct model_sizes *sizes;
    int64_t threads, ranks;         /* of the group: vectors are cut over its ranks */
    struct memory_sequences tokens; /* this rank's */
    int64_t variants;               /* that are predicted */
    int64_t base;                   /* bytes of the process, see memory_base */
    int64_t bound;                  /* run.memory_per_rank; 0: none */
    int64_t spare;                  /* bytes beside base for what can be done without */
};

/* How it is done within the bound. */
struct memory_fit {
    int64_t bytes;    /* of the process at the peak */
    bool kept;        /* products keep activations (hvp_keep) */
    int64_t together; /* variants that share a pass */
};

/* warm: a warm start keeps two vectors, and makes up a missing one beside a second model. may_keep:
 * activations may be kept. ERR_NOMEM: the bound is too little; out is set all the same. */
MUST_USE enum status memory_fit_curvature(const struct memory_after *a,
                                          const struct curvature_options *o, bool warm,
                                          bool may_keep, struct memory_fit *out, struct err *e);
/* depth: enum second_order_depth. As many variants as may share a pass, up to `together`, in
 * `vectors` GiB of vectors and within the bound; with activations kept if there is room for them
 * beside one variant, since variants have little to share then. ERR_USAGE: one variant's vectors
 * do not fit `vectors`; ERR_NOMEM: the bound is too little for one; out is set all the same. */
MUST_USE enum status memory_fit_second_order(const struct memory_after *a, int depth, bool critical,
                                             int64_t together, double vectors, bool may_keep,
                                             struct memory_fit *out, struct err *e);
