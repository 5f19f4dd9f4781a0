/* One pytorch_model*.bin, as torch.save writes it since PyTorch 1.6: a zip archive of a pickle
 * (pickle.h) and uncompressed storages, which tensors may share. The digest covers the archive's
 * directory, which has the checksums of all members. Refused are compressed members, entries that
 * are not part of a state dict, and tensors that are not contiguous. */
#include "checkpoint/pickle.h"
#include "checkpoint/weight_format.h"
#include "checkpoint/zip.h"
#include "util/mem.h"

/* A tensor takes a little over 100 bytes, so this is enough for thirty thousand. A hostile pickle
 * takes up to a hundred times its bytes when it is read. */
enum { PICKLE_MAX = 4 << 20 };

/* Files of PyTorch before 1.6 begin with a pickle of this number. */
static const unsigned char legacy_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                             0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

static enum status find_member(const struct zip *z, const char *prefix, const char *folder,
                               const char *key, const struct zip_member **member, struct err *e)
{
    AUTO_FREE char *name = NULL;
    PASS(mem_format(&name, e, "%s%s%s", prefix, folder, key));
    *member = zip_find(z, name);
    return OK;
}

/* *data = the bytes of a small member, NULL when there is none of that name. */
static enum status read_member(const struct zip *z, const char *prefix, const char *key,
                               int64_t max, char **data, int64_t *n, struct err *e)
{
    const struct zip_member *m = NULL;
    int64_t offset = 0;
    AUTO_FREE char *bytes = NULL;
    PASS(find_member(z, prefix, "", key, &m, e));
    if (!m) return OK;
    NEED(m->size <= max, ERR_FORMAT, "%s: member %s has %lld bytes, at most %lld are read", z->path,
         m->name, (long long)m->size, (long long)max);
    PASS(zip_locate(z, m, &offset, e));
    PASS(mem_alloc(&bytes, m->size, 1, m->name, e));
    PASS(tensor_file_read(z->fd, z->path, m->name, offset, bytes, m->size, e));
    *data = TAKE(bytes);
    *n = m->size;
    return OK;
}

/* Row-major without gaps. Strides of dimensions of size 1 and of empty tensors do not matter. */
static bool is_contiguous(const struct pickle_tensor *p, int64_t n_elements)
{
    int64_t stride = 1;
    for (int i = p->n_dims - 1; i >= 0 && n_elements > 0; i--) {
        if (p->shape[i] != 1 && p->stride[i] != stride) return false;
        stride *= p->shape[i];
    }
    return true;
}

static enum status make_entry(const struct zip *z, const char *prefix, struct pickle_tensor *p,
                              struct tensor_entry *t, struct err *e)
{
    t->dtype = p->dtype;
    t->n_dims = p->n_dims;
    memcpy(t->shape, p->shape, sizeof t->shape);
    NEED(tensor_entry_count(t), ERR_FORMAT, "%s: tensor %s: its number of bytes does not fit",
         z->path, p->name);
    NEED(is_contiguous(p, t->n_elements), ERR_FORMAT,
         "%s: tensor %s of shape %s is stored with strides %s, transposed or with gaps, which is "
         "not read: save it with .contiguous()",
         z->path, p->name, tensor_shape_text(p->shape, p->n_dims).text,
         tensor_shape_text(p->stride, p->n_dims).text);
    /* t->offset: where the tensor starts in the member that holds its storage. */
    const struct zip_member *m = NULL;
    int64_t size = (int64_t)dtype_size(p->dtype), data = 0, first = 0, last = 0;
    PASS(find_member(z, prefix, "data/", p->storage, &m, e));
    NEED(m, ERR_FORMAT, "%s: tensor %s: its storage data/%s is not in the archive", z->path,
         p->name, p->storage);
    NEED(p->storage_count >= 0 && m->size / size == p->storage_count && m->size % size == 0,
         ERR_FORMAT, "%s: tensor %s: its storage %s has %lld bytes where %lld %s are expected",
         z->path, p->name, m->name, (long long)m->size, (long long)p->storage_count,
         dtype_name(p->dtype));
    NEED(p->offset >= 0 && !__builtin_mul_overflow(p->offset, size, &first) &&
             !__builtin_add_overflow(first, t->n_bytes, &last) && last <= m->size,
         ERR_FORMAT, "%s: tensor %s reaches beyond its storage %s", z->path, p->name, m->name);
    PASS(zip_locate(z, m, &data, e));
    t->offset = data + first;
    t->name = p->name; /* the entry owns it from here */
    p->name = NULL;
    return OK;
}

static enum status pytorch_open(const char *path, struct safetensors *out, struct err *e)
{
    CLEANUP(safetensors_close) struct safetensors s = {.fd = -1};
    CLEANUP(zip_free) struct zip z = {0};
    CLEANUP(pickle_free) struct pickle_tensors all = {0};
    int64_t size = 0, n_pickle = 0;
    AUTO_FREE char *prefix = NULL, *pickle = NULL, *name = NULL;
    unsigned char start[sizeof legacy_magic] = {0};
    PASS(tensor_file_open(path, &s, &size, e));
    if (size >= (int64_t)sizeof start)
        PASS(tensor_file_read(s.fd, path, "start", 0, start, sizeof start, e));
    NEED(memcmp(start, legacy_magic, sizeof start) != 0, ERR_FORMAT,
         "%s: written in the format of PyTorch before 1.6, which is not read: load it and save "
         "it again with torch.save",
         path);
    PASS(zip_open(path, s.fd, size, &z, e));
    /* *prefix = "NAME/", the folder of the archive that has data.pkl, and with it all members. */
    for (int64_t i = 0; i < z.n && !prefix; i++) {
        const char *slash = strchr(z.members[i].name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0)
            PASS(mem_format(&prefix, e, "%.*s", (int)(slash + 1 - z.members[i].name),
                            z.members[i].name));
    }
    NEED(prefix, ERR_FORMAT, "%s: a zip archive without data.pkl: not written by torch.save?",
         z.path);
    AUTO_FREE char *order = NULL;
    int64_t n = 0;
    PASS(read_member(&z, prefix, "byteorder", 64, &order, &n, e));
    /* files of earlier versions do not say: they were written on little endian machines */
    NEED(!order || (n == 6 && memcmp(order, "little", 6) == 0), ERR_FORMAT,
         "%s: byte order %.*s is not read", z.path, (int)n, order);
    PASS(read_member(&z, prefix, "data.pkl", PICKLE_MAX, &pickle, &n_pickle, e));
    PASS(mem_format(&name, e, "%s: %sdata.pkl", path, prefix));
    PASS(pickle_read(name, pickle, (size_t)n_pickle, &all, e));
    PASS(mem_zero(&s.entries, all.n, sizeof *s.entries, path, e));
    s.n = all.n;
    qsort(all.tensors, (size_t)all.n, sizeof *all.tensors, name_compare);
    for (int64_t i = 0; i < all.n; i++) {
        NEED(i == 0 || strcmp(s.entries[i - 1].name, all.tensors[i].name) != 0, ERR_FORMAT,
             "%s: it has tensor %s twice", path, all.tensors[i].name);
        PASS(make_entry(&z, prefix, &all.tensors[i], &s.entries[i], e));
    }
    PASS(tensor_file_hash(&s, z.directory, z.n_directory, 0, size, e));
    *out = s;
    s = (struct safetensors){.fd = -1};
    return OK;
}

const struct weight_format format_pytorch = {
    .file = "pytorch_model.bin",
    .index = "pytorch_model.bin.index.json",
    .open = pytorch_open,
};
