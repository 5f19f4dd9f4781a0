#include "checkpoint/zip.h"
#include "checkpoint/tensor_file.h"
#include "util/mem.h"

enum {
    END_BYTES = 22,
    LOCATOR64_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MAX = 65535,
    ZIP64_EXTRA = 1,
};
/* A million members of 200 bytes would be 200 MB; a state dict has some hundreds. */
enum { DIRECTORY_MAX = 64 << 20 };

static const char sign_entry[4] = "PK\1\2", sign_local[4] = "PK\3\4", sign_end[4] = "PK\5\6",
                  sign_end64[4] = "PK\6\6", sign_locator64[4] = "PK\6\7";

static uint64_t get(const char *p, int bytes)
{
    uint64_t value = 0;
    memcpy(&value, p, (size_t)bytes); /* little endian, as dtype.c asserts of the machine */
    return value;
}

struct directory {
    uint64_t offset, size, entries;
};

/* The zip64 end record, which replaces the old one when a field of that overflows. */
static enum status find_end64(const struct zip *z, int64_t end, struct directory *d, struct err *e)
{
    char locator[LOCATOR64_BYTES], record[END64_BYTES];
    NEED(end >= LOCATOR64_BYTES, ERR_FORMAT, "%s: zip64 locator is missing", z->path);
    PASS(tensor_file_read(z->fd, z->path, "zip64 locator", end - LOCATOR64_BYTES, locator,
                          LOCATOR64_BYTES, e));
    NEED(memcmp(locator, sign_locator64, 4) == 0, ERR_FORMAT, "%s: zip64 locator is missing",
         z->path);
    uint64_t at = get(locator + 8, 8);
    NEED(end >= END64_BYTES && at <= (uint64_t)(end - END64_BYTES), ERR_FORMAT,
         "%s: zip64 record is outside the file", z->path);
    PASS(tensor_file_read(z->fd, z->path, "zip64 record", (int64_t)at, record, END64_BYTES, e));
    NEED(memcmp(record, sign_end64, 4) == 0, ERR_FORMAT, "%s: zip64 record is damaged", z->path);
    *d = (struct directory){
        .entries = get(record + 32, 8), .size = get(record + 40, 8), .offset = get(record + 48, 8)};
    return OK;
}

/* The end record is at the end of the file, followed only by a comment of unknown length. */
static enum status find_end(const struct zip *z, struct directory *d, struct err *e)
{
    AUTO_FREE char *tail = NULL;
    int64_t n = z->size < END_BYTES + COMMENT_MAX ? z->size : END_BYTES + COMMENT_MAX;
    int64_t at = n - END_BYTES, end;
    PASS(mem_alloc(&tail, n, 1, z->path, e));
    PASS(tensor_file_read(z->fd, z->path, "end of the archive", z->size - n, tail, n, e));
    while (at >= 0 && (memcmp(tail + at, sign_end, 4) != 0 ||
                       (int64_t)get(tail + at + 20, 2) != n - END_BYTES - at))
        at--;
    NEED(at >= 0, ERR_FORMAT, "%s: not a zip archive, or cut short (was its download interrupted?)",
         z->path);
    end = z->size - n + at;
    *d = (struct directory){.entries = get(tail + at + 10, 2),
                            .size = get(tail + at + 12, 4),
                            .offset = get(tail + at + 16, 4)};
    if (d->entries == 0xffff || d->size == 0xffffffff || d->offset == 0xffffffff)
        PASS(find_end64(z, end, d, e));
    NEED(d->size <= DIRECTORY_MAX && d->offset <= (uint64_t)end &&
             d->size <= (uint64_t)end - d->offset,
         ERR_FORMAT, "%s: the archive's directory is outside the file, or is too large", z->path);
    NEED(d->entries <= d->size / ENTRY_BYTES, ERR_FORMAT,
         "%s: the archive's directory is too short for its %llu members", z->path,
         (unsigned long long)d->entries);
    return OK;
}

/* The zip64 extra field has the values that overflow 32 bits, and only those, in this order:
 * uncompressed size, compressed size, offset. */
static bool apply_zip64(const char *extra, uint64_t n, uint64_t *field[3])
{
    while (n >= 4) {
        uint64_t id = get(extra, 2), size = get(extra + 2, 2);
        if (size > n - 4) return false;
        if (id == ZIP64_EXTRA) {
            const char *p = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != 0xffffffff) continue;
                if (size < 8) return false;
                *field[i] = get(p, 8);
                p += 8;
                size -= 8;
            }
            return true;
        }
        extra += 4 + size;
        n -= 4 + size;
    }
    return true;
}

/* One entry of the directory at p, `left` bytes before its end; *used = its length. */
static enum status read_entry(struct zip *z, const char *p, int64_t left, int64_t *used,
                              struct err *e)
{
    struct zip_member *m = &z->members[z->n++];
    NEED(left >= ENTRY_BYTES && memcmp(p, sign_entry, 4) == 0, ERR_FORMAT,
         "%s: the archive's directory is damaged at member %lld", z->path, (long long)z->n);
    int64_t n_name = (int64_t)get(p + 28, 2), n_extra = (int64_t)get(p + 30, 2);
    *used = ENTRY_BYTES + n_name + n_extra + (int64_t)get(p + 32, 2);
    NEED(*used <= left && n_name > 0 && !memchr(p + ENTRY_BYTES, '\0', (size_t)n_name), ERR_FORMAT,
         "%s: the archive's directory is damaged at member %lld", z->path, (long long)z->n);
    PASS(mem_format(&m->name, e, "%.*s", (int)n_name, p + ENTRY_BYTES));
    uint64_t packed = get(p + 20, 4), size = get(p + 24, 4), offset = get(p + 42, 4);
    bool fits = apply_zip64(p + ENTRY_BYTES + n_name, (uint64_t)n_extra,
                            (uint64_t *[3]){&size, &packed, &offset});
    m->flags = (int)get(p + 8, 2);
    m->method = (int)get(p + 10, 2);
    NEED(fits && offset <= (uint64_t)z->size && packed <= (uint64_t)z->size - offset &&
             (m->method != 0 || size == packed),
         ERR_FORMAT, "%s: member %s is outside the file, or its sizes contradict each other",
         z->path, m->name);
    m->size = (int64_t)packed;
    m->header = (int64_t)offset;
    return OK;
}

enum status zip_open(const char *path, int fd, int64_t size, struct zip *out, struct err *e)
{
    CLEANUP(zip_free) struct zip z = {.path = path, .fd = fd, .size = size};
    struct directory d = {0};
    PASS(find_end(&z, &d, e));
    z.n_directory = (int64_t)d.size;
    PASS(mem_alloc(&z.directory, z.n_directory, 1, path, e));
    PASS(tensor_file_read(fd, path, "directory of the archive", (int64_t)d.offset, z.directory,
                          z.n_directory, e));
    PASS(mem_zero(&z.members, (int64_t)d.entries, sizeof *z.members, path, e));
    for (int64_t at = 0; z.n < (int64_t)d.entries;) {
        int64_t used = 0;
        PASS(read_entry(&z, z.directory + at, z.n_directory - at, &used, e));
        at += used;
    }
    qsort(z.members, (size_t)z.n, sizeof *z.members, name_compare);
    for (int64_t i = 1; i < z.n; i++)
        NEED(strcmp(z.members[i - 1].name, z.members[i].name) != 0, ERR_FORMAT,
             "%s: two members are called %s", path, z.members[i].name);
    *out = z;
    z = (struct zip){0};
    return OK;
}

void zip_free(struct zip *z)
{
    for (int64_t i = 0; i < z->n; i++) free(z->members[i].name);
    free(z->members);
    free(z->directory);
    *z = (struct zip){0};
}

const struct zip_member *zip_find(const struct zip *z, const char *name)
{
    return z->n ? bsearch(&name, z->members, (size_t)z->n, sizeof *z->members, name_compare) : NULL;
}

enum status zip_locate(const struct zip *z, const struct zip_member *m, int64_t *offset,
                       struct err *e)
{
    char local[LOCAL_BYTES];
    NEED(m->method == 0 && !(m->flags & 1), ERR_FORMAT,
         "%s: member %s is compressed or encrypted (method %d), and only stored ones are read: "
         "save the file again with torch.save",
         z->path, m->name, m->method);
    NEED(m->header <= z->size - LOCAL_BYTES, ERR_FORMAT,
         "%s: the header of member %s is outside the file", z->path, m->name);
    PASS(tensor_file_read(z->fd, z->path, m->name, m->header, local, LOCAL_BYTES, e));
    NEED(memcmp(local, sign_local, 4) == 0, ERR_FORMAT, "%s: the header of member %s is damaged",
         z->path, m->name);
    /* its own lengths: the local extra field holds PyTorch's padding */
    *offset = m->header + LOCAL_BYTES + (int64_t)get(local + 26, 2) + (int64_t)get(local + 28, 2);
    NEED(*offset <= z->size && m->size <= z->size - *offset, ERR_FORMAT,
         "%s: member %s is outside the file", z->path, m->name);
    return OK;
}
