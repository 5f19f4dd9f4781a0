/* zip: finds the members of a zip archive, for archives with uncompressed members (PyTorch's).
 * Source: PKWARE APPNOTE 6.3, sections 4.3 and 4.5.3 (zip64). */
#pragma once
#include "util/err.h"

struct zip_member {
    char *name;
    int method, flags; /* 0: stored; bit 0: encrypted */
    int64_t size;      /* bytes in the archive */
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

/* Reads the central directory of the file fd of `size` bytes. *out is freed with zip_free. ERR_IO;
 * ERR_FORMAT: not a zip archive, damaged, in several files, a name twice; ERR_NOMEM. */
MUST_USE enum status zip_open(const char *path, int fd, int64_t size, struct zip *out,
                              struct err *e);
void zip_free(struct zip *z);

/* The member of that name (borrowed); NULL when there is none. */
const struct zip_member *zip_find(const struct zip *z, const char *name);

/* *offset = where the member's bytes start in the file. ERR_FORMAT, by name, when it is compressed
 * or encrypted or its local header is damaged; ERR_IO. */
MUST_USE enum status zip_locate(const struct zip *z, const struct zip_member *m, int64_t *offset,
                                struct err *e);
