/* pickle: the state dict of a PyTorch checkpoint, out of its pickle. A strict interpreter of the
 * opcodes that a state dict needs. Names of Python functions are matched against a list of those
 * whose meaning is known here; any other is refused by its name, and nothing is ever run.
 * Source: Python's pickletools (opcodes), torch/_utils.py (the rebuild functions). */
#pragma once
#include "checkpoint/safetensors.h"
#include "util/err.h"
#include <stddef.h>
#include <stdint.h>

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

/* *out = the tensors of the dict in data (n bytes), in its order. `name` stands in messages.
 * ERR_FORMAT: an opcode or global that no state dict has, a damaged pickle, an entry that is not a
 * tensor (named). */
MUST_USE enum status pickle_read(const char *name, const void *data, size_t n,
                                 struct pickle_tensor **out, int64_t *n_out, struct err *e);
void pickle_free(struct pickle_tensor *tensors, int64_t n);
