/* hash: 128-bit XXH3 digests as 32 hex digits (what the tool xxh128sum prints), for keys,
 * provenance and checksums. */
#pragma once
#include "util/err.h"

enum { HASH_HEX = 33 }; /* 32 digits and the NUL */

/* Digest of n bytes, of a text without its NUL. */
void hash_bytes(const void *data, size_t n, char hex[HASH_HEX]);
void hash_text(const char *text, char hex[HASH_HEX]);

/* Digest of a whole file; of the first n bytes of an open one. ERR_IO names the path, ERR_NOMEM. */
MUST_USE enum status hash_file(const char *path, char hex[HASH_HEX], struct err *e);
MUST_USE enum status hash_start(int fd, const char *path, int64_t n, char hex[HASH_HEX],
                                struct err *e);

/* 64-bit digest, for checksums of journal lines. */
uint64_t hash_u64(const void *data, size_t n);
