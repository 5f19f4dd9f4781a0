/* pickle: reads the state dict of a PyTorch checkpoint from its pickle. A strict interpreter of the
 * opcodes that a state dict needs: names of Python functions are looked up in a list of known ones,
 * any other is refused by name, and nothing is ever executed.
 * Source: Python's pickletools (opcodes), torch/_utils.py (the rebuild functions). */
#pragma once
#include "checkpoint/tensor_file.h"
#include "util/err.h"

/* A tensor as a view into a storage. */
struct pickle_tensor {
    char *name;
    char *storage; /* key of the archive's member data/KEY */
    enum dtype dtype;
    int64_t storage_count; /* elements in the storage */
    int64_t offset;        /* elements before the first */
    int n_dims;
    int64_t shape[TENSOR_DIMS], stride[TENSOR_DIMS]; /* strides in elements */
};

/* Zero-initialise. */
struct pickle_tensors {
    int64_t n;
    struct pickle_tensor *tensors; // (n)
};
/* *out (free with pickle_free, also after a failure) = the tensors of the dict in data (n bytes),
 * in its order. `name` stands in messages. ERR_FORMAT: an opcode or global that no state dict has,
 * a damaged pickle, an entry that is not a tensor (named); ERR_NOMEM. */
MUST_USE enum status pickle_read(const char *name, const void *data, size_t n,
                                 struct pickle_tensors *out, struct err *e);
void pickle_free(struct pickle_tensors *all);
