#include "checkpoint/shards.h"
#include "checkpoint/tensor_file.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* The index of a 32B model has 100 KB; this allows for a hundred thousand experts. */
enum { INDEX_BYTES_MAX = 16 << 20 };

static const struct {
    const char *file;
    bool indexed, pickled;
} candidates[] = {
    {"model.safetensors", false, false},
    {"model.safetensors.index.json", true, false},
    {"pytorch_model.bin", false, true},
    {"pytorch_model.bin.index.json", true, true},
};

/* A shard must be in the folder itself: its name is one path component. */
static bool stays_in_folder(const char *name)
{
    return name[0] != '\0' && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static enum status add_file(struct shards *s, int64_t *capacity, const char *name, struct err *e)
{
    PASS(mem_grow(&s->files, s->n, capacity, sizeof *s->files, e));
    PASS(mem_string(&s->files[s->n], name, e));
    s->n++;
    return OK;
}

static enum status list_files(struct shards *s, struct err *e)
{
    enum status st = OK;
    json_t *seen = json_object(), *value;
    const char *tensor;
    int64_t capacity = 0;
    ENSURE(seen, ERR_NOMEM, "%s: out of memory", s->index);
    json_object_foreach(s->map, tensor, value)
    {
        const char *file = json_string_value(value);
        ENSURE(file, ERR_FORMAT, "%s: weight_map: tensor %s: not a file name", s->index, tensor);
        ENSURE(stays_in_folder(file), ERR_FORMAT,
               "%s: weight_map: tensor %s: file \"%s\" is not in the checkpoint's folder", s->index,
               tensor, file);
        if (json_object_get(seen, file)) continue;
        ENSURE(json_object_set_new(seen, file, json_true()) == 0, ERR_NOMEM, "%s: out of memory",
               s->index);
        TRY(add_file(s, &capacity, file, e));
    }
    ENSURE(s->n > 0, ERR_FORMAT, "%s: weight_map names no tensor", s->index);
    qsort(s->files, (size_t)s->n, sizeof *s->files, name_compare);
done:
    json_decref(seen);
    return st;
}

static enum status read_index(struct shards *s, struct err *e)
{
    enum status st = OK;
    json_t *root = NULL;
    TRY(json_read_file(s->index, INDEX_BYTES_MAX, &root, e));
    s->map = json_incref(json_object_get(root, "weight_map"));
    ENSURE(json_is_object(s->map), ERR_FORMAT, "%s: no object \"weight_map\"", s->index);
    TRY(list_files(s, e));
done:
    json_decref(root);
    return st;
}

enum status shards_find(const char *dir, struct shards *out, struct err *e)
{
    enum status st = OK;
    struct shards s = {0};
    char *path = NULL;
    int64_t capacity = 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates && s.n == 0; i++) {
        free(path);
        path = NULL;
        TRY(fsx_join(dir, candidates[i].file, &path, e));
        if (!fsx_is_file(path)) continue;
        s.pickled = candidates[i].pickled;
        if (candidates[i].indexed) {
            s.index = path;
            path = NULL;
            TRY(read_index(&s, e));
        } else
            TRY(add_file(&s, &capacity, candidates[i].file, e));
    }
    ENSURE(s.n > 0, ERR_IO,
           "%s: no weights: neither model.safetensors, model.safetensors.index.json, "
           "pytorch_model.bin nor pytorch_model.bin.index.json is there",
           dir);
    *out = s;
    s = (struct shards){0};
done:
    free(path);
    shards_free(&s);
    return st;
}

void shards_free(struct shards *s)
{
    for (int64_t i = 0; i < s->n; i++) free(s->files[i]);
    free(s->files);
    free(s->index);
    json_decref(s->map);
    *s = (struct shards){0};
}
