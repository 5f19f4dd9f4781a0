/* shards: which weight files a folder has, by name or by its index. */
#pragma once
#include "util/err.h"
#include "util/json.h"
#include <stdbool.h>
#include <stdint.h>

struct shards {
    bool pickled; /* PyTorch's files, not safetensors */
    char *index;  /* path of the index; NULL: one file */
    json_t *map;  /* tensor name -> file name; NULL without an index */
    int64_t n;
    char **files; /* names within the folder, sorted, each once */
};

/* Looks for model.safetensors, its index, pytorch_model.bin and its index, in this order. ERR_IO
 * when there is none of them (the text says so), ERR_FORMAT for a bad index: no weight_map, a file
 * name that leaves the folder. Opens no weight file. */
MUST_USE enum status shards_find(const char *dir, struct shards *out, struct err *e);
void shards_free(struct shards *s);
