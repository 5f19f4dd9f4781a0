#include "memory/states.h"
#include "math/bf16.h"
#include "util/mem.h"
#include "util/num.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct states {
    const char *what;
    char *folder; /* of the file; NULL: in memory */
    int64_t tokens, width;
    enum dtype type;
    void *memory; // (tokens, width) of type
    int fd;
    uint16_t *narrow; // (PIECE) buffer for conversion
};

enum { PIECE = 1 << 18 };

static enum status disk_fail(const struct states *s, int code, const char *doing, struct err *e)
{
    bool full = code == ENOSPC || code == EDQUOT;
    return err_set(e, full ? ERR_FULL : ERR_IO, __FILE__, __LINE__,
                   "%s: cannot %s %s (%.1f GB) on scratch: %s%s", s->folder, doing, s->what,
                   (double)s->tokens * (double)s->width * (double)dtype_size(s->type) / 1e9,
                   strerror(code),
                   full ? "; free some space, name another folder with run.scratch, or say "
                          "run.scratch=off"
                        : "");
}

/* Makes an unlinked file, which disappears with the process. */
static enum status file_make(struct states *s, struct err *e)
{
    AUTO_FREE char *path = NULL;
    s->fd = open(s->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd >= 0) return OK;
    /* Not every file system has O_TMPFILE. */
    PASS(mem_format(&path, e, "%s/qtraj-XXXXXX", s->folder));
    s->fd = mkostemp(path, O_CLOEXEC);
    if (s->fd < 0) PASS(disk_fail(s, errno, "make a file for", e));
    unlink(path);
    return OK;
}

static enum status file_reserve(struct states *s, struct err *e)
{
    off_t bytes = (off_t)(s->tokens * s->width) * (off_t)dtype_size(s->type);
    if (bytes == 0 || fallocate(s->fd, 0, 0, bytes) == 0) return OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
        return disk_fail(s, errno, "reserve space for", e);
    /* If the file system cannot reserve space (NFS), writing detects a full disk. */
    if (ftruncate(s->fd, bytes) != 0) return disk_fail(s, errno, "extend the file of", e);
    return OK;
}

enum status states_open(const struct states_place *place, int64_t tokens, int64_t width,
                        const char *what, struct states **out, struct err *e)
{
    CLEANUP(states_close_at) struct states *s = NULL;
    PASS(mem_zero(&s, 1, sizeof *s, what, e));
    *s = (struct states){
        .what = what, .tokens = tokens, .width = width, .type = place->type, .fd = -1};
    if (!place->scratch) {
        PASS(mem_alloc(&s->memory, tokens * width, dtype_size(s->type), what, e));
    } else {
        PASS(mem_string(&s->folder, place->scratch, e));
        if (s->type == DTYPE_BF16) PASS(mem_alloc(&s->narrow, PIECE, sizeof *s->narrow, what, e));
        PASS(file_make(s, e));
        PASS(file_reserve(s, e));
    }
    *out = TAKE(s);
    return OK;
}

void states_close(struct states *s)
{
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    free(s->folder);
    free(s->memory);
    free(s->narrow);
    free(s);
}

/* Moves n elements between p and the file, where they start at element `first`. */
static enum status file_move(const struct states *s, int64_t first, int64_t n, void *p, bool put,
                             struct err *e)
{
    off_t at = first * (off_t)dtype_size(s->type);
    size_t bytes = (size_t)n * dtype_size(s->type);
    for (char *x = p; bytes > 0;) {
        ssize_t done = put ? pwrite(s->fd, x, bytes, at) : pread(s->fd, x, bytes, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            return disk_fail(s, done < 0 ? errno : put ? ENOSPC : EIO, put ? "write" : "read", e);
        x += done;
        at += done;
        bytes -= (size_t)done;
    }
    return OK;
}

/* The same for f32 at x; bf16 is converted in pieces. */
static enum status file_convert(const struct states *s, int64_t first, int64_t n, float *x,
                                bool put, struct err *e)
{
    if (s->type == DTYPE_F32) return file_move(s, first, n, x, put, e);
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = min64(n - i, PIECE);
        if (put) bf16_split(s->narrow, m, 1, x + i, m);
        PASS(file_move(s, first + i, m, s->narrow, put, e));
        if (!put) dtype_widen(x + i, s->narrow, s->type, m);
    }
    return OK;
}

enum status states_copy(struct states *s, int64_t row, int64_t n, float *buffer, struct err *e)
{
    int64_t first = row * s->width, count = n * s->width;
    if (s->fd >= 0) return file_convert(s, first, count, buffer, false, e);
    if (s->type == DTYPE_F32)
        memcpy(buffer, (const float *)s->memory + first, (size_t)count * sizeof *buffer);
    else
        dtype_widen(buffer, (const uint16_t *)s->memory + first, s->type, count);
    return OK;
}

bool states_in_place(const struct states *s)
{
    return s->fd < 0 && s->type == DTYPE_F32;
}

enum status states_take(struct states *s, int64_t row, int64_t n, float *buffer, float **x,
                        struct err *e)
{
    if (states_in_place(s)) {
        *x = (float *)s->memory + row * s->width;
        return OK;
    }
    *x = buffer;
    return states_copy(s, row, n, buffer, e);
}

enum status states_put(struct states *s, int64_t row, int64_t n, const float *x, struct err *e)
{
    int64_t first = row * s->width, count = n * s->width;
    if (s->fd >= 0) return file_convert(s, first, count, (float *)(uintptr_t)x, true, e);
    if (s->type == DTYPE_BF16) {
        bf16_split((uint16_t *)s->memory + first, count, 1, x, count);
        return OK;
    }
    float *stored = (float *)s->memory + first;
    if (stored != x) memcpy(stored, x, (size_t)count * sizeof *stored);
    return OK;
}

void states_expect(const struct states *s, int64_t row, int64_t n)
{
    if (!s || s->fd < 0) return;
    const off_t size = (off_t)(s->width * (int64_t)dtype_size(s->type));
    /* A hint: what it cannot do, states_take does, and reports its errors. */
    (void)posix_fadvise(s->fd, row * size, n * size, POSIX_FADV_WILLNEED);
}

static int64_t states_bytes(const struct states *s)
{
    return s->tokens * s->width * (int64_t)dtype_size(s->type);
}

void states_move(struct states *s, struct saved_move *m)
{
    if (!s) return;
    if (s->fd >= 0 && !saved_counts(m)) {
        /* From or to the file, in pieces. */
        const int64_t n = s->tokens * s->width;
        struct err why = {0};
        char *piece = NULL;
        (void)!mem_alloc(&piece, PIECE, dtype_size(s->type), "a piece of hidden states", &why);
        for (int64_t i = 0; i < n && why.code == OK; i += PIECE) {
            const int64_t count = min64(n - i, PIECE);
            enum status st = saved_loads(m) ? OK : file_move(s, i, count, piece, false, &why);
            if (st == OK) saved_bytes(m, piece, count * (int64_t)dtype_size(s->type));
            if (saved_loads(m)) (void)!file_move(s, i, count, piece, true, &why);
        }
        free(piece);
        saved_fail(m, &why);
    } else
        saved_bytes(m, s->memory, states_bytes(s));
}

void states_skip(const struct states *s, struct saved_move *m)
{
    saved_bytes(m, NULL, states_bytes(s));
}
