/* cyclic: index arithmetic of ScaLAPACK's block-cyclic distribution, one dimension at a time.
 * Indices are cut into blocks of equal length (the last may be shorter), and block b belongs to
 * process b mod procs. All arithmetic is in 64 bits. */
#pragma once
#include <stdint.h>

struct cyclic {
    int64_t n, block, procs; /* indices, indices per block, processes of this dimension */
};

/* The process that holds global index i. */
static inline int64_t cyclic_owner(const struct cyclic *c, int64_t i)
{
    return i / c->block % c->procs;
}

/* The local index of global index i on its owner. */
static inline int64_t cyclic_local(const struct cyclic *c, int64_t i)
{
    return i / (c->block * c->procs) * c->block + i % c->block;
}

/* The global index of a local index on process proc. */
static inline int64_t cyclic_global(const struct cyclic *c, int64_t local, int64_t proc)
{
    return (local / c->block * c->procs + proc) * c->block + local % c->block;
}

/* How many global indices below `end` belong to proc, which is also the local index there of the
 * first one that is not below end. */
static inline int64_t cyclic_count(const struct cyclic *c, int64_t end, int64_t proc)
{
    int64_t round = c->block * c->procs, rest = end % round - proc * c->block;
    if (rest < 0) rest = 0;
    if (rest > c->block) rest = c->block;
    return end / round * c->block + rest;
}
