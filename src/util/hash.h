/* hash: 128-bit XXH3 digests as 32 hex digits (what the tool xxh128sum prints), for keys,
 * provenance and checksums. */
#pragma once
#include "util/err.h"

enum { HASH_HEX = 33 }; /* 32 digits and the NUL */

/* Digest of n bytes, of a text without its NUL. */
void hash_bytes(const void *data, size_t n, char hex[HASH_HEX]);
void hash_text(const char *text, char hex[HASH_HEX]);

/* A digest that grows with what is read: hash_new (freed with hash_free; ERR_NOMEM), hash_add, and
 * hash_get for that of all bytes so far. */
struct XXH3_state_s;
MUST_USE enum status hash_new(struct XXH3_state_s **out, struct err *e);
void hash_add(struct XXH3_state_s *h, const void *data, size_t n);
void hash_get(const struct XXH3_state_s *h, char hex[HASH_HEX]);
void hash_free(struct XXH3_state_s *h);
CLEANUP_BY_VALUE(struct XXH3_state_s, hash_free);

/* Digest of a whole file; of the first n bytes of an open one. ERR_IO names the path, ERR_NOMEM. */
MUST_USE enum status hash_file(const char *path, char hex[HASH_HEX], struct err *e);
MUST_USE enum status hash_start(int fd, const char *path, int64_t n, char hex[HASH_HEX],
                                struct err *e);

/* ERR_CHANGED unless found, the digest of what was read of the file, is the expected one. The
 * message names both. since: "it was planned with", "the visit began". What fails so is tried again
 * by every later run. */
MUST_USE enum status hash_expect(const char *file, const char *since, const char *expected,
                                 const char *found, struct err *e);

/* 64-bit digest, for checksums of journal lines. */
uint64_t hash_u64(const void *data, size_t n);
