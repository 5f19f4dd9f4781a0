#include "checkpoint/shards.h"
#include "checkpoint/tensor_file.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

/* The index of a 32B model has 100 KB; this suffices for a hundred thousand experts. */
enum { INDEX_BYTES_MAX = 16 << 20 };

#define FORMAT_LINE(name) &format_##name,
static const struct weight_format *const formats[] = {WEIGHT_FORMATS(FORMAT_LINE) NULL};

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
    json_object_foreach(s->map, tensor, value) {
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
    json_auto_t *root = NULL;
    PASS(json_read_file(s->index, INDEX_BYTES_MAX, &root, e));
    s->map = json_incref(json_object_get(root, "weight_map"));
    NEED(json_is_object(s->map), ERR_FORMAT, "%s: no object \"weight_map\"", s->index);
    return list_files(s, e);
}

/* Takes the only file of the format, or its index, if it is there. */
static enum status find_format(const char *dir, const struct weight_format *format,
                               struct shards *s, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(fsx_join(dir, format->file, &path, e));
    s->format = format;
    if (fsx_is_file(path)) {
        PASS(mem_alloc(&s->files, 1, sizeof *s->files, path, e));
        s->files[s->n++] = format->file;
    } else if (format->index) {
        PASS(fsx_join(dir, format->index, &s->index, e));
        if (fsx_is_file(s->index)) PASS(read_index(s, e));
    }
    return OK;
}

static enum status fail_none(const char *dir, struct err *e)
{
    char names[400] = "";
    for (int i = 0; formats[i]; i++) {
        const size_t used = strlen(names);
        const char *index = formats[i]->index;
        snprintf(names + used, sizeof names - used, "%s%s%s%s", i ? ", " : "", formats[i]->file,
                 index ? ", " : "", index ? index : "");
    }
    RAISE(ERR_IO, "%s: no weights: none of %s is there", dir, names);
}

enum status shards_find(const char *dir, struct shards *out, struct err *e)
{
    enum status st = OK;
    *out = (struct shards){0};
    for (int i = 0; formats[i] && st == OK && out->n == 0; i++) {
        shards_free(out);
        st = find_format(dir, formats[i], out, e);
    }
    if (st == OK && out->n == 0) st = fail_none(dir, e);
    if (st != OK) shards_free(out);
    return st;
}

void shards_free(struct shards *s)
{
    free(s->files);
    free(s->index);
    json_decref(s->map);
    *s = (struct shards){0};
}
