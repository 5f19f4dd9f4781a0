/* shards: finds the weight files of a folder, by their usual names or by an index. */
#pragma once
#include "util/err.h"
#include "util/json.h"

struct shards {
    bool pickled; /* files of PyTorch (.bin), not safetensors */
    char *index;  /* path of the index; NULL: one file */
    json_t *map;  /* tensor name -> file name; NULL without an index */
    int64_t n;
    const char **files; /* names within the folder, sorted, each once; borrowed from map */
};

/* Looks for model.safetensors, its index, pytorch_model.bin and its index, in this order. Opens no
 * weight file. *out is freed with shards_free. ERR_IO when none of them exists; ERR_FORMAT for a
 * bad index: no weight_map, a file name that leaves the folder; ERR_NOMEM. */
MUST_USE enum status shards_find(const char *dir, struct shards *out, struct err *e);
void shards_free(struct shards *s);
