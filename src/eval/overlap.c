/* Spans are compared by 64-bit rolling hashes (Karp and Rabin 1987, modulo 2^64), mixed before they
 * enter the table: two different ones among 10^7 are taken for equal with a chance of 10^-5. */
#include "eval/overlap.h"
#include "util/mem.h"
#include "util/num.h"

/* Hashes in open addressing; 0 stands for an empty place. */
struct set {
    uint64_t mask, *hash; // (mask + 1)
};

static const uint64_t base = 0x9E3779B97F4A7C15u;

/* The finaliser of splitmix64; never 0. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x ? x : 1;
}

/* The place of the hash, or the empty one where it belongs. */
static uint64_t set_place(const struct set *s, uint64_t hash)
{
    uint64_t i = hash & s->mask;
    while (s->hash[i] && s->hash[i] != hash) i = (i + 1) & s->mask;
    return i;
}

static int64_t length_of(const struct sequences *s, int64_t i)
{
    return s->valid ? s->valid[i] : s->offset[i + 1] - s->offset[i];
}

static uint64_t extend(uint64_t hash, int32_t id)
{
    return hash * base + (uint64_t)(uint32_t)id + 1;
}

/* Of a whole sequence shorter than a span: its length keeps it apart from the hashes of spans. */
static uint64_t hash_whole(const int32_t *ids, int64_t n)
{
    uint64_t h = (uint64_t)n;
    for (int64_t t = 0; t < n; t++) h = extend(h, ids[t]);
    return mix(h);
}

/* hashes[t] = of the span that ends with token t, for t from OVERLAP_SPAN - 1 on. */
static void hash_spans(const int32_t *ids, int64_t n, uint64_t *hashes)
{
    uint64_t out = 1, h = 0; /* base^OVERLAP_SPAN: the weight of the token that leaves a span */
    for (int i = 0; i < OVERLAP_SPAN; i++) out *= base;
    for (int64_t t = 0; t < n; t++) {
        h = extend(h, ids[t]);
        if (t >= OVERLAP_SPAN) h -= out * ((uint64_t)(uint32_t)ids[t - OVERLAP_SPAN] + 1);
        hashes[t] = mix(h);
    }
}

static void set_fill(struct set *set, const struct sequences *in, uint64_t *hashes)
{
    for (int64_t i = 0; i < in->n; i++) {
        const int32_t *ids = in->ids + in->offset[i];
        const int64_t n = length_of(in, i);
        if (n < OVERLAP_SPAN) {
            const uint64_t h = hash_whole(ids, n);
            set->hash[set_place(set, h)] = h;
            continue;
        }
        hash_spans(ids, n, hashes);
        for (int64_t t = OVERLAP_SPAN - 1; t < n; t++)
            set->hash[set_place(set, hashes[t])] = hashes[t];
    }
}

/* How many of the tokens lie in known spans. */
static int64_t count_covered(const struct set *set, const int32_t *ids, int64_t n, uint64_t *hashes)
{
    int64_t covered = 0, until = 0; /* those before `until` are counted */
    if (n < OVERLAP_SPAN) return set->hash[set_place(set, hash_whole(ids, n))] ? n : 0;
    hash_spans(ids, n, hashes);
    for (int64_t t = OVERLAP_SPAN - 1; t < n; t++) {
        if (!set->hash[set_place(set, hashes[t])]) continue;
        covered += t + 1 - max64(until, t + 1 - OVERLAP_SPAN);
        until = t + 1;
    }
    return covered;
}

enum status overlap_cover(const struct sequences *s, int64_t first, int64_t end,
                          const struct sequences *in, int64_t *covered, struct err *e)
{
    struct set set = {.mask = 15};
    AUTO_FREE uint64_t *table = NULL, *hashes = NULL;
    while (set.mask + 1 < 2 * (uint64_t)in->offset[in->n]) set.mask = 2 * set.mask + 1;
    PASS(mem_zero(&table, (int64_t)set.mask + 1, sizeof *table, "hashes of token spans", e));
    set.hash = table;
    PASS(mem_alloc(&hashes, max64(sequences_longest(s), sequences_longest(in)), sizeof *hashes,
                   "hashes of a sequence", e));
    set_fill(&set, in, hashes);
    for (int64_t i = first; i < end; i++)
        covered[i - first] = count_covered(&set, s->ids + s->offset[i], length_of(s, i), hashes);
    return OK;
}

enum status overlap_count(const struct sequences *s, int64_t first, int64_t end,
                          const struct sequences *in, int64_t *found, struct err *e)
{
    AUTO_FREE int64_t *covered = NULL;
    *found = 0;
    PASS(mem_zero(&covered, end - first, sizeof *covered, "overlaps", e));
    PASS(overlap_cover(s, first, end, in, covered, e));
    for (int64_t i = first; i < end; i++) *found += 2 * covered[i - first] >= length_of(s, i);
    return OK;
}
