/* The header of a safetensors file. All of it is checked before any of it is used. */
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_format.h"
#include "util/json.h"
#include "util/mem.h"

/* The reference implementation allows 100 MB, but parsed JSON takes many times the memory of its
 * text. A tensor takes 100 to 150 bytes, so this is enough for a hundred thousand per file. */
enum { HEADER_BYTES_MAX = 16 << 20, LENGTH_BYTES = 8 };

static enum status read_header(const struct safetensors *s, int64_t size, char **header, int64_t *n,
                               struct err *e)
{
    uint64_t length = 0;
    AUTO_FREE char *text = NULL;
    NEED(size >= LENGTH_BYTES, ERR_FORMAT,
         "%s: %lld bytes are too few for a safetensors file (was its download cut short?)", s->path,
         (long long)size);
    PASS(tensor_file_read(s->fd, s->path, "header length", 0, &length, LENGTH_BYTES, e));
    NEED(length <= HEADER_BYTES_MAX, ERR_FORMAT,
         "%s: header of %llu bytes, more than the %d that are read: not a safetensors file?",
         s->path, (unsigned long long)length, HEADER_BYTES_MAX);
    NEED((int64_t)length <= size - LENGTH_BYTES, ERR_FORMAT,
         "%s: header of %llu bytes in a file of %lld (was its download cut short?)", s->path,
         (unsigned long long)length, (long long)size);
    NEED(length >= 2, ERR_FORMAT, "%s: header of %llu bytes: a JSON object is expected", s->path,
         (unsigned long long)length);
    PASS(mem_alloc(&text, (int64_t)length, 1, s->path, e));
    PASS(tensor_file_read(s->fd, s->path, "header", LENGTH_BYTES, text, (int64_t)length, e));
    NEED(text[0] == '{', ERR_FORMAT, "%s: the header does not start with '{'", s->path);
    *header = text;
    *n = (int64_t)length;
    text = NULL;
    return OK;
}

/* Short lists and objects take most memory when parsed. What no description of tensors needs is
 * refused before parsing: deep nesting, long lists, brackets without content. */
enum { FORM_DEPTH = 8, FORM_LIST = 64, FORM_BRACKET_BYTES = 16 };

static enum status check_form(const char *path, const char *text, int64_t n, struct err *e)
{
    int64_t commas[FORM_DEPTH + 1] = {0}, brackets = 0;
    bool is_list[FORM_DEPTH + 1] = {false}, in_string = false;
    int depth = 0;
    for (int64_t i = 0; i < n; i++) {
        char c = text[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            NEED(++depth <= FORM_DEPTH, ERR_FORMAT,
                 "%s: the header is nested deeper than %d levels at byte %lld", path, FORM_DEPTH,
                 (long long)i);
            brackets++;
            is_list[depth] = c == '[';
            commas[depth] = 0;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',') {
            NEED(++commas[depth] < FORM_LIST || !is_list[depth], ERR_FORMAT,
                 "%s: the header has a list of more than %d values at byte %lld", path, FORM_LIST,
                 (long long)i);
        }
    }
    NEED(brackets <= 2 + n / FORM_BRACKET_BYTES, ERR_FORMAT,
         "%s: the header's %lld lists and objects are too short to describe tensors", path,
         (long long)brackets);
    return OK;
}

static enum status parse_shape(const char *path, const json_t *shape, struct tensor_entry *t,
                               struct err *e)
{
    NEED(json_is_array(shape), ERR_FORMAT, "%s: tensor %s: shape is not an array", path, t->name);
    NEED(json_array_size(shape) <= TENSOR_DIMS, ERR_FORMAT,
         "%s: tensor %s: %zu dimensions, at most %d are read", path, t->name,
         json_array_size(shape), TENSOR_DIMS);
    t->n_dims = (int)json_array_size(shape);
    for (int i = 0; i < t->n_dims; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        NEED(json_is_integer(dim) && json_integer_value(dim) >= 0, ERR_FORMAT,
             "%s: tensor %s: dimension %d is not a non-negative integer", path, t->name, i);
        t->shape[i] = json_integer_value(dim);
    }
    NEED(tensor_entry_count(t), ERR_FORMAT,
         "%s: tensor %s: the number of its bytes does not fit 63 bits", path, t->name);
    return OK;
}

/* data_offsets count from the header's end, which is at byte `data` of the file. */
static enum status parse_offsets(const char *path, const json_t *offsets, int64_t data,
                                 int64_t size, struct tensor_entry *t, struct err *e)
{
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    NEED(json_array_size(offsets) == 2 && json_is_integer(first) && json_is_integer(second),
         ERR_FORMAT, "%s: tensor %s: data_offsets are not two integers", path, t->name);
    int64_t begin = json_integer_value(first), end = json_integer_value(second);
    NEED(begin >= 0 && begin <= end, ERR_FORMAT,
         "%s: tensor %s: data_offsets [%lld, %lld] are not a range", path, t->name,
         (long long)begin, (long long)end);
    NEED(end <= size - data, ERR_FORMAT,
         "%s: tensor %s ends at byte %lld of %lld bytes of data (was the file's download cut "
         "short?)",
         path, t->name, (long long)end, (long long)(size - data));
    NEED(end - begin == t->n_bytes, ERR_FORMAT,
         "%s: tensor %s: its shape and type %s ask for %lld bytes, its data_offsets for %lld", path,
         t->name, dtype_name(t->dtype), (long long)t->n_bytes, (long long)(end - begin));
    t->offset = data + begin;
    return OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct tensor_entry *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset) return (*x)->offset < (*y)->offset ? -1 : 1;
    /* an empty tensor comes before one that starts at the same place */
    return ((*x)->n_bytes > (*y)->n_bytes) - ((*x)->n_bytes < (*y)->n_bytes);
}

static enum status parse_header(struct safetensors *s, const json_t *root, int64_t data,
                                int64_t size, struct err *e)
{
    const char *name;
    json_t *value;
    PASS(mem_zero(&s->entries, (int64_t)json_object_size(root), sizeof *s->entries, "tensor list",
                  e));
    json_object_foreach((json_t *)(uintptr_t)root, name, value) {
        if (strcmp(name, "__metadata__") == 0) {
            const char *key;
            json_t *note;
            NEED(json_is_object(value), ERR_FORMAT, "%s: __metadata__ is not an object", s->path);
            json_object_foreach(value, key, note)
                NEED(json_is_string(note), ERR_FORMAT, "%s: __metadata__: %s is not a string",
                     s->path, key);
            continue;
        }
        struct tensor_entry *t = &s->entries[s->n++];
        PASS(mem_string(&t->name, name, e));
        NEED(json_is_object(value), ERR_FORMAT, "%s: tensor %s: not an object", s->path, name);
        const char *dtype = json_string_value(json_object_get(value, "dtype"));
        NEED(dtype, ERR_FORMAT, "%s: tensor %s: dtype is missing or not a string", s->path, name);
        t->dtype = dtype_find(dtype);
        NEED(t->dtype != DTYPE_N, ERR_FORMAT, "%s: tensor %s: dtype %s is not supported", s->path,
             name, dtype);
        PASS(parse_shape(s->path, json_object_get(value, "shape"), t, e));
        PASS(parse_offsets(s->path, json_object_get(value, "data_offsets"), data, size, t, e));
    }
    /* Checks that the tensors cover the file from the header's end on, without gap or overlap. */
    AUTO_FREE const struct tensor_entry **order = NULL;
    int64_t at = data;
    PASS(mem_alloc(&order, s->n, sizeof *order, "tensor list", e));
    for (int64_t i = 0; i < s->n; i++) order[i] = &s->entries[i];
    qsort(order, (size_t)s->n, sizeof *order, compare_offsets);
    for (int64_t i = 0; i < s->n; i++) {
        NEED(order[i]->offset >= at, ERR_FORMAT, "%s: tensor %s overlaps tensor %s", s->path,
             order[i]->name, order[i - 1]->name);
        NEED(order[i]->offset == at, ERR_FORMAT,
             "%s: %lld bytes before tensor %s belong to no tensor", s->path,
             (long long)(order[i]->offset - at), order[i]->name);
        at += order[i]->n_bytes;
    }
    NEED(at == size, ERR_FORMAT, "%s: %lld bytes after the last tensor belong to none", s->path,
         (long long)(size - at));
    qsort(s->entries, (size_t)s->n, sizeof *s->entries, name_compare);
    return OK;
}

enum status safetensors_open(const char *path, struct safetensors *out, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    int64_t size = 0, n = 0, data;
    AUTO_FREE char *header = NULL;
    json_auto_t *root = NULL;
    PASS(tensor_file_open(path, &s, &size, e));
    PASS(read_header(&s, size, &header, &n, e));
    PASS(check_form(path, header, n, e));
    PASS(json_read_text(path, header, (size_t)n, &root, e));
    data = LENGTH_BYTES + n;
    PASS(parse_header(&s, root, data, size, e));
    PASS(tensor_file_hash(&s, header, n, data, size, e));
    *out = s;
    s = (struct safetensors){.fd = -1};
    return OK;
}

const struct weight_format format_safetensors = {
    .file = "model.safetensors",
    .index = "model.safetensors.index.json",
    .open = safetensors_open,
};
