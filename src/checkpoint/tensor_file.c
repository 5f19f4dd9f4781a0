#include "checkpoint/tensor_file.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum status tensor_file_read(int fd, const char *path, const char *what, int64_t offset, void *dst,
                             int64_t n, struct err *e)
{
    int64_t got = 0;
    while (got < n) {
        ssize_t r = fsx_pread(fd, (char *)dst + got, (size_t)(n - got), offset + got);
        NEED(r >= 0, ERR_IO, "%s: %s: read of %lld bytes at %lld: %s", path, what, (long long)n,
             (long long)offset, strerror(errno));
        NEED(r > 0, ERR_IO,
             "%s: %s: the file ends at byte %lld, %lld bytes too early (was it cut or replaced "
             "after it was opened?)",
             path, what, (long long)(offset + got), (long long)(n - got));
        got += r;
    }
    return OK;
}

enum status tensor_file_open(const char *path, struct safetensors *s, int64_t *size, struct err *e)
{
    PASS(mem_string(&s->path, path, e));
    PASS(fsx_open(path, &s->fd, size, e));
    NEED(fstat(s->fd, &s->opened) == 0, ERR_IO, "%s: %s", path, strerror(errno));
    return OK;
}

enum { SAMPLES = 16, SAMPLE_BYTES = 4096 };

enum status tensor_file_hash(struct safetensors *s, const void *header, int64_t n, int64_t begin,
                             int64_t size, struct err *e)
{
    char header_hex[HASH_HEX], data_hex[HASH_HEX], text[96];
    AUTO_FREE char *data = NULL;
    int64_t length = size - begin, got = 0;
    PASS(mem_alloc(&data, SAMPLES * SAMPLE_BYTES, 1, "samples of the weights", e));
    if (length <= SAMPLES * SAMPLE_BYTES) {
        PASS(tensor_file_read(s->fd, s->path, "data", begin, data, length, e));
        got = length;
    } else {
        for (int64_t i = 0; i < SAMPLES; i++, got += SAMPLE_BYTES) {
            /* span i / last, without the product that could overflow */
            int64_t span = length - SAMPLE_BYTES, last = SAMPLES - 1;
            int64_t at = begin + span / last * i + span % last * i / last;
            PASS(tensor_file_read(s->fd, s->path, "data", at, data + got, SAMPLE_BYTES, e));
        }
    }
    hash_bytes(header, (size_t)n, header_hex);
    hash_bytes(data, (size_t)got, data_hex);
    snprintf(text, sizeof text, "%lld %s %s", (long long)size, header_hex, data_hex);
    hash_text(text, s->hash);
    return OK;
}

bool tensor_entry_count(struct tensor_entry *t)
{
    t->n_elements = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(t->n_elements, t->shape[i], &t->n_elements))
            return false;
    return !__builtin_mul_overflow(t->n_elements, (int64_t)dtype_size(t->dtype), &t->n_bytes);
}

int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool tensor_has_shape(const struct tensor_entry *t, int n_dims, const int64_t *shape)
{
    return t->n_dims == n_dims && memcmp(t->shape, shape, (size_t)n_dims * sizeof *shape) == 0;
}

struct shape_text tensor_shape_text(const int64_t *shape, int n_dims)
{
    struct shape_text s = {"["};
    size_t n = 1, size = sizeof s.text; /* eight dimensions of 20 characters fit */
    for (int i = 0; i < n_dims; i++)
        n += (size_t)snprintf(s.text + n, size - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    s.text[n] = ']';
    return s;
}

void safetensors_close(struct safetensors *s)
{
    for (int64_t i = 0; i < s->n; i++) free(s->entries[i].name);
    free(s->entries);
    json_decref(s->config);
    if (s->path && s->fd >= 0) close(s->fd); /* without a path it was never opened */
    free(s->path);
    *s = (struct safetensors){.fd = -1};
}

const struct tensor_entry *safetensors_find(const struct safetensors *s, const char *name)
{
    return s->n ? bsearch(&name, s->entries, (size_t)s->n, sizeof *s->entries, name_compare) : NULL;
}

/* Elements are read into a buffer that stays in the cache while they are converted. */
enum { BUFFER_BYTES = 1 << 20 };

/* Elements of a tensor that are asked for, and what becomes of them. */
struct reading {
    const struct safetensors *s;
    const struct tensor_entry *t;
    int64_t first, n; /* elements */
    char *dst;        /* of the same type: read in place; NULL: `take` gets them, if there is one */
    /* Takes elements [first + at, first + at + n), which follow `skip` others at p. */
    enum status (*take)(const struct reading *r, const char *p, int64_t skip, int64_t at, int64_t n,
                        struct err *e);
    void *to;
};

/* Passes on what is asked for of elements [at, at + n), which are at p. */
static enum status pass_on(const struct reading *r, const char *p, int64_t at, int64_t n,
                           struct err *e)
{
    const size_t size = dtype_size(r->t->dtype);
    const int64_t from = max64(at, r->first), to = min64(at + n, r->first + r->n);
    if (from >= to) return OK;
    if (!r->dst) return r->take ? r->take(r, p, from - at, from - r->first, to - from, e) : OK;
    p += (size_t)(from - at) * size;
    memcpy(r->dst + (size_t)(from - r->first) * size, p, (size_t)(to - from) * size);
    return OK;
}

static enum status read_elements(const struct reading *r, struct err *e)
{
    AUTO_FREE char *buffer = NULL;
    char what[160];
    const struct tensor_entry *t = r->t;
    const int64_t last = r->first + r->n;
    const int64_t most = BUFFER_BYTES / (int64_t)dtype_size(t->dtype); /* GGUF's take no more */
    const bool whole = r->s->digests != NULL || t->gguf;
    const int64_t begin = whole ? r->first - r->first % DIGEST_SLICE : r->first;
    const int64_t end =
        whole ? min64((last + DIGEST_SLICE - 1) / DIGEST_SLICE * DIGEST_SLICE, t->n_elements)
              : last;
    snprintf(what, sizeof what, "tensor %s", t->name);
    for (int64_t at = begin, n; r->n > 0 && at < end; at += n) {
        n = min64(end - at, most);
        const bool in_place = r->dst && at >= r->first && at + n <= last;
        if (!in_place && !buffer) PASS(mem_alloc(&buffer, BUFFER_BYTES, 1, "read buffer", e));
        char *p = in_place ? r->dst + tensor_bytes(t, at - r->first) : buffer;
        PASS(tensor_file_read(r->s->fd, r->s->path, what, t->offset + tensor_bytes(t, at), p,
                              tensor_bytes(t, n), e));
        /* The digests of elements [at, at + n), whole slices with the bytes p. */
        for (int64_t i = 0, m; i < n && r->s->digests; i += m) {
            m = min64(n - i, DIGEST_SLICE);
            NEED(digests_take(r->s->digests, r->t->slice + (at + i) / DIGEST_SLICE,
                              p + tensor_bytes(r->t, i), (size_t)tensor_bytes(r->t, m)),
                 ERR_CHANGED,
                 "%s: was changed while it was read: tensor %s has other bytes than the first time",
                 r->s->path, r->t->name);
        }
        if (!in_place) PASS(pass_on(r, p, at, n, e));
    }
    return OK;
}

static enum status widen(const struct reading *r, const char *p, int64_t skip, int64_t at,
                         int64_t n, struct err *e)
{
    float *to = (float *)r->to + at;
    (void)e;
    if (r->t->gguf)
        gguf_dequantize(r->t->gguf, p, skip, n, to);
    else
        dtype_widen(to, p + tensor_bytes(r->t, skip), r->t->dtype, n);
    return OK;
}

/* As safetensors_read_range, of a tensor with heads whose halves are interleaved: row 2 i + h of
 * the file is row i of half h. */
static enum status read_heads(const struct safetensors *s, const struct tensor_entry *t,
                              int64_t first, int64_t n, float *dst, struct err *e)
{
    const int64_t cols = t->n_elements / t->shape[0], half = t->interleaved / 2;
    const int64_t head = t->interleaved * cols;
    AUTO_FREE float *stored = NULL;
    struct tensor_entry rows = *t;
    rows.interleaved = 0;
    PASS(mem_alloc(&stored, head, sizeof *stored, "a head's rows", e));
    for (int64_t at = first, count; at < first + n; at += count) {
        const int64_t begin = at - at % head, row = at % head / cols, skip = at % cols;
        count = min64(cols - skip, first + n - at);
        if (at == first || at == begin)
            PASS(safetensors_read_range(s, &rows, begin, head, stored, e));
        memcpy(dst + (at - first), stored + (2 * (row % half) + row / half) * cols + skip,
               (size_t)count * sizeof *dst);
    }
    return OK;
}

enum status safetensors_read_range(const struct safetensors *s, const struct tensor_entry *t,
                                   int64_t first, int64_t n, float *dst, struct err *e)
{
    struct reading r = {.s = s, .t = t, .first = first, .n = n, .take = widen, .to = dst};
    if (t->interleaved) return read_heads(s, t, first, n, dst, e);
    NEED(dtype_is_float(t->dtype), ERR_FORMAT, "%s: tensor %s: %s where a floating type is needed",
         s->path, t->name, dtype_name(t->dtype));
    if (t->dtype == DTYPE_F32 && !t->gguf) r.dst = (char *)dst;
    return read_elements(&r, e);
}

enum status safetensors_read_stored(const struct safetensors *s, const struct tensor_entry *t,
                                    int64_t first, int64_t n, void *dst, struct err *e)
{
    if (t->gguf) return safetensors_read_range(s, t, first, n, dst, e);
    return read_elements(&(struct reading){.s = s, .t = t, .first = first, .n = n, .dst = dst}, e);
}

/* The i-th element of a buffer of integers, little endian as dtype.c asserts of the machine. */
static int64_t integer_at(const char *buffer, enum dtype t, int64_t i)
{
    const int64_t size = (int64_t)dtype_size(t);
    const bool is_signed = t != DTYPE_U8 && t != DTYPE_BOOL;
    uint64_t bits = 0;
    memcpy(&bits, buffer + i * size, (size_t)size);
    if (is_signed && size < 8 && bits >> (8 * size - 1)) bits |= ~0ull << 8 * size;
    return (int64_t)bits;
}

static enum status convert(const struct reading *r, const char *p, int64_t skip, int64_t at,
                           int64_t n, struct err *e)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t value = integer_at(p, r->t->dtype, skip + i);
        NEED(value >= INT32_MIN && value <= INT32_MAX, ERR_FORMAT,
             "%s: tensor %s: element %lld is %lld, which does not fit 32 bits", r->s->path,
             r->t->name, (long long)(at + i), (long long)value);
        ((int32_t *)r->to)[at + i] = (int32_t)value;
    }
    return OK;
}

enum status safetensors_read_i32(const struct safetensors *s, const struct tensor_entry *t,
                                 int32_t *dst, struct err *e)
{
    NEED(!dtype_is_float(t->dtype), ERR_FORMAT, "%s: tensor %s: %s where an integer type is needed",
         s->path, t->name, dtype_name(t->dtype));
    return read_elements(
        &(struct reading){.s = s, .t = t, .n = t->n_elements, .take = convert, .to = dst}, e);
}

enum status safetensors_read_slice(const struct safetensors *s, const struct tensor_entry *t,
                                   int64_t i, struct err *e)
{
    return read_elements(&(struct reading){.s = s, .t = t, .first = i * DIGEST_SLICE, .n = 1}, e);
}
