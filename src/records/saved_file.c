/* The file of one rank's state: data in chunks with a running checksum, then a trailer. */
#include "records/saved_internal.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "qtrajS1";

static uint64_t chain(uint64_t check, const char *data, int64_t n)
{
    const uint64_t both[2] = {check, hash_u64(data, (size_t)n)};
    return hash_u64(both, sizeof both);
}

static uint64_t check_of(const struct saved_trailer *t)
{
    return hash_u64(t, offsetof(struct saved_trailer, own));
}

static enum status buffer_open(struct saved_move *m, struct err *e)
{
    return mem_alloc(&m->buffer, SAVED_CHUNK, 1, "a saved state", e);
}

/* --- writing --- */

static void flush(struct saved_move *m)
{
    if (m->at == 0 || m->err.code != OK) return;
    m->check = chain(m->check, m->buffer, m->at);
    (void)!fsx_write(m->fd, m->path, m->buffer, (size_t)m->at, &m->err);
    m->at = 0;
}

static void store(struct saved_move *m, const char *from, int64_t n)
{
    m->bytes += n;
    while (n > 0 && m->err.code == OK) {
        const int64_t part = min64(n, SAVED_CHUNK - m->at);
        memcpy(m->buffer + m->at, from, (size_t)part);
        m->at += part;
        from += part;
        n -= part;
        if (m->at == SAVED_CHUNK) flush(m);
    }
}

/* --- reading --- */

/* Reads n bytes at the file's position. */
static enum status read_all(int fd, const char *path, char *to, int64_t n, struct err *e)
{
    while (n > 0) {
        const ssize_t done = read(fd, to, (size_t)n);
        if (done < 0 && errno == EINTR) continue;
        NEED(done > 0, ERR_IO, "%s: %s", path, done < 0 ? strerror(errno) : "too short");
        to += done;
        n -= done;
    }
    return OK;
}

static enum status fill(struct saved_move *m, struct err *e)
{
    const int64_t n = min64(m->bytes, SAVED_CHUNK);
    NEED(n > 0, ERR_FORMAT, "%s: the saved state is too short", m->path);
    PASS(read_all(m->fd, m->path, m->buffer, n, e));
    m->bytes -= n;
    m->at = 0;
    m->n = n;
    return OK;
}

static void load(struct saved_move *m, char *to, int64_t n)
{
    while (n > 0) {
        if (m->err.code == OK && m->at == m->n) (void)!fill(m, &m->err);
        const bool failed = m->err.code != OK;
        const int64_t part = failed ? n : min64(n, m->n - m->at);
        if (to && failed) memset(to, 0, (size_t)part);
        if (to && !failed) memcpy(to, m->buffer + m->at, (size_t)part);
        if (to) to += part;
        if (!failed) m->at += part;
        n -= part;
    }
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
    if (m->direction == SAVED_LOAD) load(m, at, n);
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
        if (n < 0 || n > m->bytes + m->n - m->at) n = 0;
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
    struct saved_move m = {.direction = SAVED_COUNT, .fd = -1};
    for (; levels; levels = levels->inner) saved_file_level(&m, levels);
    return m.bytes;
}

enum status saved_file_write(const char *path, const struct saved_level *levels,
                             struct saved_trailer *trailer, struct err *e)
{
    enum status st = OK;
    struct saved_move m = {.direction = SAVED_STORE, .fd = -1, .path = path};
    TRY(buffer_open(&m, e));
    m.fd = fsx_open_as(path, O_WRONLY | O_CREAT | O_TRUNC);
    ENSURE(m.fd >= 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
    for (; levels; levels = levels->inner) saved_file_level(&m, levels);
    flush(&m);
    ENSURE(m.err.code == OK, m.err.code, "%s", m.err.text);
    memcpy(trailer->magic, magic, sizeof magic);
    trailer->bytes = m.bytes;
    trailer->check = m.check;
    trailer->own = check_of(trailer);
    TRY(fsx_write(m.fd, path, trailer, sizeof *trailer, e));
    const int closed = close(m.fd);
    m.fd = -1;
    ENSURE(closed == 0, fsx_errno_status(errno), "%s: %s", path, strerror(errno));
done:
    saved_file_close(&m);
    return st;
}

bool saved_file_trailer(const char *path, struct saved_trailer *out)
{
    int fd;
    int64_t size;
    if (fsx_open(path, &fd, &size, NULL) != OK) return false;
    const off_t at = (off_t)(size - (int64_t)sizeof *out);
    bool good = at >= 0 && lseek(fd, at, SEEK_SET) == at &&
                read_all(fd, path, (char *)out, sizeof *out, NULL) == OK;
    close(fd);
    return good && memcmp(out->magic, magic, sizeof magic) == 0 && out->own == check_of(out) &&
           out->bytes == (int64_t)at;
}

static enum status verify(struct saved_move *m, const struct saved_trailer *trailer, struct err *e)
{
    uint64_t check = 0;
    for (m->bytes = trailer->bytes; m->bytes > 0;) {
        PASS(fill(m, e));
        check = chain(check, m->buffer, m->n);
    }
    NEED(check == trailer->check, ERR_FORMAT, "%s: the saved state is damaged", m->path);
    m->bytes = trailer->bytes;
    m->at = m->n = 0;
    NEED(lseek(m->fd, 0, SEEK_SET) == 0, ERR_IO, "%s: %s", m->path, strerror(errno));
    return OK;
}

enum status saved_file_open(const char *path, const struct saved_trailer *trailer,
                            struct saved_move *m, struct err *e)
{
    *m = (struct saved_move){.direction = SAVED_LOAD, .fd = -1, .path = path};
    PASS(buffer_open(m, e));
    PASS(fsx_open(path, &m->fd, NULL, e));
    return verify(m, trailer, e);
}

void saved_file_close(struct saved_move *m)
{
    if (m->fd >= 0) close(m->fd);
    free(m->buffer);
    *m = (struct saved_move){.fd = -1};
}
