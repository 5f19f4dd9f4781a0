/* The container. All of a file's header is checked before any of it is used. */
#include "checkpoint/gguf.h"
#include "checkpoint/weight_format.h"
#include "util/mem.h"
#include "util/num.h"

/* Tokenizers of 250,000 tokens take 20 MB. Longer arrays are those of tokenizers. */
enum { HEADER_MAX = 64 << 20, HEADER_FIRST = 1 << 20, ARRAY_KEPT = 1024, DIMS = 4 };

/* A header that is being read. */
struct header {
    struct safetensors *s;
    int64_t size;   /* of the file */
    uint8_t *bytes; // (have) its beginning
    int64_t have, capacity, at;
};

static void header_free(struct header *h)
{
    free(h->bytes);
}

/* *p = the next n bytes, until the next call. */
static enum status take(struct header *h, uint64_t n, const char *what, const uint8_t **p,
                        struct err *e)
{
    const char *path = h->s->path;
    NEED(n <= (uint64_t)(h->size - h->at), ERR_FORMAT,
         "%s: %s at byte %lld: %llu bytes, but the file ends at byte %lld (was its download cut "
         "short?)",
         path, what, (long long)h->at, (unsigned long long)n, (long long)h->size);
    const int64_t end = h->at + (int64_t)n;
    NEED(end <= HEADER_MAX, ERR_FORMAT, "%s: its header is longer than the %d bytes that are read",
         path, HEADER_MAX);
    if (end > h->have) {
        const int64_t have = min64(h->size, max64(max64(end, 2 * h->have), HEADER_FIRST));
        PASS(mem_grow(&h->bytes, have - 1, &h->capacity, 1, e));
        PASS(tensor_file_read(h->s->fd, path, "header", h->have, h->bytes + h->have, have - h->have,
                              e));
        h->have = have;
    }
    *p = h->bytes + h->at;
    h->at = end;
    return OK;
}

/* *out = an integer of its size. */
#define TAKE_INTEGER(h, what, out, e) take_bytes(h, what, out, sizeof *(out), e)
static enum status take_bytes(struct header *h, const char *what, void *out, size_t n,
                              struct err *e)
{
    const uint8_t *p;
    PASS(take(h, n, what, &p, e));
    memcpy(out, p, n);
    return OK;
}

/* *out (the caller frees) = a string, which ends at its first zero. */
static enum status take_string(struct header *h, const char *what, char **out, struct err *e)
{
    uint64_t n;
    const uint8_t *p;
    PASS(TAKE_INTEGER(h, what, &n, e));
    PASS(take(h, n, what, &p, e));
    return mem_format(out, e, "%.*s", (int)n, (const char *)p);
}

/* --- metadata --- */

enum { TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPE_F64 = 12, TYPES };
static const struct {
    int64_t bytes;
    bool is_signed;
} types[TYPES] = {{1, false}, {1, true}, {2, false}, {2, true}, {4, false}, {4, true}, {4, true},
                  {1, false}, {0, 0},    {0, 0},     {8, true}, {8, true},  {8, true}};

/* NULL: out of memory, or a number that JSON does not have. */
static json_t *number(uint32_t type, const uint8_t *p)
{
    uint64_t bits = 0;
    float f32;
    double f64;
    const int64_t size = types[type].bytes;
    memcpy(&bits, p, (size_t)size); /* little endian, as dtype.c asserts of the machine */
    memcpy(&f32, p, type == TYPE_F32 ? sizeof f32 : 0);
    memcpy(&f64, p, type == TYPE_F64 ? sizeof f64 : 0);
    if (type == TYPE_F32) return json_real((double)f32);
    if (type == TYPE_F64) return json_real(f64);
    if (type == TYPE_BOOL) return json_boolean(bits != 0);
    if (types[type].is_signed && size < 8 && bits >> (8 * size - 1)) bits |= ~0ull << 8 * size;
    return json_integer((json_int_t)bits);
}

/* *out = the array; NULL: it is of strings, or long. */
static enum status take_array(struct header *h, const char *key, json_t **out, struct err *e)
{
    uint32_t type;
    uint64_t n;
    const uint8_t *p;
    PASS(TAKE_INTEGER(h, key, &type, e));
    PASS(TAKE_INTEGER(h, key, &n, e));
    NEED(type < TYPES && type != TYPE_ARRAY, ERR_FORMAT,
         "%s: %s: an array of values of type %u, which is not read", h->s->path, key, type);
    for (uint64_t i = 0; type == TYPE_STRING && i < n; i++) {
        uint64_t length;
        PASS(TAKE_INTEGER(h, key, &length, e));
        PASS(take(h, length, key, &p, e));
    }
    if (type == TYPE_STRING) return OK;
    NEED(n <= (uint64_t)h->size, ERR_FORMAT, "%s: %s: %llu values in a file of %lld bytes",
         h->s->path, key, (unsigned long long)n, (long long)h->size);
    PASS(take(h, n * (uint64_t)types[type].bytes, key, &p, e));
    if (n > ARRAY_KEPT) return OK;
    *out = json_array();
    for (uint64_t i = 0; i < n; i++)
        (void)json_array_append_new(*out, number(type, p + i * (uint64_t)types[type].bytes));
    return OK;
}

static enum status take_value(struct header *h, const char *key, json_t **out, struct err *e)
{
    uint32_t type;
    const uint8_t *p;
    char *text;
    PASS(TAKE_INTEGER(h, key, &type, e));
    NEED(type < TYPES, ERR_FORMAT, "%s: %s: a value of type %u; there is none", h->s->path, key,
         type);
    if (type == TYPE_ARRAY) return take_array(h, key, out, e);
    if (type == TYPE_STRING) {
        PASS(take_string(h, key, &text, e));
        *out = json_string(text); /* NULL: no UTF-8 */
        free(text);
        return OK;
    }
    PASS(take(h, (uint64_t)types[type].bytes, key, &p, e));
    *out = number(type, p);
    return OK;
}

/* What is not kept is left out. */
static enum status take_metadata(struct header *h, uint64_t n, json_t *out, struct err *e)
{
    AUTO_FREE char *key = NULL;
    for (uint64_t i = 0; i < n; i++) {
        json_t *value = NULL;
        mem_drop(&key);
        PASS(take_string(h, "a key of the metadata", &key, e));
        PASS(take_value(h, key, &value, e));
        const bool twice = json_object_get(out, key) != NULL;
        if (value) (void)json_object_set_new(out, key, value);
        NEED(!twice, ERR_FORMAT, "%s: it has the key %s twice", h->s->path, key);
    }
    return json_whole(e);
}

/* --- tensors --- */

/* A dimension is innermost first; a whole block lies in the innermost one. */
static enum status take_shape(struct header *h, struct tensor_entry *t, struct err *e)
{
    const char *path = h->s->path;
    uint32_t n, type;
    char known[200];
    PASS(TAKE_INTEGER(h, t->name, &n, e));
    NEED(n >= 1 && n <= DIMS, ERR_FORMAT, "%s: tensor %s: %u dimensions; expected 1 to %d", path,
         t->name, n, DIMS);
    t->n_dims = (int)n;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        uint64_t size;
        PASS(TAKE_INTEGER(h, t->name, &size, e));
        NEED(size >= 1 && size <= INT64_MAX, ERR_FORMAT,
             "%s: tensor %s: a dimension of %llu; expected a positive number", path, t->name,
             (unsigned long long)size);
        t->shape[i] = (int64_t)size;
    }
    t->dtype = DTYPE_F32;
    NEED(tensor_entry_count(t), ERR_FORMAT,
         "%s: tensor %s: the number of its bytes does not fit 63 bits", path, t->name);
    PASS(TAKE_INTEGER(h, t->name, &type, e));
    t->gguf = gguf_type_find(type);
    gguf_type_list(known, sizeof known);
    NEED(t->gguf, ERR_FORMAT, "%s: tensor %s: elements of type %u are not read (read are %s)", path,
         t->name, type, known);
    NEED(t->shape[t->n_dims - 1] % t->gguf->elements == 0, ERR_FORMAT,
         "%s: tensor %s: rows of %lld elements are no whole blocks of %lld, as %s has them", path,
         t->name, (long long)t->shape[t->n_dims - 1], (long long)t->gguf->elements, t->gguf->name);
    t->n_bytes = gguf_bytes(t->gguf, t->n_elements);
    return OK;
}

static int64_t aligned(int64_t n, int64_t alignment)
{
    return (n + alignment - 1) / alignment * alignment;
}

/* Tensors follow each other, each from a multiple of the alignment on; t->offset counts from the
 * first one until the header's end is known. */
static enum status take_tensors(struct header *h, uint64_t n, int64_t alignment, struct err *e)
{
    enum { LEAST = 32 }; /* bytes that describe a tensor */
    struct safetensors *s = h->s;
    int64_t at = 0;
    NEED(n <= (uint64_t)(h->size / LEAST), ERR_FORMAT, "%s: %llu tensors in a file of %lld bytes",
         s->path, (unsigned long long)n, (long long)h->size);
    PASS(mem_zero(&s->entries, (int64_t)n, sizeof *s->entries, s->path, e));
    while (s->n < (int64_t)n) {
        struct tensor_entry *t = &s->entries[s->n];
        uint64_t offset;
        PASS(take_string(h, "a tensor's name", &t->name, e));
        s->n++;
        PASS(take_shape(h, t, e));
        PASS(TAKE_INTEGER(h, t->name, &offset, e));
        NEED(offset == (uint64_t)at, ERR_FORMAT,
             "%s: tensor %s begins at byte %llu of the data; expected %lld, after the one before",
             s->path, t->name, (unsigned long long)offset, (long long)at);
        t->offset = at;
        NEED(t->n_bytes <= h->size - at, ERR_FORMAT,
             "%s: tensor %s has %lld bytes, more than the file has left (was its download cut "
             "short?)",
             s->path, t->name, (long long)t->n_bytes);
        at = aligned(at + t->n_bytes, alignment);
    }
    return OK;
}

/* --- the file --- */

static enum status take_start(struct header *h, uint64_t *n_tensors, uint64_t *n_keys,
                              struct err *e)
{
    const uint8_t *magic;
    const char *path = h->s->path;
    uint32_t version;
    NEED(h->size >= 4, ERR_FORMAT, "%s: %lld bytes are too few for a GGUF file", path,
         (long long)h->size);
    PASS(take(h, 4, "start", &magic, e));
    NEED(memcmp(magic, "GGUF", 4) == 0, ERR_FORMAT,
         "%s: not a GGUF file; other checkpoints are folders with config.json and weights", path);
    PASS(TAKE_INTEGER(h, "version", &version, e));
    NEED(version == 2 || version == 3, ERR_FORMAT,
         "%s: GGUF version %u is not read; expected 2 or 3, little endian", path, version);
    PASS(TAKE_INTEGER(h, "number of tensors", n_tensors, e));
    return TAKE_INTEGER(h, "number of keys", n_keys, e);
}

static enum status read_alignment(const char *path, const json_t *metadata, int64_t *out,
                                  struct err *e)
{
    enum { MOST = 1 << 16 };
    const json_t *value = json_object_get(metadata, "general.alignment");
    *out = value ? json_integer_value(value) : 32;
    NEED(*out >= 1 && *out <= MOST && (*out & (*out - 1)) == 0, ERR_FORMAT,
         "%s: general.alignment is %lld; expected a power of two up to %d", path, (long long)*out,
         MOST);
    return OK;
}

static enum status gguf_open(const char *path, struct safetensors *out, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    CLEANUP(header_free) struct header h = {.s = &s};
    json_auto_t *metadata = json_object();
    PASS(tensor_file_open(path, &s, &h.size, e));
    uint64_t n_tensors = 0, n_keys = 0;
    int64_t alignment;
    PASS(take_start(&h, &n_tensors, &n_keys, e));
    PASS(take_metadata(&h, n_keys, metadata, e));
    PASS(read_alignment(s.path, metadata, &alignment, e));
    PASS(take_tensors(&h, n_tensors, alignment, e));
    const int64_t data = min64(aligned(h.at, alignment), h.size);
    for (int64_t i = 0; i < s.n; i++) {
        struct tensor_entry *t = &s.entries[i];
        NEED(data + t->offset + t->n_bytes <= h.size, ERR_FORMAT,
             "%s: tensor %s ends at byte %lld of a file of %lld (was its download cut short?)",
             s.path, t->name, (long long)(data + t->offset + t->n_bytes), (long long)h.size);
        t->offset += data;
    }
    PASS(tensor_file_hash(&s, h.bytes, h.at, data, h.size, e));
    PASS(gguf_adapt(&s, metadata, e));
    *out = s;
    s = (struct safetensors){.fd = -1};
    return OK;
}

const struct weight_format format_gguf = {.file = "model.gguf", .open = gguf_open};
