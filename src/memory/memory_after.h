/* memory_after: the memory of the second-order predictions and of curvature, which run one after
 * the other when the blocks' hidden states are freed. Local arithmetic on shapes, used by plans and
 * by running visits. */
#pragma once
#include "curvature/curvature_options.h"
#include "math/products.h"
#include "memory/memory.h"

struct memory_after {
    const struct model_sizes *sizes;
    int64_t threads, ranks;         /* ranks: of the group, which share the vectors */
    enum products products;         /* of the derivatives; not AUTO */
    int64_t node_ranks;             /* those of them on this node, which share a block's weights */
    struct memory_sequences tokens; /* of this rank */
    int64_t variants;               /* predicted by second order */
    int64_t base;                   /* bytes of the process, see memory_base */
    int64_t bound;                  /* run.memory_per_rank; 0: no limit */
    int64_t spare;                  /* bytes besides base for optional buffers */
};

/* How the work fits within the limit. */
struct memory_fit {
    int64_t bytes;    /* peak of the process, with its part of what the ranks of a node share */
    int64_t shared;   /* the other ranks' parts of that, resident here too */
    bool kept;        /* products retain activations (hvp_keep) */
    int64_t together; /* variants that share a pass */
    int64_t saved;    /* of this rank's saved state, at most; of cells: for all variants */
};

/* warm: with a warm start, which needs two more vectors and, to recompute a missing one, a second
 * model. may_keep: activations may be retained. ERR_NOMEM: the limit is too small; *out is set
 * anyway. */
MUST_USE enum status memory_fit_curvature(const struct memory_after *a,
                                          const struct curvature_options *o, bool warm,
                                          bool may_keep, struct memory_fit *out, struct err *e);
/* depth: enum second_order_depth. Up to `together` variants share a pass, as `vectors` GiB of
 * vectors and the limit allow. If activations can be retained besides one variant, they are, and
 * variants are processed one by one, because a shared pass then saves little. ERR_USAGE: the
 * vectors of one variant exceed `vectors`; ERR_NOMEM: the limit is too small for one variant; *out
 * is set anyway. */
MUST_USE enum status memory_fit_second_order(const struct memory_after *a, int depth, bool critical,
                                             int64_t together, double vectors, bool may_keep,
                                             struct memory_fit *out, struct err *e);
