/* folder_write: writes a checkpoint as a folder in Hugging Face layout, which transformers and
 * checkpoint_open read: config.json, the weights in one model.safetensors or in shards with an
 * index, and the files of tokenizer, generation and model code that stand beside the weights of
 * another checkpoint. The folder has a temporary name until it is whole. */
#pragma once
#include "checkpoint/checkpoint.h"
#include "util/json.h"

/* All borrowed until the folder is closed. */
struct folder_plan {
    /* config.json, whose torch_dtype and dtype become the widest type of the tensors: transformers
     * casts all of them to the type that is named there. */
    const json_t *config;
    bool f16;                      /* they become float16, as programs want that compute in it */
    const json_t *quantize_config; /* quantize_config.json, NULL: none */
    /* The weights, in the order in which their data are given. */
    int64_t n;
    const struct tensor_shape *tensors; // (n)
    int64_t shard_bytes;                /* of a weight file at most; 0: 5 GB, as transformers 4.
                                           A tensor that is larger has a file of its own */
    /* Folder whose files beside config.json and weights are copied; the tokenizer.json that goes
     * along, whatever its name, with the tokenizer's other files that stand beside it. NULL: none,
     * those of `source`. */
    const char *source, *tokenizer;
};

struct folder_out;

/* Begins the folder `path`, which does not exist or is empty; the folder above it exists. Copies
 * the small files. Close *out whatever follows. ERR_USAGE: path is there already, or cannot be
 * made; ERR_FULL, ERR_IO: writing, reading the source; as safetensors_create. */
MUST_USE enum status folder_create(const char *path, const struct folder_plan *plan,
                                   struct folder_out **out, struct err *e);
/* The next n elements of `tensor` in its type. Tensors come in the plan's order, each in as many
 * pieces as the caller likes. ERR_SHAPE: it is not that tensor's turn; as safetensors_append. */
MUST_USE enum status folder_append(struct folder_out *o, const char *tensor, const void *data,
                                   int64_t n, struct err *e);
/* A tensor of an open checkpoint, stored or averaged, for a folder's plan: its name (borrowed),
 * type and shape. */
struct tensor_shape folder_shape(const struct tensor_entry *t);
/* Appends the checkpoint's tensor of that name as checkpoint_read_stored gives it, a piece of 4 MiB
 * at a time. Errors of both. */
MUST_USE enum status folder_copy_tensor(struct folder_out *o, const struct checkpoint *c,
                                        const char *name, struct err *e);
/* Completes the folder, with `card` as its README.md (NULL: none), and gives it its name.
 * ERR_SHAPE: data are missing; ERR_USAGE: path has been filled meanwhile; ERR_FULL, ERR_IO. */
MUST_USE enum status folder_commit(struct folder_out *o, const char *card, struct err *e);
/* Number of weight files. */
int64_t folder_files(const struct folder_out *o);
/* Without a commit: removes what has been written. NULL: nothing. */
void folder_close(struct folder_out *o);
CLEANUP_BY_VALUE(struct folder_out, folder_close);
