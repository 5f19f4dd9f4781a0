/* A journal is lines "CHECKSUM JSON\n": 16 hex digits of hash_u64 over the JSON text, a blank, the
 * compact JSON. The first line is {"schema":1,"type":"journal"}. An append is one write; a line
 * torn by a crash fails its checksum or lacks its newline, and the next writer removes it. */
#include "records/results.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECKSUM = 16, PREFIX = CHECKSUM + 1, SCHEMA = 1 };
static const char header_json[] = "{\"schema\":1,\"type\":\"journal\"}";

/* Where a record stands in the file: records themselves are not retained, so that a journal of 10^5
 * takes little memory. */
struct span {
    int64_t at, n; /* first byte of its line, length without the newline */
};

struct journal {
    char *path;
    int fd;
    bool writes;
    int64_t size; /* bytes of complete, valid lines */
    bool broken;  /* a write failed; nothing more is written */
    struct journal_mark mark;
    struct journal_damage damage;
    int64_t n, capacity;
    struct span *records; // (n)
    char *line;           /* the line read last */
    int64_t room;
};

enum status journal_path(const char *results, char **out, struct err *e)
{
    AUTO_FREE char *cube = NULL;
    PASS(fsx_resolve(results, &cube, e));
    size_t n = strlen(cube);
    if (n > 3 && strcmp(cube + n - 3, ".h5") == 0) n -= 3;
    return mem_format(out, e, "%.*s.journal", (int)n, cube);
}

/* --- lines --- */

static void checksum_text(const char *json, size_t n, char out[PREFIX + 1])
{
    snprintf(out, PREFIX + 1, "%016llx ", (unsigned long long)hash_u64(json, n));
}

static bool line_is_good(const char *line, size_t n)
{
    char expected[PREFIX + 1];
    if (n < PREFIX) return false;
    checksum_text(line + PREFIX, n - PREFIX, expected);
    return memcmp(line, expected, PREFIX) == 0;
}

static enum status keep(struct journal *j, int64_t at, size_t n, struct err *e)
{
    PASS(mem_grow(&j->records, j->n, &j->capacity, sizeof *j->records, e));
    j->records[j->n++] = (struct span){at, (int64_t)n};
    return OK;
}

/* --- reading --- */

/* What is in memory of a file that is read from its start to its end. */
struct window {
    char *data;
    int64_t at, n, capacity; /* place of data in the file, bytes read, room */
};

static void window_free(struct window *w)
{
    free(w->data);
}

/* Takes a line whose checksum matches. One that holds the schema holds no record; no key of a
 * record stands before "schema". */
static enum status take_line(struct journal *j, int64_t at, const char *line, size_t n,
                             int64_t number, struct err *e)
{
    static const char start[] = "{\"schema\":";
    const size_t length = sizeof start - 1;
    json_t *header = NULL;
    if (n < PREFIX + length || memcmp(line + PREFIX, start, length) != 0) return keep(j, at, n, e);
    PASS(json_read_text(j->path, line + PREFIX, n - PREFIX, &header, e));
    json_int_t schema = json_int(header, "schema");
    json_decref(header);
    NEED(schema == SCHEMA, ERR_FORMAT,
         "%s: line %lld: journal schema %lld, this program reads %d; use a newer qtraj", j->path,
         (long long)number, (long long)schema, SCHEMA);
    return OK;
}

/* True if the file contains only a part of the first line: a run was killed as it started. */
static bool is_torn_header(const char *data, size_t n)
{
    char prefix[PREFIX + 1];
    size_t length = strlen(header_json);
    checksum_text(header_json, length, prefix);
    size_t head = n < PREFIX ? n : PREFIX;
    return n <= PREFIX + length && memcmp(data, prefix, head) == 0 &&
           memcmp(data + head, header_json, n - head) == 0;
}

/* How far a reading of the lines is. */
struct progress {
    int64_t lines, good, damaged; /* damaged: after the last valid one */
    size_t length;                /* of the last valid one; its checksum is in the mark */
};

/* The last valid line. */
static void set_mark(struct journal *j, int64_t at, const char *line)
{
    j->mark.line = at;
    j->mark.bytes = j->size;
    memcpy(j->mark.checksum, line, CHECKSUM);
}

/* Takes a line of the window; j->size = the end of the last valid one. Leaves out damaged lines
 * between valid ones and lines that repeat the one before. */
static enum status look_at_line(struct journal *j, int64_t at, const char *line, size_t n,
                                struct progress *p, struct err *e)
{
    struct journal_damage *d = &j->damage;
    p->lines++;
    if (!line_is_good(line, n)) {
        if (!d->lines && !p->damaged) d->first = p->lines;
        p->damaged++;
        return OK;
    }
    const bool repeated =
        p->good && !p->damaged && n == p->length && memcmp(line, j->mark.checksum, CHECKSUM) == 0;
    d->lines += p->damaged;
    p->damaged = 0;
    if (repeated && !d->repeated++) d->first_repeated = p->lines;
    if (!repeated) PASS(take_line(j, at, line, n, p->lines, e));
    p->good++;
    p->length = n;
    j->size = at + (int64_t)n + 1;
    set_mark(j, at, line);
    return OK;
}

void journal_warn(const struct journal *j)
{
    const struct journal_damage *d = &j->damage;
    const int64_t damaged = d->lines + d->tail_lines;
    if (damaged)
        log_warn("%s: %lld damaged line%s left out, the first is line %lld: what was recorded "
                 "there is lost, and a run computes it again",
                 j->path, (long long)damaged, quantity_plural(damaged), (long long)d->first);
    if (d->repeated)
        log_warn("%s: %lld line%s left out that only repeat%s the line before, the first is line "
                 "%lld",
                 j->path, (long long)d->repeated, quantity_plural(d->repeated),
                 d->repeated == 1 ? "s" : "", (long long)d->first_repeated);
}

/* Drops the first `used` bytes and reads more; *more false: the file ends here. */
static enum status fill(const struct journal *j, struct window *w, int64_t used, bool *more,
                        struct err *e)
{
    enum { LEAST = 1 << 20 };
    w->n -= used;
    w->at += used;
    if (used) memmove(w->data, w->data + used, (size_t)w->n);
    PASS(mem_grow(&w->data, max64(w->n, LEAST), &w->capacity, 1, e));
    const ssize_t got =
        fsx_pread(j->fd, w->data + w->n, (size_t)(w->capacity - w->n), w->at + w->n);
    NEED(got >= 0, ERR_IO, "%s: %s", j->path, strerror(errno));
    *more = got > 0;
    w->n += got;
    return OK;
}

/* Nobody else may have touched the file: what is written to a file that was removed, moved or
 * truncated is lost. */
static enum status check_file(const struct journal *j, struct err *e)
{
    struct stat mine, named;
    NEED(fstat(j->fd, &mine) == 0, ERR_IO, "%s: %s", j->path, strerror(errno));
    NEED(stat(j->path, &named) == 0, ERR_IO,
         "%s: cannot be found any more (%s): it was removed or moved while a run was writing it",
         j->path, strerror(errno));
    NEED(named.st_dev == mine.st_dev && named.st_ino == mine.st_ino, ERR_IO,
         "%s: another file took its place while a run was writing it", j->path);
    NEED(mine.st_size == (off_t)j->size, ERR_IO,
         "%s: %lld bytes, where this run had written %lld: another program changed it", j->path,
         (long long)mine.st_size, (long long)j->size);
    return OK;
}

/* j->line = the bytes of record i. */
static enum status read_line(struct journal *j, int64_t i, struct err *e)
{
    const struct span *s = &j->records[i];
    if (s->n > j->room) {
        mem_drop(&j->line);
        j->room = 0;
        PASS(mem_alloc(&j->line, 2 * s->n, 1, "a journal line", e));
        j->room = 2 * s->n;
    }
    int64_t got = 0;
    for (ssize_t r;
         (r = fsx_pread(j->fd, j->line + got, (size_t)(s->n - got), s->at + got)) != 0;) {
        NEED(r > 0, ERR_IO, "%s: cannot be read at byte %lld: %s", j->path,
             (long long)(s->at + got), strerror(errno));
        got += r;
    }
    if (got == s->n && line_is_good(j->line, (size_t)got)) return OK;
    if (j->writes) PASS(check_file(j, e));
    RAISE(ERR_IO, "%s: has changed since it was opened, at byte %lld", j->path, (long long)s->at);
}

enum status journal_read(struct journal *j, int64_t i, const char *const *without, json_t **out,
                         struct err *e)
{
    NEED(i >= 0 && i < j->n, ERR_USAGE, "%s: no record %lld of %lld", j->path, (long long)i,
         (long long)j->n);
    PASS(read_line(j, i, e));
    size_t n = (size_t)j->records[i].n - PREFIX;
    if (without) n = json_cut_members(j->line + PREFIX, n, without);
    PASS(json_read_text(j->path, j->line + PREFIX, n, out, e));
    if (!without || strcmp(json_text(*out, "type", ""), "plan") != 0) return OK;
    json_drop(out);
    return journal_read(j, i, NULL, out, e);
}

/* --- writing --- */

/* Writes all of data at the end of the file, or nothing. */
static enum status write_at_end(struct journal *j, const char *data, size_t n, struct err *e)
{
    size_t put = 0;
    NEED(!j->broken, ERR_IO, "%s: an earlier write failed; start the run again to continue",
         j->path);
    PASS(check_file(j, e));
    while (put < n) {
        ssize_t r = pwrite(j->fd, data + put, n - put, (off_t)j->size + (off_t)put);
        if (r < 0 && errno == EINTR) continue;
        if (r > 0) {
            put += (size_t)r;
            continue;
        }
        int code = r < 0 ? errno : EIO;
        if (!fsx_truncate(j->fd, j->size)) j->broken = true;
        RAISE(fsx_errno_status(code), "%s: cannot append %zu bytes: %s", j->path, n,
              strerror(code));
    }
    j->size += (int64_t)n;
    set_mark(j, j->size - (int64_t)n, data);
    return OK;
}

static enum status append_text(struct journal *j, const char *json, struct err *e)
{
    AUTO_FREE char *line = NULL;
    size_t length = strlen(json);
    PASS(mem_alloc(&line, (int64_t)(PREFIX + length + 2), 1, "a journal line", e));
    checksum_text(json, length, line);
    memcpy(line + PREFIX, json, length);
    line[PREFIX + length] = '\n';
    return write_at_end(j, line, PREFIX + length + 1, e);
}

/* Reads the file, and removes a torn tail if it is open for writing. */
static enum status read_file(struct journal *j, struct err *e)
{
    /* Damaged lines after the last valid one are a torn tail. */
    CLEANUP(window_free) struct window w = {0};
    struct progress p = {0};
    bool more = true;
    PASS(fill(j, &w, 0, &more, e));
    while (more) {
        const char *from = w.data, *newline;
        while ((newline = memchr(from, '\n', (size_t)(w.data + w.n - from)))) {
            PASS(look_at_line(j, w.at + (from - w.data), from, (size_t)(newline - from), &p, e));
            from = newline + 1;
        }
        PASS(fill(j, &w, from - w.data, &more, e));
    }
    const int64_t end = w.at + w.n; /* of the file */
    j->damage.tail = end - j->size;
    j->damage.tail_lines = p.damaged;
    NEED(p.good || (w.at == 0 && is_torn_header(w.data, (size_t)w.n)), ERR_FORMAT,
         "%s: not a journal of qtraj", j->path);
    if (!j->writes) return OK;
    journal_warn(j);
    if (end == j->size) return OK;
    log_warn("%s: cut a torn tail of %lld bytes: the last write of an earlier run was not finished",
             j->path, (long long)(end - j->size));
    NEED(fsx_truncate(j->fd, j->size), fsx_errno_status(errno), "%s: cannot be cut: %s", j->path,
         strerror(errno));
    return OK;
}

static enum status open_file(const char *path, bool write, struct journal **out, struct err *e)
{
    CLEANUP(journal_close_at) struct journal *j = NULL;
    struct stat info;
    PASS(mem_zero(&j, 1, sizeof *j, "journal", e));
    j->fd = -1;
    j->writes = write;
    PASS(mem_string(&j->path, path, e));
    if (!write) {
        PASS(fsx_open(path, &j->fd, NULL, e));
    } else {
        j->fd = fsx_open_as(path, O_RDWR | O_CREAT);
        NEED(j->fd >= 0 && fstat(j->fd, &info) == 0, fsx_errno_status(errno), "%s: %s", path,
             strerror(errno));
    }
    if (!write || info.st_size > 0) PASS(read_file(j, e));
    if (write && j->size == 0) {
        PASS(append_text(j, header_json, e));
        PASS(journal_sync(j, e));
        PASS(fsx_sync_parent(path, e));
    }
    *out = TAKE(j);
    return OK;
}

enum status journal_open(const char *path, struct journal **out, struct err *e)
{
    return open_file(path, true, out, e);
}

enum status journal_open_readonly(const char *path, struct journal **out, struct err *e)
{
    PASS(open_file(path, false, out, e));
    const struct journal_damage *d = &(*out)->damage;
    journal_warn(*out);
    if (d->tail && !d->tail_lines)
        log_warn("%s: the last %lld bytes are not a whole line and left out: a run is writing "
                 "them, or was killed as it wrote",
                 path, (long long)d->tail);
    return OK;
}

enum status journal_open_beside(const char *path, struct journal **out, struct err *e)
{
    return open_file(path, false, out, e);
}

enum status journal_append(struct journal *j, const json_t *record, struct err *e)
{
    AUTO_FREE char *text = NULL;
    NEED(j->writes, ERR_USAGE, "%s: opened for reading", j->path);
    text = json_dump_whole(record, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS);
    NEED(text, ERR_NOMEM, "%s: cannot make the text of a record", j->path);
    const int64_t at = j->size;
    PASS(mem_grow(&j->records, j->n, &j->capacity, sizeof *j->records, e));
    PASS(append_text(j, text, e));
    return keep(j, at, PREFIX + strlen(text), e);
}

enum status journal_sync(struct journal *j, struct err *e)
{
    NEED(j->writes, ERR_USAGE, "%s: opened for reading", j->path);
    NEED(!j->broken, ERR_IO, "%s: an earlier write failed; start the run again to continue",
         j->path);
    if (!fsx_sync(j->fd, FSX_DATA)) {
        /* The kernel may have dropped the pages that it could not write, so that a later successful
         * fdatasync would not mean that they are on disk. */
        j->broken = true;
        RAISE(fsx_errno_status(errno), "%s: fdatasync: %s", j->path, strerror(errno));
    }
    return OK;
}

void journal_close(struct journal *j)
{
    if (!j) return;
    if (j->fd >= 0) close(j->fd);
    free(j->records);
    free(j->line);
    free(j->path);
    free(j);
}

struct journal_mark journal_mark(const struct journal *j)
{
    return j->mark;
}

struct journal_damage journal_damage(const struct journal *j)
{
    return j->damage;
}

/* --- a cube's place in it --- */

/* Lines that end in the file from `at` on; -1: it cannot be read. */
static int64_t count_lines(int fd, int64_t at)
{
    char part[1 << 16];
    int64_t lines = 0;
    for (ssize_t r; (r = fsx_pread(fd, part, sizeof part, at)) != 0; at += r) {
        if (r < 0) return -1;
        for (ssize_t i = 0; i < r; i++) lines += part[i] == '\n';
    }
    return lines;
}

enum journal_since journal_since(const char *path, const struct journal_mark *mark, int64_t *lines)
{
    char found[CHECKSUM], end = 0;
    int fd = -1;
    int64_t size = 0;
    *lines = 0;
    if (!mark->bytes) return JOURNAL_UNKNOWN;
    if (fsx_open(path, &fd, &size, NULL) != OK) return JOURNAL_UNKNOWN;
    const bool same = size >= mark->bytes &&
                      fsx_pread(fd, found, CHECKSUM, mark->line) == CHECKSUM &&
                      memcmp(found, mark->checksum, CHECKSUM) == 0 &&
                      fsx_pread(fd, &end, 1, mark->bytes - 1) == 1 && end == '\n';
    if (same) *lines = count_lines(fd, mark->bytes);
    close(fd);
    return !same ? JOURNAL_OTHER : *lines ? JOURNAL_LONGER : JOURNAL_SAME;
}

int64_t journal_n(const struct journal *j)
{
    return j->n;
}
