/* The writer of safetensors files. */
#include "checkpoint/safetensors.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/temporary.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct safetensors_out {
    char *path, *temporary;
    int fd;
    int64_t data; /* bytes before the data */
    int64_t n;
    struct tensor_entry *entries; /* in the order in which their data come */
    int64_t at, filled;           /* the tensor in progress, and its elements so far */
};

static enum status add_tensor(struct safetensors_out *o, const struct tensor_shape *from,
                              struct err *e)
{
    struct tensor_entry *t = &o->entries[o->n++];
    PASS(mem_string(&t->name, from->name, e));
    t->dtype = from->dtype;
    t->n_dims = from->n_dims;
    NEED(from->n_dims >= 0 && from->n_dims <= TENSOR_DIMS, ERR_SHAPE,
         "%s: tensor %s: %d dimensions, at most %d can be written", o->path, t->name, from->n_dims,
         TENSOR_DIMS);
    memcpy(t->shape, from->shape, (size_t)t->n_dims * sizeof *t->shape);
    NEED(tensor_entry_count(t), ERR_SHAPE, "%s: tensor %s: its shape is negative or too large",
         o->path, t->name);
    return OK;
}

static enum status describe_tensor(const struct safetensors_out *o, const struct tensor_entry *t,
                                   json_t *root, struct err *e)
{
    json_auto_t *shape = json_array();
    NEED(!json_object_get(root, t->name), ERR_USAGE, "%s: tensor name %s is used twice or reserved",
         o->path, t->name);
    for (int i = 0; i < t->n_dims; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    json_t *value =
        json_pack("{s:s, s:O, s:[I, I]}", "dtype", dtype_name(t->dtype), "shape", shape,
                  "data_offsets", (json_int_t)t->offset, (json_int_t)(t->offset + t->n_bytes));
    NEED(json_object_set_new(root, t->name, value) == 0, ERR_FORMAT,
         "%s: a tensor's name is not UTF-8, or memory is short", o->path);
    return OK;
}

/* Pads the header with blanks so that the data starts at a multiple of eight bytes. */
static enum status write_header(struct safetensors_out *o, const json_t *root, struct err *e)
{
    AUTO_FREE char *header = NULL;
    size_t n = json_dumpb(root, NULL, 0, JSON_COMPACT);
    uint64_t padded = (n + 7) / 8 * 8;
    PASS(mem_alloc(&header, (int64_t)padded, 1, "header", e));
    memset(header, ' ', padded);
    NEED(n > 0 && json_dumpb(root, header, n, JSON_COMPACT) == n, ERR_NOMEM,
         "%s: cannot make the header", o->path);
    PASS(fsx_write(o->fd, o->path, &padded, sizeof padded, e));
    PASS(fsx_write(o->fd, o->path, header, padded, e));
    o->data = (int64_t)(sizeof padded + padded);
    return OK;
}

enum status safetensors_create(const char *path, const struct tensor_shape *tensors, int64_t n,
                               struct safetensors_out **out, struct err *e)
{
    CLEANUP(safetensors_out_close_at) struct safetensors_out *o = NULL;
    int64_t end = 0;
    /* transformers refuses files that do not say which framework's they are */
    json_auto_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    NEED(root, ERR_NOMEM, "%s: cannot make the header", path);
    PASS(mem_zero(&o, 1, sizeof *o, path, e));
    o->fd = -1;
    PASS(mem_string(&o->path, path, e));
    PASS(mem_zero(&o->entries, n, sizeof *o->entries, path, e));
    for (int64_t i = 0; i < n; i++) PASS(add_tensor(o, &tensors[i], e));
    for (size_t size = 8; size > 0; size /= 2) /* larger elements first, from the header's end */
        for (int64_t i = 0; i < n; i++) {
            struct tensor_entry *t = &o->entries[i];
            if (dtype_size(t->dtype) != size) continue;
            t->offset = end;
            NEED(!__builtin_add_overflow(end, t->n_bytes, &end), ERR_SHAPE,
                 "%s: tensor %s: its shape is negative or too large", path, t->name);
        }
    for (int64_t i = 0; i < n; i++) PASS(describe_tensor(o, &o->entries[i], root, e));
    PASS(temporary_begin(path, &o->temporary, e));
    o->fd = fsx_open_as(o->temporary, O_RDWR | O_CREAT | O_TRUNC);
    NEED(o->fd >= 0, fsx_errno_status(errno), "%s: %s", o->path, strerror(errno));
    PASS(write_header(o, root, e));
    *out = TAKE(o);
    return OK;
}

const char *safetensors_next(struct safetensors_out *o)
{
    while (o->at < o->n && o->filled == o->entries[o->at].n_elements) {
        o->at++; /* empty ones too */
        o->filled = 0;
    }
    return o->at < o->n ? o->entries[o->at].name : NULL;
}

enum status safetensors_append(struct safetensors_out *o, const void *data, int64_t n_elements,
                               struct err *e)
{
    if (n_elements == 0) return OK;
    NEED(safetensors_next(o), ERR_SHAPE, "%s: data after the last tensor", o->path);
    const struct tensor_entry *t = &o->entries[o->at];
    NEED(n_elements > 0 && n_elements <= t->n_elements - o->filled, ERR_SHAPE,
         "%s: tensor %s: %lld elements given where %lld of its %lld are left", o->path, t->name,
         (long long)n_elements, (long long)(t->n_elements - o->filled), (long long)t->n_elements);
    int64_t size = (int64_t)dtype_size(t->dtype);
    NEED(lseek(o->fd, o->data + t->offset + o->filled * size, SEEK_SET) >= 0, ERR_IO, "%s: %s",
         o->path, strerror(errno));
    PASS(fsx_write(o->fd, o->path, data, (size_t)(n_elements * size), e));
    o->filled += n_elements;
    return OK;
}

/* Bytes of data so far: they are in the order of the file, because all elements have one size. */
static int64_t written(const struct safetensors_out *o)
{
    if (o->at == o->n) return o->n ? o->entries[o->n - 1].offset + o->entries[o->n - 1].n_bytes : 0;
    const struct tensor_entry *t = &o->entries[o->at];
    return t->offset + o->filled * (int64_t)dtype_size(t->dtype);
}

static enum status move_piece(const struct safetensors_out *o, int64_t at, char *piece, size_t n,
                              bool reads, struct err *e)
{
    const off_t place = (off_t)(o->data + at);
    if (reads) {
        NEED(pread(o->fd, piece, n, place) == (ssize_t)n, ERR_IO, "%s: %s", o->path,
             strerror(errno));
        return OK;
    }
    NEED(lseek(o->fd, place, SEEK_SET) == place, ERR_IO, "%s: %s", o->path, strerror(errno));
    return fsx_write(o->fd, o->path, piece, n, e);
}

static enum status move_data(const struct safetensors_out *o, struct saved_move *m, struct err *e)
{
    enum { PIECE = 1 << 20 };
    AUTO_FREE char *piece = NULL;
    const bool loads = saved_loads(m);
    const int64_t end = written(o);
    for (int64_t i = 0; i < o->n; i++)
        NEED(o->entries[i].dtype == o->entries[0].dtype, ERR_SHAPE, "%s: types differ", o->path);
    PASS(mem_alloc(&piece, PIECE, 1, "a piece of a file", e));
    for (int64_t at = 0; at < end; at += PIECE) {
        const size_t n = end - at < PIECE ? (size_t)(end - at) : PIECE;
        if (!loads) PASS(move_piece(o, at, piece, n, true, e));
        saved_bytes(m, piece, (int64_t)n);
        if (loads) PASS(move_piece(o, at, piece, n, false, e));
    }
    return OK;
}

void safetensors_move(struct safetensors_out *o, struct saved_move *m)
{
    struct err why = {0};
    saved_bytes(m, &o->at, sizeof o->at);
    saved_bytes(m, &o->filled, sizeof o->filled);
    if (o->at < 0 || o->at > o->n)
        err_set(&why, ERR_FORMAT, __FILE__, __LINE__, "%s: it has no tensor %lld", o->path,
                (long long)o->at);
    else if (saved_counts(m))
        saved_bytes(m, NULL, written(o));
    else
        (void)!move_data(o, m, &why);
    saved_fail(m, &why);
}

enum status safetensors_commit(struct safetensors_out *o, struct err *e)
{
    NEED(!safetensors_next(o), ERR_SHAPE, "%s: tensor %s has %lld of its %lld elements", o->path,
         o->entries[o->at].name, (long long)o->filled, (long long)o->entries[o->at].n_elements);
    int closed = close(o->fd);
    o->fd = -1;
    NEED(closed == 0, fsx_errno_status(errno), "%s: %s", o->path, strerror(errno));
    enum status st = fsx_publish(o->temporary, o->path, e);
    if (st != OK) err_rename(e, o->temporary, o->path);
    return st;
}

void safetensors_out_close(struct safetensors_out *o)
{
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    for (int64_t i = 0; i < o->n; i++) free(o->entries[i].name);
    free(o->entries);
    temporary_end(o->temporary);
    free(o->path);
    free(o);
}
