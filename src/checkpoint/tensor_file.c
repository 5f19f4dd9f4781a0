#include "checkpoint/tensor_file.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/mem.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

enum { SAMPLES = 16, SAMPLE_BYTES = 4096 };

enum status tensor_file_hash(struct safetensors *s, const void *header, int64_t n, int64_t begin,
                             int64_t size, struct err *e)
{
    enum status st = OK;
    char header_hex[HASH_HEX], data_hex[HASH_HEX], text[96];
    char *data = NULL;
    int64_t length = size - begin, got = 0;
    TRY(mem_alloc(&data, SAMPLES * SAMPLE_BYTES, 1, "samples of the weights", e));
    if (length <= SAMPLES * SAMPLE_BYTES) {
        TRY(tensor_file_read(s->fd, s->path, "data", begin, data, length, e));
        got = length;
    } else {
        for (int64_t i = 0; i < SAMPLES; i++, got += SAMPLE_BYTES) {
            /* span i / last, without the product that could overflow */
            int64_t span = length - SAMPLE_BYTES, last = SAMPLES - 1;
            int64_t at = begin + span / last * i + span % last * i / last;
            TRY(tensor_file_read(s->fd, s->path, "data", at, data + got, SAMPLE_BYTES, e));
        }
    }
    hash_bytes(header, (size_t)n, header_hex);
    hash_bytes(data, (size_t)got, data_hex);
    snprintf(text, sizeof text, "%lld %s %s", (long long)size, header_hex, data_hex);
    hash_text(text, s->hash);
done:
    free(data);
    return st;
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

static enum status name_read(const struct safetensors *s, const struct tensor_entry *t,
                             int64_t offset, void *dst, int64_t n, struct err *e)
{
    char what[160];
    snprintf(what, sizeof what, "tensor %s", t->name);
    return tensor_file_read(s->fd, s->path, what, offset, dst, n, e);
}

enum status safetensors_read_range(const struct safetensors *s, const struct tensor_entry *t,
                                   int64_t first, int64_t n, float *dst, struct err *e)
{
    enum status st = OK;
    char *buffer = NULL;
    int64_t size = (int64_t)dtype_size(t->dtype), step = BUFFER_BYTES / size;
    ENSURE(dtype_is_float(t->dtype), ERR_FORMAT,
           "%s: tensor %s: %s where a floating type is needed", s->path, t->name,
           dtype_name(t->dtype));
    if (t->dtype == DTYPE_F32) {
        TRY(name_read(s, t, t->offset + first * size, dst, n * size, e));
        goto done;
    }
    TRY(mem_alloc(&buffer, BUFFER_BYTES, 1, "read buffer", e));
    for (int64_t i = 0; i < n; i += step) {
        int64_t m = n - i < step ? n - i : step;
        TRY(name_read(s, t, t->offset + (first + i) * size, buffer, m * size, e));
        dtype_widen(dst + i, buffer, t->dtype, m);
    }
done:
    free(buffer);
    return st;
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

enum status safetensors_read_i32(const struct safetensors *s, const struct tensor_entry *t,
                                 int32_t *dst, struct err *e)
{
    enum status st = OK;
    char *buffer = NULL;
    int64_t size = (int64_t)dtype_size(t->dtype), step = BUFFER_BYTES / size;
    ENSURE(!dtype_is_float(t->dtype), ERR_FORMAT,
           "%s: tensor %s: %s where an integer type is needed", s->path, t->name,
           dtype_name(t->dtype));
    TRY(mem_alloc(&buffer, BUFFER_BYTES, 1, "read buffer", e));
    for (int64_t i = 0; i < t->n_elements; i += step) {
        int64_t n = t->n_elements - i < step ? t->n_elements - i : step;
        TRY(name_read(s, t, t->offset + i * size, buffer, n * size, e));
        for (int64_t k = 0; k < n; k++) {
            int64_t value = integer_at(buffer, t->dtype, k);
            ENSURE(value >= INT32_MIN && value <= INT32_MAX, ERR_FORMAT,
                   "%s: tensor %s: element %lld is %lld, which does not fit 32 bits", s->path,
                   t->name, (long long)(i + k), (long long)value);
            dst[i + k] = (int32_t)value;
        }
    }
done:
    free(buffer);
    return st;
}
