/* checkpoint: a folder in Hugging Face layout: config.json and weights in one file or in shards
 * with an index. Looked for in this order: model.safetensors, model.safetensors.index.json,
 * pytorch_model.bin, pytorch_model.bin.index.json (pytorch.h); the first that is there is read. */
#pragma once
#include "checkpoint/safetensors.h"
#include "util/err.h"
#include "util/hash.h"
#include "util/json.h"
#include <stdbool.h>
#include <stdint.h>

struct checkpoint;

/* Opens config.json and every weight file's header; reads no weights. ERR_IO / ERR_FORMAT name
 * folder, file and place: a missing folder, a shard that the index names and the folder lacks, a
 * tensor that the index puts elsewhere, a shard name that leaves the folder. */
MUST_USE enum status checkpoint_open(const char *dir, struct checkpoint **out, struct err *e);
/* Closes it for its last owner; NULL: nothing. */
void checkpoint_close(struct checkpoint *c);
/* One more owner, who closes it too. Not thread-safe. */
void checkpoint_retain(const struct checkpoint *c);

const char *checkpoint_dir(const struct checkpoint *c);
const json_t *checkpoint_config(const struct checkpoint *c);

/* Digest that tells two checkpoints apart without reading them whole: config.json, and of each
 * weight file its size, its header and 16 chunks of 4 KiB spread evenly over the data (of a .bin:
 * its size, the archive's directory with the checksums of all members, and such chunks). */
const char *checkpoint_hash(const struct checkpoint *c);

/* All tensors, in bytewise order of their names. */
int64_t checkpoint_n_tensors(const struct checkpoint *c);
const struct tensor_entry *checkpoint_tensor(const struct checkpoint *c, int64_t i);

/* NULL when there is none of that name. */
const struct tensor_entry *checkpoint_find(const struct checkpoint *c, const char *name);

/* dst (prod(shape)) = the tensor widened to f32. Thread-safe. ERR_SHAPE when the stored shape is
 * another (the text says tensor, file, stored and expected shape), ERR_FORMAT when it is missing or
 * not a floating type, ERR_IO. */
MUST_USE enum status checkpoint_read_f32(const struct checkpoint *c, const char *name, int n_dims,
                                         const int64_t *shape, float *dst, struct err *e);

/* dst (n) = elements [first, first + n) of one of its own tensors. Thread-safe. Errors as above. */
MUST_USE enum status checkpoint_read_range(const struct checkpoint *c, const struct tensor_entry *t,
                                           int64_t first, int64_t n, float *dst, struct err *e);
