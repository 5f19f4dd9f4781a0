#include "memory/memory_after.h"
#include "curvature/hvp_predict.h"
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
                                 .subset = subset,
                                 .products = a->products};
    hvp_bytes_of(&a->sizes->spec, &x, &calls);
    return calls;
}

static int64_t outside(const struct memory_after *a)
{
    return a->sizes->outside * (int64_t)sizeof(float);
}

/* This rank's part of the block that the ranks of a node share, and the others' parts. A single
 * rank reads blocks within its calls. */
static int64_t block_here(const struct memory_after *a)
{
    const int64_t bytes = a->sizes->block * (int64_t)sizeof(float);
    return a->ranks > 1 ? bytes / max64(a->node_ranks, 1) : 0;
}

static int64_t block_elsewhere(const struct memory_after *a)
{
    return a->ranks > 1 ? a->sizes->block * (int64_t)sizeof(float) - block_here(a) : 0;
}

/* Numbers of a vector on the rank with the largest part. */
static int64_t numbers_of(const struct memory_after *a, enum hvp_subset subset)
{
    return space_cut(hvp_numbers(&a->sizes->spec, subset), 0, (int)max64(a->ranks, 1)).n_max;
}

static int64_t vector_of(const struct memory_after *a, enum hvp_subset subset)
{
    return numbers_of(a, subset) * (int64_t)sizeof(float);
}

static int64_t curvature_peak(const struct memory_after *a, const struct curvature_options *o,
                              bool warm, bool kept)
{
    enum hvp_subset subset = (enum hvp_subset)o->subset;
    const struct hvp_bytes calls = calls_of(a, subset, kept);
    int64_t more = warm ? 2 * vector_of(a, subset) + outside(a) + block_here(a) : 0;
    return outside(a) + block_here(a) + more + curvature_bytes(o, numbers_of(a, subset), &calls);
}

/* The number of stored vectors changes last bits, so it is a setting and not reduced to fit. */
enum status memory_fit_curvature(const struct memory_after *a, const struct curvature_options *o,
                                 bool warm, bool may_keep, struct memory_fit *out, struct err *e)
{
    out->together = o->together;
    out->saved = curvature_saved_bytes(o, numbers_of(a, (enum hvp_subset)o->subset));
    out->kept =
        may_keep && curvature_products_max(o) > 0 && curvature_peak(a, o, warm, true) <= a->spare;
    out->bytes = a->base + curvature_peak(a, o, warm, out->kept);
    out->shared = (warm ? 2 : 1) * block_elsewhere(a);
    NEED(a->bound <= 0 || out->bytes <= memory_usable(a->bound), ERR_NOMEM,
         "run.memory_per_rank of %.0f MiB is too little for curvature, which takes %.0f MiB with "
         "its vectors of %lld numbers and the hidden states of %lld tokens: lower "
         "curvature.memory, curvature.together or curvature.sequences, give a rank more, or a "
         "visit more ranks (run.ranks_per_group)",
         (double)a->bound / 0x1p20, (double)memory_bound(out->bytes) / 0x1p20,
         (long long)numbers_of(a, (enum hvp_subset)o->subset), (long long)a->tokens.tokens);
    return OK;
}

/* Vectors for k cells: weights and gradient; for each cell its change, the product and, for the
 * diagonal, one tensor's part. */
static int64_t vectors_of(const struct memory_after *a, int depth, int64_t k)
{
    int64_t each = depth == SECOND_ORDER_LAYERS ? 3 : 2;
    return (2 + k * each) * vector_of(a, HVP_QUANTIZED);
}

static bool vectors_fit(const struct memory_after *a, int depth, int64_t k, double vectors)
{
    return depth == SECOND_ORDER_NONE || (double)vectors_of(a, depth, k) <= vectors * 0x1p30;
}

/* Returns the maximum number of variants that fit in `available` bytes (0: no limit), 0 if not even
 * one does; *bytes: what they need, or one. */
static int64_t cells_together(const struct memory_after *a, int depth, bool critical,
                              int64_t together, double vectors, int64_t available, bool kept,
                              int64_t *bytes)
{
    for (int64_t k = together; k > 0; k--) {
        const struct hvp_bytes calls = calls_of(a, HVP_QUANTIZED, kept);
        int64_t predicted = 0, changes = 0;
        if (depth != SECOND_ORDER_NONE) {
            predicted = vectors_of(a, depth, k) + calls.product + (k - 1) * calls.further;
            changes = (2 + k) * vector_of(a, HVP_QUANTIZED);
        }
        /* A quantized model besides the visit's, and for critical sharpness a combination of both.
         */
        int64_t measured = changes + (critical ? 2 : 1) * outside(a) + block_here(a) + calls.loss;
        *bytes = outside(a) + block_here(a) + max64(predicted, measured);
        if (vectors_fit(a, depth, k, vectors) && (available <= 0 || *bytes <= available)) return k;
    }
    return 0;
}

enum status memory_fit_second_order(const struct memory_after *a, int depth, bool critical,
                                    int64_t together, double vectors, bool may_keep,
                                    struct memory_fit *out, struct err *e)
{
    bool predicts = depth != SECOND_ORDER_NONE;
    int64_t available = a->bound > 0 ? max64(memory_usable(a->bound) - a->base, 1) : 0, bytes = 0;
    together = predicts ? min64(a->variants, together) : 1;
    *out = (struct memory_fit){.saved = a->variants * vector_of(a, HVP_QUANTIZED),
                               .shared = 2 * block_elsewhere(a)};
    if (may_keep && predicts && available > 0)
        out->together =
            cells_together(a, depth, critical, together, vectors, max64(a->spare, 1), true, &bytes);
    out->kept = out->together > 0;
    if (!out->kept)
        out->together =
            cells_together(a, depth, critical, together, vectors, available, false, &bytes);
    out->bytes = a->base + bytes;
    NEED(out->together > 0 || vectors_fit(a, depth, 1, vectors), ERR_USAGE,
         "vectors of %lld numbers for one variant do not fit curvature.memory, %.3g GiB",
         (long long)numbers_of(a, HVP_QUANTIZED), vectors);
    NEED(out->together > 0, ERR_NOMEM,
         "run.memory_per_rank of %.0f MiB is too little for the second order of one variant: it "
         "takes %.0f MiB; give a rank more memory",
         (double)a->bound / 0x1p20, (double)memory_bound(out->bytes) / 0x1p20);
    return OK;
}
