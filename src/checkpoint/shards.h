/* shards: finds the weight files of a folder, by their usual names or by an index. */
#pragma once
#include "checkpoint/weight_format.h"
#include "util/json.h"

struct shards {
    const struct weight_format *format;
    char *index; /* path of the index; NULL: one file */
    json_t *map; /* tensor name -> file name; NULL without an index */
    int64_t n;
    const char **files; /* names within the folder, sorted, each once; borrowed from map */
};

/* Looks for the file and then the index of each format (weight_format.h), in the order of their
 * list. Opens no weight file. *out is freed with shards_free. ERR_IO when none of them exists;
 * ERR_FORMAT for a bad index: no weight_map, a file name that leaves the folder; ERR_NOMEM. */
MUST_USE enum status shards_find(const char *dir, struct shards *out, struct err *e);
void shards_free(struct shards *s);
