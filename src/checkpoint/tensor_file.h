/* tensor_file: what the formats of weight files share: reads of exact length, digests, entries in
 * order of names. struct safetensors is an open file of any of these formats. */
#pragma once
#include "checkpoint/safetensors.h"
#include <stdbool.h>

/* dst = n bytes at offset, with as many reads as that takes. path and `what` stand in messages.
 * Thread-safe. ERR_IO: a failed read, or a file that ends too early. */
MUST_USE enum status tensor_file_read(int fd, const char *path, const char *what, int64_t offset,
                                      void *dst, int64_t n, struct err *e);

/* hash = digest of the file's size, its header (n bytes) and samples of its data, bytes
 * [begin, end). ERR_IO, ERR_NOMEM. */
MUST_USE enum status tensor_file_hash(int fd, const char *path, const void *header, int64_t n,
                                      int64_t begin, int64_t end, int64_t size, char hash[33],
                                      struct err *e);

/* Sets n_elements and n_bytes from shape and dtype; false when a dimension is negative or a product
 * overflows. */
bool tensor_entry_count(struct tensor_entry *t);

/* For qsort and bsearch: bytewise order of structs whose first member is their name (char *). The
 * key of a search is the address of such a pointer. */
int name_compare(const void *a, const void *b);

/* text = the shape as "[2, 3]", cut to size - 1 characters. */
void tensor_shape_text(const int64_t *shape, int n_dims, char *text, size_t size);
