#include "results/seal.h"
#include <string.h>

static const char mark[] = "\nqtraj xxh128 ";
enum { MARK = sizeof mark - 1 };

void seal_make(const char *data, size_t n, char out[SEAL_SIZE])
{
    char hex[HASH_HEX];
    hash_bytes(data, n, hex);
    memcpy(out, mark, MARK);
    memcpy(out + MARK, hex, HASH_HEX - 1);
    out[SEAL_SIZE - 1] = '\n';
}

enum status seal_check(const char *path, const char *data, size_t *n, struct err *e)
{
    enum status st = OK;
    char expected[SEAL_SIZE];
    if (*n < SEAL_SIZE || memcmp(data + *n - SEAL_SIZE, mark, MARK) != 0) goto done;
    seal_make(data, *n - SEAL_SIZE, expected);
    ENSURE(memcmp(data + *n - SEAL_SIZE, expected, SEAL_SIZE) == 0, ERR_FORMAT,
           "%s: damaged, or changed after it was written: its checksum does not fit; qtraj rebuild "
           "makes it again from the journal",
           path);
    *n -= SEAL_SIZE;
done:
    return st;
}
