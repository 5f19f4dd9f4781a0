#include "eval/draws.h"
#include "eval/overlap.h"
#include "util/mem.h"
#include "util/rng.h"

/* A sequence of the pool that may be drawn, and its random place in an order. */
struct ticket {
    uint64_t place;
    int64_t index;
    bool usual; /* of those that are usually calibrated on, which come last */
};

static int by_place(const void *a, const void *b)
{
    const struct ticket *x = a, *y = b;
    if (x->usual != y->usual) return x->usual ? 1 : -1;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int by_index(const void *a, const void *b)
{
    const struct ticket *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The order of number k; order 0 is the one that disjoint draws are cut from. */
static void shuffle(struct ticket *tickets, int64_t n, uint64_t seed, int64_t k)
{
    /* far from the streams that the same seed gives to other uses */
    const uint64_t stream = rng_stream(seed, ((uint64_t)1 << 48) + (uint64_t)k);
    for (int64_t i = 0; i < n; i++) tickets[i].place = rng_bits(stream, (uint64_t)tickets[i].index);
    qsort(tickets, (size_t)n, sizeof *tickets, by_place);
}

static enum status copy(const struct sequences *pool, const struct ticket *tickets, int64_t n,
                        struct sequences *out, struct err *e)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < n; i++)
        tokens += pool->offset[tickets[i].index + 1] - pool->offset[tickets[i].index];
    PASS(sequences_init(out, n, tokens, pool->bytes != NULL, e));
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = tickets[i].index;
        sequences_put(out, i, pool, from, pool->offset[from + 1] - pool->offset[from]);
    }
    return OK;
}

/* *tickets (the caller frees) = the *n sequences of the pool that share nothing with `avoid`. */
static enum status find_tickets(const struct sequences *pool, int64_t size,
                                const struct sequences *avoid, struct ticket **tickets, int64_t *n,
                                struct err *e)
{
    AUTO_FREE int64_t *shared = NULL; /* tokens */
    *n = 0;
    PASS(mem_zero(&shared, pool->n, sizeof *shared, "sequences to draw from", e));
    PASS(mem_zero(tickets, pool->n, sizeof **tickets, "sequences to draw from", e));
    PASS(overlap_cover(pool, 0, pool->n, avoid, shared, e));
    for (int64_t i = 0; i < pool->n; i++)
        if (!shared[i]) (*tickets)[(*n)++] = (struct ticket){.index = i, .usual = i < size};
    return OK;
}

enum status draws_make(const struct sequences *pool, int64_t size, const struct sequences *avoid,
                       uint64_t seed, int64_t n_draws, struct sequences *out, struct err *e)
{
    AUTO_FREE struct ticket *tickets = NULL;
    int64_t n, first = 0, fresh = 0;
    PASS(find_tickets(pool, size, avoid, &tickets, &n, e));
    NEED(n > size, ERR_USAGE,
         "replicates: besides those that are evaluated on, the calibration text has %lld "
         "sequences, and a draw takes %lld: give more text, or lower samples",
         (long long)n, (long long)size);
    for (int64_t i = 0; i < n; i++) fresh += !tickets[i].usual;
    for (int64_t k = 0; k < n_draws; k++, first += size) {
        const bool disjoint = first + size <= fresh;
        for (int64_t i = 0; !disjoint && i < n; i++) tickets[i].usual = false;
        if (k == 0 || !disjoint) shuffle(tickets, n, seed, disjoint ? 0 : k + 1);
        struct ticket *own = tickets + (disjoint ? first : 0);
        qsort(own, (size_t)size, sizeof *own, by_index);
        PASS(copy(pool, own, size, &out[k], e));
    }
    return OK;
}
