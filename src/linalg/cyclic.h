/* cyclic: index arithmetic of the block-cyclic layout, one dimension at a time. Global index i lies
 * in block i / block, blocks go round the processes of the dimension from 0 on. All in 64 bits:
 * nothing here knows how large a matrix fits anywhere. */
#pragma once
#include <stdint.h>

struct cyclic {
    int64_t n, block, procs;
};

static inline int64_t cyclic_owner(const struct cyclic *c, int64_t i)
{
    return i / c->block % c->procs;
}

/* Where i stands among the indices of its owner. */
static inline int64_t cyclic_local(const struct cyclic *c, int64_t i)
{
    return i / (c->block * c->procs) * c->block + i % c->block;
}

static inline int64_t cyclic_global(const struct cyclic *c, int64_t local, int64_t proc)
{
    return (local / c->block * c->procs + proc) * c->block + local % c->block;
}

/* Indices below `end` that belong to proc: also the local index of its first one at or behind end.
 */
static inline int64_t cyclic_count(const struct cyclic *c, int64_t end, int64_t proc)
{
    int64_t round = c->block * c->procs, rest = end % round - proc * c->block;
    if (rest < 0) rest = 0;
    if (rest > c->block) rest = c->block;
    return end / round * c->block + rest;
}
