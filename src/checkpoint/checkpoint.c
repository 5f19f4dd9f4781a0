#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/tensor_file.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <stdio.h>

enum { CONFIG_BYTES_MAX = 4 << 20 };

/* --- weight files of a folder, by their usual names or by an index --- */

/* The index of a 32B model has 100 KB; this suffices for a hundred thousand experts. */
enum { INDEX_BYTES_MAX = 16 << 20 };

#define FORMAT_LINE(name) &format_##name,
static const struct weight_format *const formats[] = {WEIGHT_FORMATS(FORMAT_LINE) NULL};

struct shards {
    const struct weight_format *format;
    char *index; /* path of the index; NULL: one file */
    json_t *map; /* tensor name -> file name; NULL without an index */
    int64_t n;
    const char **files; /* names within the folder, sorted, each once; borrowed from map */
};

static void shards_free(struct shards *s)
{
    free(s->files);
    free(s->index);
    json_decref(s->map);
    *s = (struct shards){0};
}

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
        if (fsx_is_file(s->index)) {
            json_auto_t *root = NULL;
            PASS(json_read_file(s->index, INDEX_BYTES_MAX, &root, e));
            s->map = json_incref(json_object_get(root, "weight_map"));
            NEED(json_is_object(s->map), ERR_FORMAT, "%s: no object \"weight_map\"", s->index);
            PASS(list_files(s, e));
        }
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

/* The file or else the index of each format (weight_format.h), in the order of their list. Opens no
 * weight file. */
static enum status shards_find(const char *dir, struct shards *out, struct err *e)
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

/* --- opening --- */

static enum status open_file(struct checkpoint *c, const struct shards *s, int64_t i,
                             int64_t *slices, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(s->files ? fsx_join(c->dir, s->files[i], &path, e) : mem_string(&path, c->dir, e));
    NEED(!s->index || fsx_is_file(path), ERR_IO, "%s: not there, but %s names it", path, s->index);
    PASS(c->format->open(path, &c->files[i], e));
    c->n_files++;
    for (int64_t k = 0; k < c->files[i].n; k++) {
        struct tensor_entry *t = &c->files[i].entries[k];
        t->file = (int)i;
        t->slice = *slices;
        *slices += tensor_slices(t);
    }
    c->n += c->files[i].n;
    return OK;
}

static enum status open_files(struct checkpoint *c, const struct shards *s, struct err *e)
{
    int64_t n = 0, slices = 0;
    PASS(mem_zero(&c->files, s->n, sizeof *c->files, c->dir, e));
    for (int64_t i = 0; i < s->n; i++) PASS(open_file(c, s, i, &slices, e));
    PASS(digests_new(slices, &c->digests, e));
    for (int64_t i = 0; i < s->n; i++) c->files[i].digests = c->digests;
    PASS(mem_zero(&c->entries, c->n, sizeof *c->entries, c->dir, e));
    for (int64_t i = 0; i < s->n; i++) {
        if (c->files[i].n)
            memcpy(c->entries + n, c->files[i].entries, (size_t)c->files[i].n * sizeof *c->entries);
        n += c->files[i].n;
    }
    qsort(c->entries, (size_t)n, sizeof *c->entries, name_compare);
    for (int64_t i = 1; i < n; i++)
        NEED(strcmp(c->entries[i - 1].name, c->entries[i].name) != 0, ERR_FORMAT,
             "tensor %s is both in %s and in %s", c->entries[i].name,
             c->files[c->entries[i - 1].file].path, c->files[c->entries[i].file].path);
    return OK;
}

static enum status read_file(const struct checkpoint *c, const struct tensor_entry *t,
                             int64_t first, int64_t n, float *dst, struct err *e)
{
    return safetensors_read_range(&c->files[t->file], t, first, n, dst, e);
}

enum status checkpoint_read_file(const struct checkpoint *c, const struct tensor_entry *t,
                                 int64_t first, int64_t n, void *dst, struct err *e)
{
    return safetensors_read_stored(&c->files[t->file], t, first, n, dst, e);
}

/* A single file with a configuration: all that is in the folder of others. */
static enum status open_alone(struct checkpoint *c, struct err *e)
{
    c->format = &format_gguf;
    PASS(open_files(c, &(struct shards){.n = 1}, e));
    c->config = json_incref(c->files[0].config);
    strcpy(c->texts[0].hash, c->files[0].hash); /* the configuration is in its header */
    return OK;
}

static enum status open_folder(struct checkpoint *c, struct err *e)
{
    CLEANUP(shards_free) struct shards s = {0};
    struct checkpoint_text *index = &c->texts[1];
    struct checkpoint_text *at = &c->texts[0];
    AUTO_FREE char *text = NULL;
    size_t n;
    PASS(fsx_join(c->dir, "config.json", &at->path, e));
    NEED(fsx_is_file(at->path), ERR_IO,
         "%s: no config.json: a checkpoint is a folder in Hugging Face layout", c->dir);
    NEED(stat(at->path, &at->opened) == 0, ERR_IO, "%s: cannot be read", at->path);
    PASS(fsx_read(at->path, CONFIG_BYTES_MAX, &text, &n, e));
    PASS(json_read_text(at->path, text, n, &c->config, e));
    NEED(json_is_object(c->config), ERR_FORMAT, "%s: not a JSON object", at->path);
    hash_bytes(text, n, at->hash);
    PASS(shards_find(c->dir, &s, e));
    c->format = s.format;
    if (s.index) {
        PASS(mem_string(&index->path, s.index, e));
        NEED(stat(s.index, &index->opened) == 0, ERR_IO, "%s: cannot be read", s.index);
        PASS(hash_file(s.index, index->hash, e));
    }
    PASS(open_files(c, &s, e));
    /* Checks that each tensor of the index is in the file that the index says. Tensors that the
     * index does not name (stale buffers) may be in any file. */
    const char *name;
    json_t *value;
    if (!s.index) return OK;
    json_object_foreach(s.map, name, value) {
        const char *file = json_string_value(value);
        const struct tensor_entry *t = checkpoint_find(c, name);
        NEED(t, ERR_FORMAT, "%s/%s: no tensor %s, though %s says so", c->dir, file, name, s.index);
        NEED(strcmp(s.files[t->file], file) == 0, ERR_FORMAT,
             "%s: tensor %s is in this file, but %s says in %s", c->files[t->file].path, name,
             s.index, file);
    }
    return OK;
}

static enum status hash_folder(struct checkpoint *c, const char *config, struct err *e)
{
    AUTO_FREE char *text = NULL;
    PASS(mem_string(&text, config, e));
    for (int64_t i = 0; i < c->n_files; i++) PASS(mem_append(&text, e, " %s", c->files[i].hash));
    hash_text(text, c->hash);
    return OK;
}

enum status checkpoint_known_as(struct checkpoint *c, const char *config, const char *known,
                                struct err *e)
{
    const bool is = c->texts[0].path && strcmp(c->texts[0].hash, config) == 0;
    return is ? hash_folder(c, known, e) : OK;
}

enum status checkpoint_open(const char *dir, struct checkpoint **out, struct err *e)
{
    CLEANUP(checkpoint_close_at) struct checkpoint *c = NULL;
    const bool alone = fsx_is_file(dir);
    PASS(mem_zero(&c, 1, sizeof *c, dir, e));
    c->read = read_file;
    c->read_stored = checkpoint_read_file;
    PASS(mem_string(&c->dir, dir, e));
    NEED(alone || fsx_is_dir(dir), ERR_IO,
         "%s: no such folder or file: a checkpoint is a folder with config.json and weights, or "
         "a GGUF file",
         dir);
    PASS(alone ? open_alone(c, e) : open_folder(c, e));
    PASS(hash_folder(c, c->texts[0].hash, e));
    PASS(checkpoint_unpack(c, e));
    *out = TAKE(c);
    return OK;
}

enum status checkpoint_read_config(const char *dir, json_t **config, char **name, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    AUTO_FREE char *file = NULL;
    const bool alone = fsx_is_file(dir);
    *config = NULL;
    PASS(alone ? mem_string(&file, dir, e) : mem_format(&file, e, "%s/config.json", dir));
    NEED(fsx_is_file(file), ERR_IO,
         "%s: no config.json: a checkpoint is a folder in Hugging Face layout, or a GGUF file",
         dir);
    PASS(alone ? format_gguf.open(dir, &s, e) : json_read_file(file, 0, config, e));
    if (alone) *config = json_incref(s.config);
    if (name) *name = TAKE(file);
    return OK;
}

void checkpoint_retain(const struct checkpoint *c)
{
    ((struct checkpoint *)(uintptr_t)c)->more_owners++;
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c || c->more_owners-- > 0) return;
    for (int64_t i = 0; i < c->n_parts; i++)
        checkpoint_close((struct checkpoint *)(uintptr_t)c->parts[i].checkpoint);
    for (int64_t i = 0; i < c->n_files; i++) safetensors_close(&c->files[i]);
    for (int64_t i = 0; i < c->n_packed; i++) free(c->packed[i].name);
    for (int i = 0; i < 2; i++) free(c->texts[i].path);
    digests_free(c->digests);
    block_code_free(&c->code);
    free(c->packed);
    free(c->stored);
    free(c->files);
    free(c->parts);
    free(c->entries);
    json_decref(c->config);
    free(c->dir);
    free(c);
}

const char *checkpoint_dir(const struct checkpoint *c)
{
    return c->dir;
}

const json_t *checkpoint_config(const struct checkpoint *c)
{
    return c->config;
}

const char *checkpoint_hash(const struct checkpoint *c)
{
    return c->hash;
}

int64_t checkpoint_n_tensors(const struct checkpoint *c)
{
    return c->n;
}

const struct tensor_entry *checkpoint_tensor(const struct checkpoint *c, int64_t i)
{
    return &c->entries[i];
}

const struct tensor_entry *checkpoint_find(const struct checkpoint *c, const char *name)
{
    return c->n ? bsearch(&name, c->entries, (size_t)c->n, sizeof *c->entries, name_compare) : NULL;
}

enum status checkpoint_read_f32(const struct checkpoint *c, const char *name, int n_dims,
                                const int64_t *shape, float *dst, struct err *e)
{
    const struct tensor_entry *t = checkpoint_find(c, name);
    NEED(t, ERR_FORMAT, "%s: no tensor %s", c->dir, name);
    NEED(tensor_has_shape(t, n_dims, shape), ERR_SHAPE,
         "%s: tensor %s has shape %s where %s is expected",
         c->read == read_file ? c->files[t->file].path : c->dir, name,
         tensor_shape_text(t->shape, t->n_dims).text, tensor_shape_text(shape, n_dims).text);
    return c->read(c, t, 0, t->n_elements, dst, e);
}

enum status checkpoint_read_range(const struct checkpoint *c, const struct tensor_entry *t,
                                  int64_t first, int64_t n, float *dst, struct err *e)
{
    return c->read(c, t, first, n, dst, e);
}

enum status checkpoint_read_stored(const struct checkpoint *c, const struct tensor_entry *t,
                                   int64_t first, int64_t n, void *dst, struct err *e)
{
    NEED(c->read_stored, ERR_USAGE, "%s: weights that are computed are not stored", c->dir);
    return c->read_stored(c, t, first, n, dst, e);
}
