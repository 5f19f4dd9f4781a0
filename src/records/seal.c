#include "records/seal.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/mem.h"
#include <errno.h>

/* "\nqtraj journal BYTES LINE CHECKSUM" and "\nqtraj xxh128 DIGEST\n". */
static const char digest_head[] = "\nqtraj xxh128 ", mark_head[] = "\nqtraj journal ";
static const char mark_form[] = "%s%020lld %020lld %.16s";
enum {
    DIGEST_HEAD = sizeof digest_head - 1,
    DIGEST = DIGEST_HEAD + HASH_HEX,
    MARK_HEAD = sizeof mark_head - 1,
    MARK = MARK_HEAD + 20 + 1 + 20 + 1 + 16
};

size_t seal_size(void)
{
    return MARK + DIGEST;
}

static void put_digest(const char hex[HASH_HEX], char out[DIGEST])
{
    memcpy(out, digest_head, DIGEST_HEAD);
    memcpy(out + DIGEST_HEAD, hex, HASH_HEX - 1);
    out[DIGEST - 1] = '\n';
}

void seal_put(char *data, size_t n, const struct journal_mark *mark)
{
    char text[MARK + 1], hex[HASH_HEX];
    const char *checksum = mark->bytes ? mark->checksum : "0000000000000000";
    snprintf(text, sizeof text, mark_form, mark_head, (long long)mark->bytes, (long long)mark->line,
             checksum);
    memcpy(data + n, text, MARK);
    hash_bytes(data, n + MARK, hex);
    put_digest(hex, data + n + MARK);
}

/* False: there is none. */
static bool read_mark(const char at[MARK], struct journal_mark *mark)
{
    long long bytes, line;
    char text[MARK + 1] = "";
    if (memcmp(at, mark_head, MARK_HEAD) != 0) return false;
    memcpy(text, at, MARK);
    if (sscanf(text + MARK_HEAD, "%20lld %20lld %16s", &bytes, &line, mark->checksum) == 3)
        mark->bytes = bytes, mark->line = line;
    return true;
}

enum status seal_take(const char *path, const char *data, size_t *n, struct journal_mark *mark,
                      bool *sealed, struct err *e)
{
    char hex[HASH_HEX], expected[DIGEST];
    const char *tail = data + *n - DIGEST;
    *mark = (struct journal_mark){0};
    *sealed = *n >= DIGEST && memcmp(tail, digest_head, DIGEST_HEAD) == 0;
    if (!*sealed) return OK;
    hash_bytes(data, *n - DIGEST, hex);
    put_digest(hex, expected);
    NEED(memcmp(tail, expected, DIGEST) == 0, ERR_FORMAT,
         "%s: damaged, or changed after it was written: its checksum does not fit; qtraj rebuild "
         "makes it again from the journal",
         path);
    *n -= DIGEST;
    if (*n >= MARK && read_mark(data + *n - MARK, mark)) *n -= MARK;
    return OK;
}

enum status cube_mark(const char *path, struct journal_mark *out, struct err *e)
{
    AUTO_FREE char *data = NULL;
    size_t n;
    bool sealed;
    PASS(fsx_read(path, 0, &data, &n, e));
    if (seal_take(path, data, &n, out, &sealed, NULL) != OK) *out = (struct journal_mark){0};
    return OK;
}

bool seal_is_hdf5(const char *data, size_t n)
{
    static const char signature[] = "\x89HDF\r\n\x1a\n";
    return n >= SEAL_HDF5 && memcmp(data, signature, SEAL_HDF5) == 0;
}

enum status seal_is_cube(const char *path, bool *is, struct err *e)
{
    static const char schema[] = "schema_version", source[] = "qtraj ";
    enum { HEAD = 1 << 20 }; /* the root's attributes are written first */
    AUTO_FREE char *data = NULL;
    CLEANUP(fsx_close) int fd = -1;
    PASS(fsx_open(path, &fd, NULL, e));
    PASS(mem_alloc(&data, HEAD, 1, path, e));
    const ssize_t got = fsx_pread(fd, data, HEAD, 0);
    NEED(got >= 0, ERR_IO, "%s: %s", path, strerror(errno));
    const size_t n = (size_t)got;
    *is = seal_is_hdf5(data, n) && memmem(data, n, schema, sizeof schema - 1) &&
          memmem(data, n, source, sizeof source - 1);
    return OK;
}
