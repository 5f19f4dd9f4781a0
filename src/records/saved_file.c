/* The file of one rank's state: data, then a trailer with their digest. */
#include "records/saved_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char magic[8] = "qtrajS2";

static uint64_t check_of(const struct saved_trailer *t)
{
    return hash_u64(t, offsetof(struct saved_trailer, own));
}

static void fail(struct saved_move *m, enum status st, const char *what)
{
    if (m->err.code == OK) err_set(&m->err, st, __FILE__, __LINE__, "%s: %s", m->path, what);
}

static ssize_t get_part(void *move, char *to, size_t n)
{
    return read(((struct saved_move *)move)->fd, to, n);
}

static ssize_t put_part(void *move, const char *from, size_t n)
{
    struct saved_move *m = move;
    return fsx_write(m->fd, m->path, from, n, &m->err) == OK ? (ssize_t)n : 0;
}

static int seek_part(void *move, off64_t *at, int whence)
{
    *at = lseek(((struct saved_move *)move)->fd, *at, whence);
    return *at < 0 ? -1 : 0;
}

/* Opens m->path. ERR_FULL, ERR_IO, ERR_NOMEM. */
static enum status open_file(struct saved_move *m, const char *mode, int flags, struct err *e)
{
    const cookie_io_functions_t parts = {get_part, put_part, seek_part, NULL};
    m->fd = fsx_open_as(m->path, flags);
    NEED(m->fd >= 0, fsx_errno_status(errno), "%s: %s", m->path, strerror(errno));
    m->file = fopencookie(m, mode, parts);
    if (!m->file) close(m->fd);
    NEED(m->file, ERR_NOMEM, "%s: out of memory for its buffer", m->path);
    return OK;
}

static void store(struct saved_move *m, const void *from, int64_t n)
{
    m->bytes += n;
    hash_add(m->check, from, (size_t)n);
    if (m->err.code == OK && fwrite(from, 1, (size_t)n, m->file) != (size_t)n)
        fail(m, fsx_errno_status(errno), strerror(errno));
}

/* --- moving --- */

bool saved_loads(const struct saved_move *m)
{
    return m->direction == SAVED_LOAD;
}

bool saved_counts(const struct saved_move *m)
{
    return m->direction == SAVED_COUNT;
}

void saved_bytes(struct saved_move *m, void *at, int64_t n)
{
    if (m->direction == SAVED_COUNT) m->bytes += n;
    if (m->direction == SAVED_STORE) store(m, at, n);
    if (m->direction == SAVED_LOAD) {
        if (n > m->bytes) fail(m, ERR_FORMAT, "the saved state is too short");
        if (m->err.code == OK) {
            m->bytes -= n;
            if (at ? fread(at, 1, (size_t)n, m->file) != (size_t)n
                   : fseek(m->file, n, SEEK_CUR) != 0)
                fail(m, ERR_IO, "the saved state cannot be read");
        }
        if (at && m->err.code != OK) memset(at, 0, (size_t)n);
    }
}

void saved_array(struct saved_move *m, void *array, int64_t n, size_t size, const char *what)
{
    struct err why = {0};
    void *items;
    if (saved_loads(m) && mem_zero(array, n, size, what, &why) != OK) saved_fail(m, &why);
    memcpy(&items, array, sizeof items); /* whatever type it points to */
    saved_bytes(m, items, n * (int64_t)size);
}

void saved_text(struct saved_move *m, char **text)
{
    int64_t n = saved_loads(m) ? 0 : (int64_t)strlen(*text);
    saved_bytes(m, &n, sizeof n);
    if (saved_loads(m)) {
        *text = NULL;
        if (n < 0 || n > m->bytes) n = 0;
        struct err why = {0};
        if (mem_zero(text, n + 1, 1, "a text", &why) != OK) saved_fail(m, &why);
    }
    saved_bytes(m, *text, n);
}

void saved_fail(struct saved_move *m, const struct err *why)
{
    if (m->err.code == OK && why->code != OK) m->err = *why;
}

/* Every level begins with a digest of its name. */
void saved_file_level(struct saved_move *m, const struct saved_level *level)
{
    const uint64_t expected = hash_u64(level->name, strlen(level->name));
    uint64_t found = expected;
    saved_bytes(m, &found, sizeof found);
    if (found != expected && m->err.code == OK)
        err_set(&m->err, ERR_FORMAT, __FILE__, __LINE__, "%s: the saved state has no %s here",
                m->path, level->name);
    level->move(level->context, m);
}

/* --- files --- */

int64_t saved_file_bytes(const struct saved_level *levels)
{
    struct saved_move m = {.direction = SAVED_COUNT};
    for (; levels; levels = levels->inner) saved_file_level(&m, levels);
    return m.bytes;
}

enum status saved_file_write(const char *path, const struct saved_level *levels,
                             struct saved_trailer *trailer, struct err *e)
{
    CLEANUP(saved_file_close) struct saved_move m = {.direction = SAVED_STORE, .path = path};
    PASS(hash_new(&m.check, e));
    PASS(open_file(&m, "w", O_WRONLY | O_CREAT | O_TRUNC, e));
    for (; levels; levels = levels->inner) saved_file_level(&m, levels);
    NEED(m.err.code == OK, m.err.code, "%s", m.err.text);
    memcpy(trailer->magic, magic, sizeof magic);
    trailer->bytes = m.bytes;
    hash_get(m.check, trailer->check);
    trailer->own = check_of(trailer);
    store(&m, trailer, sizeof *trailer);
    fclose(m.file); /* writes the rest of its buffer */
    m.file = NULL;
    const int closed = close(m.fd);
    NEED(m.err.code == OK, m.err.code, "%s", m.err.text);
    NEED(closed == 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
    return OK;
}

bool saved_file_trailer(const char *path, struct saved_trailer *out)
{
    int fd;
    int64_t size;
    if (fsx_open(path, &fd, &size, NULL) != OK) return false;
    const int64_t at = size - (int64_t)sizeof *out;
    const bool good = at >= 0 && fsx_pread(fd, out, sizeof *out, at) == sizeof *out;
    close(fd);
    return good && memcmp(out->magic, magic, sizeof magic) == 0 && out->own == check_of(out) &&
           out->bytes == at;
}

enum status saved_file_open(const char *path, const struct saved_trailer *trailer,
                            struct saved_move *m, struct err *e)
{
    char check[HASH_HEX];
    *m = (struct saved_move){.direction = SAVED_LOAD, .path = path, .bytes = trailer->bytes};
    PASS(open_file(m, "r", O_RDONLY, e));
    PASS(hash_start(m->fd, path, trailer->bytes, check, e));
    NEED(strcmp(check, trailer->check) == 0, ERR_FORMAT, "%s: the saved state is damaged", path);
    return OK;
}

void saved_file_close(struct saved_move *m)
{
    if (m->file) {
        fclose(m->file);
        close(m->fd);
    }
    hash_free(m->check);
    *m = (struct saved_move){0};
}
