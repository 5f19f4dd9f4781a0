#include "eval/textfile.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { CHUNK = 1 << 20, LINE_MAX_BYTES = 1 << 30 };

struct textfile {
    char *path;
    int fd;
    int64_t at;                  /* bytes of it that have been read */
    int64_t most;                /* bytes that it has at most */
    struct XXH3_state_s *digest; /* of these */
    unsigned char start[4];      /* by which the format was recognised */
    ssize_t n_start;
    bool gzip;
    z_stream gz;
    ZSTD_DStream *stream;
    char *packed; /* (CHUNK) compressed bytes */
    ZSTD_inBuffer in;
    size_t pending; /* 0 between gzip members or zstd frames */
    bool more;      /* the stream may hold output that did not fit the last buffer */
    char *buffer;   // (capacity) text; [begin, end) is not yet returned
    int64_t capacity;
    size_t begin, end;
    int64_t lines;
    bool ended;
};

static enum status open_stream(struct textfile *f, struct err *e)
{
    enum { GZIP = 16 };
    static const unsigned char zstd[4] = {0x28, 0xb5, 0x2f, 0xfd}, gzip[2] = {0x1f, 0x8b};
    PASS(hash_new(&f->digest, e));
    PASS(fsx_open(f->path, &f->fd, NULL, e));
    const ssize_t n = f->n_start = fsx_pread(f->fd, f->start, sizeof f->start, 0);
    NEED(n >= 0, ERR_IO, "%s: %s", f->path, strerror(errno));
    if (n >= (ssize_t)sizeof gzip && memcmp(f->start, gzip, sizeof gzip) == 0) {
        NEED(inflateInit2(&f->gz, GZIP + MAX_WBITS) == Z_OK, ERR_NOMEM, "%s: no memory for zlib",
             f->path);
        f->gzip = true;
    } else if (n == sizeof f->start && memcmp(f->start, zstd, sizeof zstd) == 0) {
        NEED(f->stream = ZSTD_createDStream(), ERR_NOMEM, "%s: no memory for zstd", f->path);
    } else {
        return OK;
    }
    PASS(mem_alloc(&f->packed, CHUNK, 1, f->path, e));
    f->in = (ZSTD_inBuffer){.src = f->packed};
    return OK;
}

enum status textfile_open(const char *path, struct textfile **out, struct err *e)
{
    CLEANUP(textfile_close_at) struct textfile *f = NULL;
    PASS(mem_zero(&f, 1, sizeof *f, path, e));
    f->fd = -1;
    f->most = INT64_MAX;
    PASS(mem_string(&f->path, path, e));
    PASS(open_stream(f, e));
    *out = TAKE(f);
    return OK;
}

void textfile_end_at(struct textfile *f, int64_t bytes)
{
    f->most = bytes;
}

void textfile_close(struct textfile *f)
{
    if (!f) return;
    if (f->gzip) inflateEnd(&f->gz);
    if (f->fd >= 0) close(f->fd);
    hash_free(f->digest);
    ZSTD_freeDStream(f->stream);
    free(f->packed);
    free(f->buffer);
    free(f->path);
    free(f);
}

static enum status read_file(struct textfile *f, char *dst, size_t size, size_t *got, struct err *e)
{
    const int64_t left = f->most - f->at;
    ssize_t n = fsx_pread(f->fd, dst, (int64_t)size < left ? size : (size_t)left, f->at);
    NEED(n >= 0, ERR_IO, "%s: %s", f->path, strerror(errno));
    const size_t first = n < f->n_start ? (size_t)n : (size_t)f->n_start;
    NEED(f->at > 0 || memcmp(dst, f->start, first) == 0, ERR_CHANGED,
         "%s: changed while it was read", f->path);
    hash_add(f->digest, dst, (size_t)n);
    *got = (size_t)n;
    f->at += n;
    return OK;
}

/* More compressed bytes. None are left: the end, which must be between members or frames. */
static enum status read_packed(struct textfile *f, const char *format, struct err *e)
{
    PASS(read_file(f, f->packed, CHUNK, &f->in.size, e));
    f->in.pos = 0;
    NEED(f->in.size > 0 || f->pending == 0, ERR_FORMAT, "%s: %s: the file ends too early", f->path,
         format);
    return OK;
}

/* What follows the last member and is none is ignored, as gzip does. */
static enum status read_gz(struct textfile *f, char *dst, size_t size, size_t *got, struct err *e)
{
    const uInt room = (uInt)(size < CHUNK ? size : CHUNK);
    f->gz.next_out = (Bytef *)dst;
    f->gz.avail_out = room;
    while (f->gz.avail_out == room) {
        if (f->in.pos == f->in.size) PASS(read_packed(f, "gzip", e));
        if (f->in.size == 0) break;
        f->gz.next_in = (Bytef *)f->packed + f->in.pos;
        f->gz.avail_in = (uInt)(f->in.size - f->in.pos);
        if (f->pending == 0 && *f->gz.next_in != 0x1f) break;
        if (f->pending == 0) inflateReset(&f->gz);
        const int code = inflate(&f->gz, Z_NO_FLUSH);
        NEED(code != Z_MEM_ERROR, ERR_NOMEM, "%s: no memory for zlib", f->path);
        NEED(code == Z_OK || code == Z_STREAM_END, ERR_FORMAT, "%s: gzip: %s", f->path,
             f->gz.msg ? f->gz.msg : "damaged");
        f->pending = code != Z_STREAM_END;
        f->in.pos = f->in.size - f->gz.avail_in;
    }
    *got = room - f->gz.avail_out;
    return OK;
}

static enum status read_zstd(struct textfile *f, char *dst, size_t size, size_t *got, struct err *e)
{
    ZSTD_outBuffer o = {.dst = dst, .size = size};
    while (o.pos == 0) {
        if (f->in.pos == f->in.size && !f->more) {
            PASS(read_packed(f, "zstd", e));
            if (f->in.size == 0) break;
        }
        f->pending = ZSTD_decompressStream(f->stream, &o, &f->in);
        NEED(!ZSTD_isError(f->pending), ERR_FORMAT, "%s: zstd: %s", f->path,
             ZSTD_getErrorName(f->pending));
        f->more = o.pos == o.size && f->pending != 0;
    }
    *got = o.pos;
    return OK;
}

/* Moves the text that is not yet returned to the front of the buffer and reads more after it. */
static enum status fill(struct textfile *f, struct err *e)
{
    size_t got = 0;
    if (f->begin > 0) {
        memmove(f->buffer, f->buffer + f->begin, f->end - f->begin);
        f->end -= f->begin;
        f->begin = 0;
    }
    PASS(mem_grow(&f->buffer, (int64_t)f->end + CHUNK, &f->capacity, 1, e));
    size_t size = (size_t)f->capacity - f->end;
    if (f->gzip)
        PASS(read_gz(f, f->buffer + f->end, size, &got, e));
    else if (!f->stream)
        PASS(read_file(f, f->buffer + f->end, size, &got, e));
    else
        PASS(read_zstd(f, f->buffer + f->end, size, &got, e));
    f->end += got;
    f->ended = got == 0;
    return OK;
}

bool textfile_is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

enum status textfile_line(struct textfile *f, const char **line, size_t *n, int64_t *number,
                          struct err *e)
{
    size_t searched = 0;
    const char *newline = NULL;
    *line = NULL;
    for (;;) {
        if (f->end - f->begin > searched)
            newline = memchr(f->buffer + f->begin + searched, '\n', f->end - f->begin - searched);
        if (newline || f->ended) break;
        searched = f->end - f->begin;
        NEED(searched < LINE_MAX_BYTES, ERR_FORMAT,
             "%s:%lld: a line of more than 1 GiB: are these JSON lines?", f->path,
             (long long)f->lines + 1);
        PASS(fill(f, e));
    }
    if (f->begin == f->end) return OK;
    *line = f->buffer + f->begin;
    *n = newline ? (size_t)(newline - *line) : f->end - f->begin;
    f->begin += *n + (newline != NULL);
    if (*n > 0 && (*line)[*n - 1] == '\r') --*n;
    *number = ++f->lines;
    return OK;
}

enum status textfile_rest(struct textfile *f, char **text, size_t *n, struct err *e)
{
    while (!f->ended) PASS(fill(f, e));
    PASS(mem_alloc(text, (int64_t)(f->end - f->begin), 1, f->path, e));
    *n = f->end - f->begin;
    if (*n) memcpy(*text, f->buffer + f->begin, *n);
    f->begin = f->end;
    return OK;
}

enum status textfile_hash(struct textfile *f, char hash[HASH_HEX], struct err *e)
{
    char rest[1 << 16];
    size_t got = 1;
    while (got > 0) PASS(read_file(f, rest, sizeof rest, &got, e));
    hash_get(f->digest, hash);
    return OK;
}
