/* tensor_file: what the formats of weight files share: an open file of any of them (struct
 * safetensors) with its tensors in order of names, reads of exact length, digests. */
#pragma once
#include "checkpoint/digest.h"
#include "checkpoint/gguf_types.h"
#include "math/dtype.h"
#include "util/err.h"
#include "util/json.h"
#include <sys/stat.h>

enum { TENSOR_DIMS = 8 };

/* Where a tensor is stored. */
struct tensor_entry {
    char *name;
    enum dtype dtype;             /* of what is read */
    const struct gguf_type *gguf; /* how it is stored, and read as F32; NULL: as `dtype` */
    int64_t interleaved;          /* rows of a head whose halves are stored row by row (gguf.h) */
    int n_dims;
    int64_t shape[TENSOR_DIMS];
    int64_t n_elements;
    int64_t offset; /* of its first byte in the file */
    int64_t n_bytes;
    int file;      /* number of its file, for callers that have several */
    int64_t slice; /* number of its first slice (digest.h), for those that take digests */
};

struct safetensors {
    char *path;
    int fd;
    int64_t n;
    struct tensor_entry *entries; /* sorted by name */
    char hash[33];           /* of the size, the header and samples of the data, see checkpoint.h */
    struct stat opened;      /* the file when it was opened */
    struct digests *digests; /* of what is read, borrowed; NULL: none are taken */
    json_t *config; /* of a file that says what model it is: a config.json (gguf.h); else NULL */
};

/* Opens the file, without reading it: sets path, fd and `opened` of *s, which is closed with
 * safetensors_close whatever is returned. ERR_IO, ERR_NOMEM. */
MUST_USE enum status tensor_file_open(const char *path, struct safetensors *s, int64_t *size,
                                      struct err *e);

/* Closes the file and frees its entries. */
void safetensors_close(struct safetensors *s);

/* The tensor of that name (borrowed); NULL when there is none. */
const struct tensor_entry *safetensors_find(const struct safetensors *s, const char *name);

/* dst (n) = elements [first, first + n) of a floating type, widened to f32; dst (t->n_elements) =
 * all elements of an integer type, converted to int32; elements of any type as they are stored
 * (of a GGUF: in f32).
 * Whole slices are read, and their digests taken. Thread-safe. ERR_IO (a short file); ERR_FORMAT (a
 * type of the other kind, a value out of range); ERR_CHANGED: other bytes than the first time;
 * ERR_NOMEM. */
MUST_USE enum status safetensors_read_range(const struct safetensors *s,
                                            const struct tensor_entry *t, int64_t first, int64_t n,
                                            float *dst, struct err *e);
MUST_USE enum status safetensors_read_i32(const struct safetensors *s, const struct tensor_entry *t,
                                          int32_t *dst, struct err *e);
MUST_USE enum status safetensors_read_stored(const struct safetensors *s,
                                             const struct tensor_entry *t, int64_t first, int64_t n,
                                             void *dst, struct err *e);
/* Reads slice i of the tensor for its digest alone. ERR_IO, ERR_CHANGED, ERR_NOMEM. */
MUST_USE enum status safetensors_read_slice(const struct safetensors *s,
                                            const struct tensor_entry *t, int64_t i, struct err *e);
/* Bytes that n elements of the tensor take in its file; of a GGUF whole blocks. */
static inline int64_t tensor_bytes(const struct tensor_entry *t, int64_t n)
{
    return t->gguf ? gguf_bytes(t->gguf, n) : n * (int64_t)dtype_size(t->dtype);
}
/* Number of slices of the tensor. */
static inline int64_t tensor_slices(const struct tensor_entry *t)
{
    return (t->n_elements + DIGEST_SLICE - 1) / DIGEST_SLICE;
}

/* dst = n bytes at offset, with as many reads as that takes. path and `what` stand in messages.
 * Thread-safe. ERR_IO: a failed read, or a file that ends too early. */
MUST_USE enum status tensor_file_read(int fd, const char *path, const char *what, int64_t offset,
                                      void *dst, int64_t n, struct err *e);

/* s->hash = digest of the file's size, its header (n bytes) and samples of its data, bytes
 * [begin, size). ERR_IO, ERR_NOMEM. */
MUST_USE enum status tensor_file_hash(struct safetensors *s, const void *header, int64_t n,
                                      int64_t begin, int64_t size, struct err *e);

/* Sets n_elements and n_bytes from shape and dtype; false: a negative dimension, or overflow. */
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
