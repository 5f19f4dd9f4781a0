#include "memory/memory_after.h"
#include "config/sweep.h"
#include "curvature/measure.h"
#include "util/num.h"

static struct hvp_bytes calls_of(const struct memory_after *a, enum hvp_subset subset, bool kept)
{
    struct hvp_bytes calls;
    const struct hvp_extent x = {.tokens = a->tokens.tokens,
                                 .sequences = a->tokens.n,
                                 .longest = a->tokens.longest,
                                 .threads = a->threads,
                                 .shared = a->ranks > 1,
                                 .kept = kept,
                                 .subset = subset};
    hvp_bytes_of(&a->sizes->spec, &x, &calls);
    return calls;
}

static int64_t outside(const struct memory_after *a)
{
    return a->sizes->outside * (int64_t)sizeof(float);
}

/* Numbers of a vector on the rank that has most. */
static int64_t numbers_of(const struct memory_after *a, enum hvp_subset subset)
{
    return space_cut(hvp_numbers(&a->sizes->spec, subset), 0, (int)max64(a->ranks, 1)).most;
}

static int64_t vector_of(const struct memory_after *a, enum hvp_subset subset)
{
    return numbers_of(a, subset) * (int64_t)sizeof(float);
}

int64_t memory_curvature(const struct memory_after *a, const struct curvature_options *o, bool warm,
                         bool kept)
{
    enum hvp_subset subset = (enum hvp_subset)o->subset;
    const struct hvp_bytes calls = calls_of(a, subset, kept);
    int64_t more = warm ? 2 * vector_of(a, subset) + outside(a) : 0;
    return outside(a) + more + curvature_bytes(o, numbers_of(a, subset), &calls);
}

bool memory_keeps(const struct memory_after *a, const struct curvature_options *o, bool warm,
                  int64_t room)
{
    return curvature_products_most(o) > 0 && memory_curvature(a, o, warm, true) <= room;
}

/* Vectors of k cells: weights and gradient; of each its change, the product and, for the diagonal,
 * one tensor's part. */
static int64_t vectors_of(const struct memory_after *a, int depth, int64_t k)
{
    int64_t each = depth == SECOND_ORDER_LAYERS ? 3 : 2;
    return (2 + k * each) * vector_of(a, HVP_QUANTIZED);
}

static int64_t cells_bytes(const struct memory_after *a, int depth, bool critical, int64_t k,
                           bool kept)
{
    const struct hvp_bytes calls = calls_of(a, HVP_QUANTIZED, kept);
    int64_t predicted = 0, changes = 0;
    if (depth != SECOND_ORDER_NONE) {
        predicted = vectors_of(a, depth, k) + calls.product + (k - 1) * calls.further;
        changes = (2 + k) * vector_of(a, HVP_QUANTIZED);
    }
    /* A quantized model beside the visit's, and one on the way between the two. */
    int64_t measured = changes + (critical ? 2 : 1) * outside(a) + calls.loss;
    return outside(a) + max64(predicted, measured);
}

static struct memory_cells cells_fit(const struct memory_after *a, int depth, bool critical,
                                     int64_t together, double vectors, int64_t room, bool kept)
{
    struct memory_cells c = {.kept = kept};
    for (int64_t k = together; k > 0 && c.together == 0; k--) {
        c.bytes = cells_bytes(a, depth, critical, k, kept);
        if ((depth == SECOND_ORDER_NONE || (double)vectors_of(a, depth, k) <= vectors * 0x1p30) &&
            (room <= 0 || c.bytes <= room))
            c.together = k;
    }
    return c;
}

struct memory_cells memory_second_order(const struct memory_after *a, int depth, bool critical,
                                        int64_t together, double vectors, int64_t room,
                                        bool may_keep)
{
    struct memory_cells c = {0};
    if (depth == SECOND_ORDER_NONE) together = 1;
    if (may_keep && depth != SECOND_ORDER_NONE && room > 0)
        c = cells_fit(a, depth, critical, together, vectors, room, true);
    return c.together > 0 ? c : cells_fit(a, depth, critical, together, vectors, room, false);
}
