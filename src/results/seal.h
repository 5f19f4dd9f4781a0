/* seal: a digest behind the end of a cube's HDF5 bytes, where HDF5 does not look. The library is
 * not made for damaged files (1.10.8 writes outside its buffers on some), so ours are checked
 * before it sees them. A program that changes the cube in place drops or breaks the seal. */
#pragma once
#include "util/err.h"
#include "util/hash.h"

enum { SEAL_SIZE = 14 + HASH_HEX }; /* "\nqtraj xxh128 ", 32 digits, a newline */

/* out = the seal of n bytes: a line with their digest. */
void seal_make(const char *data, size_t n, char out[SEAL_SIZE]);

/* Takes the seal off the end of *n bytes, if there is one. ERR_FORMAT when it does not fit. */
MUST_USE enum status seal_check(const char *path, const char *data, size_t *n, struct err *e);
