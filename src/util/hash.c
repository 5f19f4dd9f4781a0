#include "util/hash.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <unistd.h>
#include <xxhash.h>

static void to_hex(XXH128_hash_t h, char hex[HASH_HEX])
{
    XXH128_canonical_t c;
    static const char digits[] = "0123456789abcdef";
    XXH128_canonicalFromHash(&c, h);
    for (int i = 0; i < 16; i++) { /* a million cells have three million digests */
        hex[2 * i] = digits[c.digest[i] >> 4];
        hex[2 * i + 1] = digits[c.digest[i] & 15];
    }
    hex[32] = '\0';
}

void hash_bytes(const void *data, size_t n, char hex[HASH_HEX])
{
    to_hex(XXH3_128bits(data, n), hex);
}

void hash_text(const char *text, char hex[HASH_HEX])
{
    hash_bytes(text, strlen(text), hex);
}

uint64_t hash_u64(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

enum status hash_new(struct XXH3_state_s **out, struct err *e)
{
    NEED(*out = XXH3_createState(), ERR_NOMEM, "cannot allocate a hash state");
    XXH3_128bits_reset(*out);
    return OK;
}

void hash_add(struct XXH3_state_s *h, const void *data, size_t n)
{
    XXH3_128bits_update(h, data, n);
}

void hash_get(const struct XXH3_state_s *h, char hex[HASH_HEX])
{
    to_hex(XXH3_128bits_digest(h), hex);
}

void hash_free(struct XXH3_state_s *h)
{
    XXH3_freeState(h);
}

enum status hash_start(int fd, const char *path, int64_t n, char hex[HASH_HEX], struct err *e)
{
    enum { ROOM = 1 << 20 };
    CLEANUP(hash_free_at) struct XXH3_state_s *state = NULL;
    AUTO_FREE char *buffer = malloc(ROOM);
    ssize_t got = 1;
    PASS(hash_new(&state, e));
    NEED(buffer, ERR_NOMEM, "cannot allocate %d bytes", ROOM);
    for (int64_t at = 0; at < n && got > 0; at += got) {
        got = fsx_pread(fd, buffer, (size_t)min64(n - at, ROOM), at);
        NEED(got >= 0, ERR_IO, "%s: %s", path, strerror(errno));
        hash_add(state, buffer, (size_t)got);
    }
    hash_get(state, hex);
    return OK;
}

enum status hash_file(const char *path, char hex[HASH_HEX], struct err *e)
{
    int fd;
    PASS(fsx_open(path, &fd, NULL, e));
    const enum status st = hash_start(fd, path, INT64_MAX, hex, e);
    close(fd);
    return st;
}

enum status hash_expect(const char *file, const char *since, const char *expected,
                        const char *found, struct err *e)
{
    NEED(strcmp(expected, found) == 0, ERR_CHANGED,
         "%s: changed since %s (digest %.8s then, %.8s now); `qtraj run` again plans anew", file,
         since, expected, found);
    return OK;
}
