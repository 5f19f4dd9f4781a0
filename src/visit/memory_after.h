/* memory_after: what a visit takes once its blocks are done: the second-order account of its cells,
 * then curvature. Neither is alive with the other, nor with the states of the blocks. Arithmetic on
 * shapes, beside what the process holds (memory_base). */
#pragma once
#include "config/curvature.h"
#include "visit/memory.h"

struct memory_after {
    const struct model_sizes *sizes;
    int64_t threads, ranks;         /* of the group: vectors are cut over its ranks */
    struct memory_sequences tokens; /* this rank's */
};

/* warm: a warm start keeps two vectors, and makes up a missing one beside a second model. kept: the
 * products keep activations (hvp_keep). */
int64_t memory_curvature(const struct memory_after *a, const struct curvature_options *o, bool warm,
                         bool kept);
/* Whether products are asked for, and `room` bytes are enough for them to keep activations. */
bool memory_keeps(const struct memory_after *a, const struct curvature_options *o, bool warm,
                  int64_t room);

/* depth: enum second_order_depth; together: cells that share a pass. */
int64_t memory_second_order(const struct memory_after *a, int depth, bool critical,
                            int64_t together);
/* As many cells as may share a pass, up to `together`, in `vectors` GiB of vectors and `room` bytes
 * of all (0: no bound); 0: not even one. */
int64_t memory_together(const struct memory_after *a, int depth, bool critical, int64_t together,
                        double vectors, int64_t room);
