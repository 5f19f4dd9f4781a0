#include "checkpoint/shards.h"
#include "checkpoint/tensor_file.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

/* The index of a 32B model has 100 KB; this suffices for a hundred thousand experts. */
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

/* The files that the index names, sorted, each once. */
static enum status list_files(struct shards *s, struct err *e)
{
    const char *tensor;
    json_t *value;
    int64_t n = 0;
    PASS(mem_alloc(&s->files, (int64_t)json_object_size(s->map), sizeof *s->files, s->index, e));
    json_object_foreach(s->map, tensor, value)
    {
        const char *file = json_string_value(value);
        NEED(file, ERR_FORMAT, "%s: weight_map: tensor %s: not a file name", s->index, tensor);
        NEED(stays_in_folder(file), ERR_FORMAT,
             "%s: weight_map: tensor %s: file \"%s\" is not in the checkpoint's folder", s->index,
             tensor, file);
        s->files[n++] = file;
    }
    NEED(n > 0, ERR_FORMAT, "%s: weight_map names no tensor", s->index);
    qsort(s->files, (size_t)n, sizeof *s->files, name_compare);
    for (int64_t i = 0; i < n; i++)
        if (s->n == 0 || strcmp(s->files[s->n - 1], s->files[i]) != 0)
            s->files[s->n++] = s->files[i];
    return OK;
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
        } else {
            TRY(mem_alloc(&s.files, 1, sizeof *s.files, path, e));
            s.files[s.n++] = candidates[i].file;
        }
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
    free(s->files);
    free(s->index);
    json_decref(s->map);
    *s = (struct shards){0};
}
