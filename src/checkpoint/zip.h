/* zip: where the members of a zip archive lie, for archives whose members are stored as they are
 * (PyTorch's). Source: PKWARE APPNOTE 6.3, sections 4.3 and 4.5.3 (zip64). */
#pragma once
#include "util/err.h"
#include <stdint.h>

struct zip_member {
    char *name;
    int method, flags; /* 0: stored; bit 0: encrypted */
    int64_t size;      /* of its bytes in the archive */
    int64_t header;    /* offset of its local header */
};

struct zip {
    const char *path; /* borrowed */
    int fd;           /* borrowed */
    int64_t size;     /* of the file */
    int64_t n;
    struct zip_member *members; /* sorted by name */
    char *directory; /* the central directory: names, sizes and checksums of all members */
    int64_t n_directory;
};

/* Reads the central directory. ERR_IO; ERR_FORMAT: not a zip archive, a damaged one, one that
 * spans several files, a name twice. */
MUST_USE enum status zip_open(const char *path, int fd, int64_t size, struct zip *out,
                              struct err *e);
void zip_free(struct zip *z);

/* NULL when there is none. */
const struct zip_member *zip_find(const struct zip *z, const char *name);

/* *offset = where the member's bytes start in the file. ERR_FORMAT when it is compressed or
 * encrypted (the text names it), or when its local header is damaged. */
MUST_USE enum status zip_locate(const struct zip *z, const struct zip_member *m, int64_t *offset,
                                struct err *e);
