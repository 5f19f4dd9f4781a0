#include "checkpoint/folder_write.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static const int64_t shard_bytes_default = 5000000000;

struct folder_out {
    char *path, *temporary;
    struct folder_plan plan;
    int64_t shards, shard;        /* how many, and the one in progress */
    int64_t *first;               // (shards + 1) first tensor of each
    struct safetensors_out *file; /* of the shard in progress */
};

/* --- its name --- */

/* *out = path without slashes at its end; it is new or an empty folder, in a folder that exists. */
static enum status check_path(const char *path, char **out, struct err *e)
{
    AUTO_FREE char *parent = NULL;
    struct stat info;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    PASS(mem_format(out, e, "%.*s", (int)n, path));
    PASS(fsx_parent(*out, &parent, e));
    NEED(n > 0 && fsx_is_dir(parent), ERR_USAGE, "%s: there is no folder %s to make it in", path,
         parent);
    if (lstat(*out, &info) == 0)
        NEED(S_ISDIR(info.st_mode) && fsx_is_empty_dir(*out), ERR_USAGE,
             "%s: exists already, and is not an empty folder; nothing is written over", path);
    return OK;
}

/* --- the files beside the weights --- */

static const struct {
    const char *name;
    bool of_tokenizer;
} companions[] = {{"generation_config.json", false},
                  {"tokenizer.json", true},
                  {"tokenizer_config.json", true},
                  {"special_tokens_map.json", true},
                  {"added_tokens.json", true},
                  {"tokenizer.model", true},
                  {"vocab.json", true},
                  {"merges.txt", true},
                  {"vocab.txt", true},
                  {"chat_template.jinja", true},
                  {"chat_template.json", true}};

/* Copies the file to `name` in the folder. */
static enum status copy_file(const struct folder_out *o, const char *from, const char *name,
                             struct err *e)
{
    AUTO_FREE char *to = NULL, *data = NULL;
    size_t n;
    PASS(fsx_join(o->temporary, name, &to, e));
    PASS(fsx_read(from, 0, &data, &n, e));
    return fsx_write_atomic(to, data, n, e);
}

/* Copies a file of that name from the folder, if there is one and it is not copied yet. */
static enum status copy_from(const struct folder_out *o, const char *folder, const char *name,
                             struct err *e)
{
    AUTO_FREE char *from = NULL, *to = NULL;
    PASS(fsx_join(folder, name, &from, e));
    PASS(fsx_join(o->temporary, name, &to, e));
    if (fsx_is_file(from) && !fsx_is_file(to)) PASS(copy_file(o, from, name, e));
    return OK;
}

static enum status write_json(const struct folder_out *o, const json_t *value, const char *name,
                              struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(fsx_join(o->temporary, name, &path, e));
    return json_write_file(path, value, JSON_INDENT(2), e);
}

static enum status copy_companions(const struct folder_out *o, struct err *e)
{
    const struct folder_plan *p = &o->plan;
    AUTO_FREE char *beside = NULL; /* the tokenizer */
    if (p->tokenizer) {
        PASS(fsx_parent(p->tokenizer, &beside, e));
        PASS(copy_file(o, p->tokenizer, "tokenizer.json", e));
    }
    for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) {
        if (beside && companions[i].of_tokenizer) PASS(copy_from(o, beside, companions[i].name, e));
        if (p->source) PASS(copy_from(o, p->source, companions[i].name, e));
    }
    if (p->source && json_object_get(p->config, "auto_map")) {
        /* Python files of models that bring their own code, which config.json then names in
         * auto_map. */
        CLEANUP(fsx_closedir) DIR *dir = opendir(p->source);
        NEED(dir, ERR_IO, "%s: %s", p->source, strerror(errno));
        for (struct dirent *d; (d = readdir(dir)) != NULL;) {
            size_t n = strlen(d->d_name);
            if (n > 3 && strcmp(d->d_name + n - 3, ".py") == 0)
                PASS(copy_from(o, p->source, d->d_name, e));
        }
    }
    /* Without a tokenizer_config.json, AutoTokenizer of transformers 5 takes a class by the family,
     * which replaces parts of tokenizer.json (Qwen): this one names the class that reads it as it
     * is.
     */
    AUTO_FREE char *tokenizer = NULL, *config = NULL;
    json_auto_t *value = NULL;
    PASS(fsx_join(o->temporary, "tokenizer.json", &tokenizer, e));
    PASS(fsx_join(o->temporary, "tokenizer_config.json", &config, e));
    if (!fsx_is_file(tokenizer) || fsx_is_file(config)) return OK;
    value = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    NEED(value, ERR_NOMEM, "out of memory for tokenizer_config.json");
    return write_json(o, value, "tokenizer_config.json", e);
}

/* --- config.json --- */

/* The type to which loaders may cast all tensors: the widest of theirs, as none of the two of 16
 * bits holds the other's numbers. NULL: no tensor has numbers of floating point. */
static const char *widest_type(const struct folder_plan *p)
{
    bool found[DTYPE_N] = {false};
    for (int64_t i = 0; i < p->n; i++) found[p->tensors[i].dtype] = true;
    if (p->f16) return "float16";
    if (found[DTYPE_F64]) return "float64";
    if (found[DTYPE_F32] || (found[DTYPE_F16] && found[DTYPE_BF16])) return "float32";
    return found[DTYPE_F16] ? "float16" : found[DTYPE_BF16] ? "bfloat16" : NULL;
}

/* Whether config.json says that type. */
static bool says_type(const json_t *config, const char *type)
{
    const char *before = json_text(config, "torch_dtype", json_text(config, "dtype", ""));
    return strcmp(before, type) == 0 && strcmp(json_text(config, "dtype", type), type) == 0;
}

static enum status write_config(const struct folder_out *o, struct err *e)
{
    const char *type = widest_type(&o->plan);
    json_t *config = json_copy((json_t *)(uintptr_t)o->plan.config);
    int failed = !config;
    if (config && type && !says_type(config, type)) {
        /* transformers writes "dtype" from version 4.56 on, and all versions read "torch_dtype". */
        failed = json_object_set_new(config, "torch_dtype", json_string(type));
        if (json_object_get(config, "dtype"))
            failed |= json_object_set_new(config, "dtype", json_string(type));
    }
    enum status st = failed ? ERR_NOMEM : write_json(o, config, "config.json", e);
    json_decref(config);
    NEED(!failed, ERR_NOMEM, "out of memory for config.json");
    return st;
}

/* --- shards --- */

static int64_t bytes_of(const struct tensor_shape *t)
{
    int64_t n = (int64_t)dtype_size(t->dtype);
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

static enum status cut_shards(struct folder_out *o, struct err *e)
{
    const struct folder_plan *p = &o->plan;
    int64_t most = p->shard_bytes ? p->shard_bytes : shard_bytes_default, bytes = 0;
    PASS(mem_zero(&o->first, p->n + 2, sizeof *o->first, "shards", e));
    o->shards = 1;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t own = bytes_of(&p->tensors[i]);
        if (bytes > 0 && bytes + own > most) {
            o->first[o->shards++] = i;
            bytes = 0;
        }
        bytes += own;
    }
    o->first[o->shards] = p->n;
    return OK;
}

enum { SHARD_NAME = 64 };

static void shard_name(const struct folder_out *o, int64_t shard, char name[SHARD_NAME])
{
    if (o->shards == 1)
        snprintf(name, SHARD_NAME, "model.safetensors");
    else
        snprintf(name, SHARD_NAME, "model-%05lld-of-%05lld.safetensors", (long long)shard + 1,
                 (long long)o->shards);
}

static enum status open_shard(struct folder_out *o, struct err *e)
{
    char name[SHARD_NAME];
    AUTO_FREE char *path = NULL;
    int64_t first = o->first[o->shard];
    shard_name(o, o->shard, name);
    PASS(fsx_join(o->temporary, name, &path, e));
    return safetensors_create(path, o->plan.tensors + first, o->first[o->shard + 1] - first,
                              &o->file, e);
}

/* Goes on to the next shard while the one in progress is full and is not the last. */
static enum status next_shard(struct folder_out *o, struct err *e)
{
    while (o->shard + 1 < o->shards && !safetensors_next(o->file)) {
        PASS(safetensors_commit(o->file, e));
        safetensors_out_close(o->file);
        o->file = NULL;
        o->shard++;
        PASS(open_shard(o, e));
    }
    return OK;
}

static enum status write_index(const struct folder_out *o, struct err *e)
{
    int64_t bytes = 0;
    json_auto_t *map = json_object(), *index = NULL;
    for (int64_t shard = 0; shard < o->shards; shard++) {
        char name[SHARD_NAME];
        shard_name(o, shard, name);
        for (int64_t i = o->first[shard]; i < o->first[shard + 1]; i++) {
            json_object_set_new(map, o->plan.tensors[i].name, json_string(name));
            bytes += bytes_of(&o->plan.tensors[i]);
        }
    }
    index =
        json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    NEED(index && (int64_t)json_object_size(map) == o->plan.n, ERR_NOMEM,
         "%s: out of memory for the index", o->path);
    return write_json(o, index, "model.safetensors.index.json", e);
}

/* --- all of it --- */

static enum status begin(struct folder_out *o, const char *path, struct err *e)
{
    PASS(check_path(path, &o->path, e));
    PASS(cut_shards(o, e));
    PASS(temporary_begin(o->path, &o->temporary, e));
    NEED(mkdir(o->temporary, 0777) == 0, fsx_errno_status(errno), "%s: cannot be made: %s", path,
         strerror(errno));
    PASS(write_config(o, e));
    if (o->plan.quantize_config)
        PASS(write_json(o, o->plan.quantize_config, "quantize_config.json", e));
    PASS(copy_companions(o, e));
    return open_shard(o, e);
}

enum status folder_create(const char *path, const struct folder_plan *plan, struct folder_out **out,
                          struct err *e)
{
    struct folder_out *o;
    *out = NULL;
    PASS(mem_zero(&o, 1, sizeof *o, path, e));
    o->plan = *plan;
    enum status st = begin(o, path, e);
    if (st != OK && o->temporary) err_rename(e, o->temporary, o->path);
    if (st == OK)
        *out = o;
    else
        folder_close(o);
    return st;
}

enum status folder_append(struct folder_out *o, const char *tensor, const void *data, int64_t n,
                          struct err *e)
{
    if (n == 0) return OK;
    enum status st = next_shard(o, e);
    const char *wanted = safetensors_next(o->file);
    NEED(st != OK || (wanted && strcmp(wanted, tensor) == 0), ERR_SHAPE,
         "%s: data of tensor %s come where those of %s are expected", o->path, tensor,
         wanted ? wanted : "no tensor");
    if (st == OK) st = safetensors_append(o->file, data, n, e);
    if (st != OK) err_rename(e, o->temporary, o->path);
    return st;
}

/* --- tensors of a checkpoint --- */

enum { COPY_BYTES = 1 << 22 }; /* bytes that are copied at a time */

struct tensor_shape folder_shape(const struct tensor_entry *t)
{
    struct tensor_shape out = {.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims};
    memcpy(out.shape, t->shape, sizeof out.shape);
    return out;
}

enum status folder_copy_tensor(struct folder_out *o, const struct checkpoint *c, const char *name,
                               struct err *e)
{
    AUTO_FREE char *piece = NULL;
    const struct tensor_entry *t = checkpoint_find(c, name);
    PASS(mem_alloc(&piece, COPY_BYTES, 1, "a piece of a tensor", e));
    int64_t most = COPY_BYTES / (int64_t)dtype_size(t->dtype);
    for (int64_t at = 0, n; at < t->n_elements; at += n) {
        n = min64(most, t->n_elements - at);
        PASS(checkpoint_read_stored(c, t, at, n, piece, e));
        PASS(folder_append(o, t->name, piece, n, e));
    }
    return OK;
}

/* --- its end --- */

/* The folder gets its name; what is in it is on disk already. */
static enum status publish(const struct folder_out *o, struct err *e)
{
    NEED(rename(o->temporary, o->path) == 0,
         errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR ? ERR_USAGE
                                                                   : fsx_errno_status(errno),
         "%s: cannot be put in place: %s", o->path, strerror(errno));
    return fsx_sync_parent(o->path, e);
}

static enum status write_card(const struct folder_out *o, const char *card, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(fsx_join(o->temporary, "README.md", &path, e));
    return fsx_write_atomic(path, card, strlen(card), e);
}

enum status folder_commit(struct folder_out *o, const char *card, struct err *e)
{
    enum status st = next_shard(o, e);
    if (st == OK) st = safetensors_commit(o->file, e);
    if (st == OK && o->shards > 1) st = write_index(o, e);
    if (st == OK && card) st = write_card(o, card, e);
    if (st == OK) st = publish(o, e);
    if (st != OK) err_rename(e, o->temporary, o->path);
    return st;
}

int64_t folder_files(const struct folder_out *o)
{
    return o->shards;
}

void folder_close(struct folder_out *o)
{
    if (!o) return;
    safetensors_out_close(o->file);
    temporary_end(o->temporary);
    free(o->path);
    free(o->first);
    free(o);
}
