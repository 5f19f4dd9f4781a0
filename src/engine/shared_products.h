/* shared_products: weights of one linear prepared for products (math/products.h), once for the
 * ranks of a node, each of which prepares a part of the pieces, in memory that they share.
 * Collective on the group. */
#pragma once
#include "engine/group.h"
#include "model/model.h"

/* Zero-initialise. Serves one linear after another, of any size. */
struct shared_products {
    const struct integer_grids *grids; /* borrowed: codes are prepared; NULL: w's own products */
    struct product_weights *w;         /* NULL: none */
    struct group_memory memory;
    int64_t floats; /* of the memory */
};

/* p->w = weights (rows, cols), in memory that all ranks of the node see, prepared for the products
 * of m; NULL if not model_prepares. No rank uses what was there before. Ranks whose
 * libraries lay weights out in different ways have a copy each. Parallel. ERR_NOMEM;
 * ERR_NUMERIC: a weight is not on p->grids. */
MUST_USE enum status shared_products_make(const struct visit_group *g, const struct model *m,
                                          const float *weights, int64_t rows, int64_t cols,
                                          struct shared_products *p, struct err *e);
void shared_products_close(struct shared_products *p);
