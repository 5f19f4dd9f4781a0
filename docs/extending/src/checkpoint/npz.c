/* One model.npz, as numpy.savez writes it: a zip archive of uncompressed arrays, each a header
 * {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and the data. */
#include "checkpoint/weight_format.h"
#include "checkpoint/zip.h"
#include "util/mem.h"

enum { START = 10, HEADER_MAX = 4096 }; /* magic, version, length of the header */

static enum status read_shape(const char *header, struct tensor_entry *t)
{
    const char *at = strstr(header, "'<f4', 'fortran_order': False, 'shape': (");
    char *end;
    if (!at) return ERR_FORMAT;
    t->dtype = DTYPE_F32;
    for (at = strchr(at, '(') + 1; *at != ')'; at = end + strspn(end, ", ")) {
        if (t->n_dims == TENSOR_DIMS) return ERR_FORMAT;
        t->shape[t->n_dims++] = strtoll(at, &end, 10);
        if (end == at) return ERR_FORMAT;
    }
    return tensor_entry_count(t) ? OK : ERR_FORMAT;
}

static enum status read_array(const struct zip *z, const struct zip_member *m,
                              struct tensor_entry *t, struct err *e)
{
    unsigned char start[START];
    char header[HEADER_MAX + 1] = "";
    int64_t n;
    PASS(mem_format(&t->name, e, "%.*s", (int)strlen(m->name) - 4, m->name)); /* without .npy */
    PASS(zip_locate(z, m, &t->offset, e));
    PASS(tensor_file_read(z->fd, z->path, m->name, t->offset, start, START, e));
    n = start[8] + 256 * start[9];
    NEED(memcmp(start, "\x93NUMPY\x01", 7) == 0 && n <= HEADER_MAX, ERR_FORMAT,
         "%s: %s is not in version 1 of numpy's format", z->path, m->name);
    PASS(tensor_file_read(z->fd, z->path, m->name, t->offset + START, header, n, e));
    NEED(read_shape(header, t) == OK && START + n + t->n_bytes == m->size, ERR_FORMAT,
         "%s: %s is no whole array of f32 in C's order", z->path, m->name);
    t->offset += START + n;
    return OK;
}

static enum status npz_open(const char *path, struct safetensors *out, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    CLEANUP(zip_free) struct zip z = {0};
    int64_t size = 0;
    PASS(tensor_file_open(path, &s, &size, e));
    PASS(zip_open(path, s.fd, size, &z, e));
    PASS(mem_zero(&s.entries, z.n, sizeof *s.entries, path, e));
    for (; s.n < z.n; s.n++) PASS(read_array(&z, &z.members[s.n], &s.entries[s.n], e));
    qsort(s.entries, (size_t)s.n, sizeof *s.entries, name_compare);
    PASS(tensor_file_hash(&s, z.directory, z.n_directory, 0, size, e));
    *out = s;
    s = (struct safetensors){.fd = -1};
    return OK;
}

const struct weight_format format_npz = {.file = "model.npz", .open = npz_open};
