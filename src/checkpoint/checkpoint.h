/* checkpoint: a folder in Hugging Face layout: config.json and weights in one file or in shards
 * with an index, in the first format of weight_format.h that the folder has; or a GGUF file, which
 * is seen as the folder that it was converted from (gguf.h). Linears that GPTQModel, AutoAWQ or
 * compressed-tensors have packed (packed.h) are seen as weights in f32. */
#pragma once
#include "checkpoint/safetensors.h"
#include "util/err.h"
#include "util/hash.h"
#include "util/json.h"

struct checkpoint;

/* One of the checkpoints that a derived one (derived.h) is made of. */
struct checkpoint_part {
    double coefficient;
    const struct checkpoint *checkpoint;
};

/* Reads config.json and the header of every weight file, but no weights. *out is closed with
 * checkpoint_close. ERR_IO: a missing folder, file or shard; ERR_FORMAT: a damaged file, a tensor
 * in another shard than the index says, a shard outside the folder; both name folder, file and
 * place. ERR_USAGE: a GGUF file of a model that is not supported; ERR_NOMEM. */
MUST_USE enum status checkpoint_open(const char *dir, struct checkpoint **out, struct err *e);
/* *config (a new reference) = config.json of the folder, or what a GGUF file says in its place;
 * *name (the caller frees): where it is, for messages; NULL: not wanted. ERR_IO, ERR_FORMAT,
 * ERR_USAGE, ERR_NOMEM. */
MUST_USE enum status checkpoint_read_config(const char *dir, json_t **config, char **name,
                                            struct err *e);
/* Closes it for its last owner; NULL: nothing. */
void checkpoint_close(struct checkpoint *c);
CLEANUP_BY_VALUE(struct checkpoint, checkpoint_close);
/* One more owner, who closes it too. Not thread-safe. */
void checkpoint_retain(const struct checkpoint *c);

/* The folder, and its config.json; both borrowed. */
const char *checkpoint_dir(const struct checkpoint *c);
const json_t *checkpoint_config(const struct checkpoint *c);

/* Digest that tells two checkpoints apart without reading all of their weights
 * (docs/decisions/0002-cell-keys.md): of config.json and, for each weight file, of its size, its
 * header (of a .bin: the archive's directory, which has the checksums of all members) and 16 chunks
 * of 4 KiB evenly spaced over the data. Borrowed. */
const char *checkpoint_hash(const struct checkpoint *c);

/* Has digests of c, a folder whose config.json has that digest, name it by another one: that of a
 * config.json that says the same (docs/decisions/0002-cell-keys.md). Of any other c nothing.
 * ERR_NOMEM. */
MUST_USE enum status checkpoint_known_as(struct checkpoint *c, const char *config,
                                         const char *known, struct err *e);

/* Number of tensors; tensor i (borrowed), in bytewise order of names. */
int64_t checkpoint_n_tensors(const struct checkpoint *c);
const struct tensor_entry *checkpoint_tensor(const struct checkpoint *c, int64_t i);

/* The tensor of that name (borrowed); NULL when there is none. */
const struct tensor_entry *checkpoint_find(const struct checkpoint *c, const char *name);

/* Bits that the file has for each weight of tensor t of c: scales and zeros included. */
double checkpoint_bits(const struct checkpoint *c, const struct tensor_entry *t);

/* dst (product of shape) = the tensor widened to f32. Thread-safe. ERR_SHAPE when it is stored with
 * another shape (the text has tensor, file, stored and expected shape); ERR_FORMAT when it is
 * missing or not of a floating type; ERR_IO, ERR_NOMEM. */
MUST_USE enum status checkpoint_read_f32(const struct checkpoint *c, const char *name, int n_dims,
                                         const int64_t *shape, float *dst, struct err *e);

/* dst (n) = elements [first, first + n) of tensor t of c, widened to f32. Thread-safe. Errors as
 * above. */
MUST_USE enum status checkpoint_read_range(const struct checkpoint *c, const struct tensor_entry *t,
                                           int64_t first, int64_t n, float *dst, struct err *e);

/* dst = elements [first, first + n) of t, a tensor of c of any type, as they are stored.
 * Thread-safe. ERR_USAGE: a derived checkpoint that is no average; as checkpoint_read_range. */
MUST_USE enum status checkpoint_read_stored(const struct checkpoint *c,
                                            const struct tensor_entry *t, int64_t first, int64_t n,
                                            void *dst, struct err *e);

/* --- whether its files stay as they are --- */

/* Digests of the slices of a folder that have been read so far; NULL: c is computed from others.
 * Borrowed. */
struct digests *checkpoint_digests(const struct checkpoint *c);
/* Reads those slices of a folder (wanted: for each slice) for their digests. ERR_CHANGED: one is
 * another than before; ERR_IO, ERR_NOMEM. */
MUST_USE enum status checkpoint_read_slices(const struct checkpoint *c, const bool *wanted,
                                            struct err *e);
/* hash = the digest of all bytes of a folder whose slices have all been read. */
void checkpoint_whole(const struct checkpoint *c, char hash[HASH_HEX]);
/* Number of the weight files of a folder. */
int64_t checkpoint_n_files(const struct checkpoint *c);
/* Compares size, times and inode of every file of a folder with those when it was opened. Reads
 * config.json and the index again where they differ, and sets `changed` (for each weight file). A
 * file that is gone counts as the same: what was read of it was read from the open file.
 * ERR_CHANGED: config.json or the index has other bytes; ERR_IO, ERR_NOMEM. */
MUST_USE enum status checkpoint_look(struct checkpoint *c, bool *changed, struct err *e);
/* Opens the changed files anew and reads share number `turn` of `of` of their slices whose digests
 * are known; with equal bytes they count as the same from now on. ERR_CHANGED names the file;
 * ERR_NOMEM. */
MUST_USE enum status checkpoint_compare(struct checkpoint *c, const bool *changed, int64_t turn,
                                        int64_t of, struct err *e);
/* Both, for all that is known of the folder, or of the folders that c is computed from. Errors as
 * above. */
MUST_USE enum status checkpoint_verify(struct checkpoint *c, struct err *e);
