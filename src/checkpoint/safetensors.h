/* safetensors: one .safetensors file. Layout: u64 little-endian header length, JSON header, data.
 * Source: huggingface/safetensors README "Format". Nothing is mapped: tensors are read with pread,
 * so that several threads may read one file and the page cache stays the kernel's business. */
#pragma once
#include "tensor/dtype.h"
#include "util/err.h"
#include <stddef.h>
#include <stdint.h>

enum { TENSOR_DIMS = 8 };

/* Where a tensor lies. */
struct tensor_entry {
    char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[TENSOR_DIMS];
    int64_t n_elements;
    int64_t offset; /* of its first byte in the file */
    int64_t n_bytes;
    int file; /* index of its file, for callers that hold several */
};

struct safetensors {
    char *path;
    int fd;
    int64_t n;
    struct tensor_entry *entries; /* sorted by name */
    char hash[33]; /* of the size, the header and samples of the data, see checkpoint.h */
};

/* Opens and checks the whole header: length against the file, dtypes, shapes against byte ranges,
 * no overlap, no hole. ERR_IO; ERR_FORMAT names file and tensor. */
MUST_USE enum status safetensors_open(const char *path, struct safetensors *out, struct err *e);
void safetensors_close(struct safetensors *s);

/* NULL when there is none. */
const struct tensor_entry *safetensors_find(const struct safetensors *s, const char *name);

/* dst = the elements widened to f32 (floating types) or converted to int32 (integer types).
 * Thread-safe. ERR_IO (short file), ERR_FORMAT (dtype of the other kind, value out of range). */
MUST_USE enum status safetensors_read_f32(const struct safetensors *s, const struct tensor_entry *t,
                                          float *dst, struct err *e);
/* The same for elements [first, first + n) alone. */
MUST_USE enum status safetensors_read_range(const struct safetensors *s,
                                            const struct tensor_entry *t, int64_t first, int64_t n,
                                            float *dst, struct err *e);
MUST_USE enum status safetensors_read_i32(const struct safetensors *s, const struct tensor_entry *t,
                                          int32_t *dst, struct err *e);

/* Writer, for outputs of the single-checkpoint commands: begin with all tensors' shapes (f32), then
 * append data in the same order, then commit (fsync + rename). Nothing stands under the final name
 * before commit; close without commit removes the temporary file. */
struct safetensors_out;
struct tensor_shape {
    const char *name;
    int n_dims;
    int64_t shape[TENSOR_DIMS];
};
MUST_USE enum status safetensors_create(const char *path, const struct tensor_shape *tensors,
                                        int64_t n, struct safetensors_out **out, struct err *e);
MUST_USE enum status safetensors_append(struct safetensors_out *o, const float *data,
                                        int64_t n_elements, struct err *e);
MUST_USE enum status safetensors_commit(struct safetensors_out *o, struct err *e);
void safetensors_out_close(struct safetensors_out *o);
