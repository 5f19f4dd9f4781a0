/* memory_after: what a visit takes once its blocks are done: the second-order account of its cells,
 * then curvature. Neither is alive with the other, nor with the states of the blocks. Arithmetic on
 * shapes, beside what the process holds (memory_base). */
#pragma once
#include "config/curvature_options.h"
#include "memory/memory.h"

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

/* How the second order of cells is taken: so many share a pass (0: not even one has room). */
struct memory_cells {
    int64_t together;
    bool kept;     /* the products keep activations */
    int64_t bytes; /* at the peak, of one cell when none has room */
};
/* depth: enum second_order_depth. As many cells as may share a pass, up to `together`, in `vectors`
 * GiB of vectors and `room` bytes of all (0: no bound). may_keep: with activations kept if there is
 * room for them beside one cell, since cells have little to share then. */
struct memory_cells memory_second_order(const struct memory_after *a, int depth, bool critical,
                                        int64_t together, double vectors, int64_t room,
                                        bool may_keep);
