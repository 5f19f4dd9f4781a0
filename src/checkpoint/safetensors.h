/* safetensors: one .safetensors file. Layout: u64 little-endian header length, JSON header, data.
 * Source: huggingface/safetensors README "Format". Tensors are read with pread, not mapped: several
 * threads may read one file, and the kernel manages the page cache. */
#pragma once
#include "checkpoint/tensor_file.h"
#include "records/saved.h"

/* Opens the file and checks its whole header: length against the file, dtypes, shapes against byte
 * ranges, no overlap, no gap. *out is closed with safetensors_close. ERR_IO; ERR_FORMAT names file
 * and tensor; ERR_NOMEM. */
MUST_USE enum status safetensors_open(const char *path, struct safetensors *out, struct err *e);

/* Writer: create with types and shapes of all tensors, append their data in the same order, then
 * commit (fsync and rename). In the file, tensors of larger elements come first, so that each is
 * aligned to its elements, as mapped files must be. Until the commit the file has a temporary name;
 * close without commit removes it. ERR_FULL, ERR_IO: writing; ERR_SHAPE: a shape that cannot be
 * stored, data that do not fit the shapes; ERR_USAGE: a name twice; ERR_FORMAT: a name that is not
 * UTF-8; ERR_NOMEM. */
struct safetensors_out;
struct tensor_shape {
    const char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[TENSOR_DIMS];
};
MUST_USE enum status safetensors_create(const char *path, const struct tensor_shape *tensors,
                                        int64_t n, struct safetensors_out **out, struct err *e);
/* The next n_elements elements, in the tensor's type, which must not reach beyond the tensor in
 * progress. */
MUST_USE enum status safetensors_append(struct safetensors_out *o, const void *data,
                                        int64_t n_elements, struct err *e);
/* The name (borrowed) of the tensor that lacks elements; NULL: none does. */
const char *safetensors_next(struct safetensors_out *o);
/* Moves what has been appended so far into a saved state, or out of one into a file to which
 * nothing has been appended; tensors of different element sizes: ERR_SHAPE. */
void safetensors_move(struct safetensors_out *o, struct saved_move *m);
MUST_USE enum status safetensors_commit(struct safetensors_out *o, struct err *e);
void safetensors_out_close(struct safetensors_out *o);
CLEANUP_BY_VALUE(struct safetensors_out, safetensors_out_close);
