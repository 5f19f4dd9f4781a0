#include "eval/grown.h"
#include "eval/dataset.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/mem.h"
#include <errno.h>

enum { CHUNK = 1 << 20 };

struct scan {
    const json_t *known;
    char (*hashes)[HASH_HEX]; // (files) of the whole files, and of the start of the last one
    int64_t files, bytes;     /* of the last one */
    struct XXH3_state_s *digest;
    json_t *found;
};

static void look(const struct scan *s)
{
    char hash[HASH_HEX];
    hash_get(s->digest, s->hashes[s->files - 1]);
    dataset_join_hashes(s->hashes, s->files, hash);
    if (json_object_get(s->known, hash) && !json_object_get(s->found, hash))
        json_object_set_new(s->found, hash,
                            json_pack("[I, I]", (json_int_t)s->files, (json_int_t)s->bytes));
}

static void take(struct scan *s, const char *data, size_t n)
{
    hash_add(s->digest, data, n);
    s->bytes += (int64_t)n;
}

static void scan_lines(struct scan *s, const char *data, size_t n)
{
    const char *end;
    for (; n > 0 && (end = memchr(data, '\n', n)); n -= (size_t)(end + 1 - data), data = end + 1) {
        take(s, data, (size_t)(end - data));
        look(s);
        take(s, end, 1);
        look(s);
    }
    take(s, data, n);
}

static enum status scan_file(struct scan *s, const char *path, char *chunk, struct err *e)
{
    CLEANUP(hash_free_at) struct XXH3_state_s *digest = NULL;
    CLEANUP(fsx_close) int fd = -1;
    ssize_t n = 0;
    PASS(hash_new(&digest, e));
    PASS(fsx_open(path, &fd, NULL, e));
    s->digest = digest;
    for (s->bytes = 0; (n = fsx_pread(fd, chunk, CHUNK, s->bytes)) > 0;)
        scan_lines(s, chunk, (size_t)n);
    NEED(n == 0, ERR_IO, "%s: %s", path, strerror(errno));
    look(s);
    return OK;
}

enum status grown_starts(const struct data_options *d, const json_t *known, json_t **out,
                         struct err *e)
{
    CLEANUP(texts_free) struct texts f = {0};
    json_auto_t *found = json_object();
    AUTO_FREE char *chunk = NULL;
    AUTO_FREE char(*hashes)[HASH_HEX] = NULL;
    PASS(dataset_files(d, &f, e));
    PASS(mem_alloc(&chunk, CHUNK, 1, "a text", e));
    PASS(mem_zero(&hashes, f.n, sizeof *hashes, "digests", e));
    struct scan s = {.known = known, .hashes = hashes, .found = found};
    for (s.files = 1; s.files <= f.n; s.files++) PASS(scan_file(&s, f.text[s.files - 1], chunk, e));
    *out = json_incref(found);
    return json_whole(e);
}
