#include "checkpoint/digest.h"
#include "util/mem.h"
#include <pthread.h>
#include <xxhash.h>

struct digests {
    pthread_mutex_t lock;
    int64_t n;
    struct digest *at; // (n)
};

enum status digests_new(int64_t n, struct digests **out, struct err *e)
{
    AUTO_FREE struct digests *d = NULL;
    PASS(mem_zero(&d, 1, sizeof *d, "digests of weights", e));
    PASS(mem_zero(&d->at, n, sizeof *d->at, "digests of weights", e));
    d->n = n;
    pthread_mutex_init(&d->lock, NULL);
    *out = TAKE(d);
    return OK;
}

void digests_free(struct digests *d)
{
    if (!d) return;
    pthread_mutex_destroy(&d->lock);
    free(d->at);
    free(d);
}

int64_t digests_n(const struct digests *d)
{
    return d->n;
}

bool digests_take(struct digests *d, int64_t i, const void *bytes, size_t n)
{
    const XXH128_hash_t h = XXH3_128bits(bytes, n);
    return digests_add(d, i, (struct digest){{h.low64, h.high64}});
}

bool digests_add(struct digests *d, int64_t i, struct digest of)
{
    bool same = true;
    if (!digest_known(of)) return true;
    pthread_mutex_lock(&d->lock);
    struct digest *at = &d->at[i];
    if (digest_known(*at))
        same = at->half[0] == of.half[0] && at->half[1] == of.half[1];
    else
        *at = of;
    pthread_mutex_unlock(&d->lock);
    return same;
}

struct digest digests_get(struct digests *d, int64_t i)
{
    pthread_mutex_lock(&d->lock);
    const struct digest of = d->at[i];
    pthread_mutex_unlock(&d->lock);
    return of;
}

void digests_hash(const struct digests *d, char hash[HASH_HEX])
{
    hash_bytes(d->at, (size_t)d->n * sizeof *d->at, hash);
}
