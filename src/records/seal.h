/* seal: what stands behind the HDF5 bytes of a cube, where HDF5 does not look: where in its journal
 * it was made, and a digest of all bytes before. The library may crash on damaged files (1.10.8
 * writes outside its buffers), so the digest is checked before the library opens them. A program
 * that changes a cube in place removes or invalidates the seal. */
#pragma once
#include "records/results.h"

/* Bytes of a seal. */
size_t seal_size(void);
/* Puts the seal behind the n bytes of data, which has room for it. */
void seal_put(char *data, size_t n, const struct journal_mark *mark);

/* Takes the seal off the *n bytes. *sealed: there is one; an earlier version's has no mark, which
 * is all zero then. ERR_FORMAT: the digest is not that of the bytes. */
MUST_USE enum status seal_take(const char *path, const char *data, size_t *n,
                               struct journal_mark *mark, bool *sealed, struct err *e);
/* Whether n bytes begin as an HDF5 file does, by its first SEAL_HDF5. */
enum { SEAL_HDF5 = 8 };
bool seal_is_hdf5(const char *data, size_t n);
/* Whether the file at path is a cube, whole or damaged: HDF5 with this program's root attributes.
 * ERR_IO, ERR_NOMEM. */
MUST_USE enum status seal_is_cube(const char *path, bool *is, struct err *e);
