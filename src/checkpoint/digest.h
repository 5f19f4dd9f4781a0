/* digest: digests of the weights of a stored checkpoint, slice by slice, taken as they are read.
 *
 * A slice is DIGEST_SLICE elements of a tensor (the last one of a tensor may be shorter), so that a
 * digest does not depend on who reads which part of a tensor. Slices are numbered through the files
 * of a checkpoint. Whatever is read again must have the digest that it had the first time. */
#pragma once
#include "util/err.h"
#include "util/hash.h"

enum { DIGEST_SLICE = 1 << 16 };

/* Of a slice; zero: it has not been read. */
struct digest {
    uint64_t half[2];
};
static inline bool digest_known(struct digest d)
{
    return (d.half[0] | d.half[1]) != 0;
}

struct digests;
/* *out = no digests of n slices; free with digests_free. ERR_NOMEM. */
MUST_USE enum status digests_new(int64_t n, struct digests **out, struct err *e);
void digests_free(struct digests *d);
int64_t digests_n(const struct digests *d);

/* Takes the digest of slice i from its bytes (n). False: it had another one before. Thread-safe. */
bool digests_take(struct digests *d, int64_t i, const void *bytes, size_t n);
/* The same with the digest that somebody else took; nothing if it is not known. Thread-safe. */
bool digests_add(struct digests *d, int64_t i, struct digest of);
struct digest digests_get(struct digests *d, int64_t i);
/* hash = the digest of all. */
void digests_hash(const struct digests *d, char hash[HASH_HEX]);
