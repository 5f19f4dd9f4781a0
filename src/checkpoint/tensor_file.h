/* tensor_file: what the formats of weight files share: reads of exact length, digests, entries in
 * order of names. struct safetensors is an open file of any of these formats. */
#pragma once
#include "checkpoint/safetensors.h"
#include <stdbool.h>

/* dst = n bytes at offset, with as many reads as that takes. path and `what` stand in messages.
 * Thread-safe. ERR_IO: a failed read, or a file that ends too early. */
MUST_USE enum status tensor_file_read(int fd, const char *path, const char *what, int64_t offset,
                                      void *dst, int64_t n, struct err *e);

/* s->hash = digest of the file's size, its header (n bytes) and samples of its data, bytes
 * [begin, size). ERR_IO, ERR_NOMEM. */
MUST_USE enum status tensor_file_hash(struct safetensors *s, const void *header, int64_t n,
                                      int64_t begin, int64_t size, struct err *e);

/* Sets n_elements and n_bytes from shape and dtype; false when a dimension is negative or a product
 * overflows. */
bool tensor_entry_count(struct tensor_entry *t);

/* For qsort and bsearch: bytewise order of structs whose first member is their name (char *). The
 * key of a search is the address of such a pointer. */
int name_compare(const void *a, const void *b);

/* Whether a tensor has that shape. */
bool tensor_has_shape(const struct tensor_entry *t, int n_dims, const int64_t *shape);

/* The shape as "[2, 3]". */
struct shape_text {
    char text[192];
};
struct shape_text tensor_shape_text(const int64_t *shape, int n_dims);
