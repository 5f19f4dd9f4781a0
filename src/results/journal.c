/* A journal is lines "CHECKSUM JSON\n": 16 hex digits of hash_u64 over the JSON text, a blank, the
 * compact JSON. The first line is {"schema":1,"type":"journal"}. An append is one write; a line
 * torn by a crash fails its checksum or lacks its newline, and the next writer removes it. */
#include "results/results.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECKSUM = 16, PREFIX = CHECKSUM + 1, SCHEMA = 1 };
static const char header_json[] = "{\"schema\":1,\"type\":\"journal\"}";

struct journal {
    char *path;
    int fd;       /* -1: reading only */
    int64_t size; /* bytes of complete, valid lines */
    bool broken;  /* a write failed; nothing more is written */
    int64_t n, capacity;
    json_t **records;
};

enum status journal_path(const char *results, char **out, struct err *e)
{
    size_t n = strlen(results);
    if (n > 3 && strcmp(results + n - 3, ".h5") == 0) n -= 3;
    return mem_format(out, e, "%.*s.journal", (int)n, results);
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

static enum status keep(struct journal *j, json_t *record, struct err *e)
{
    PASS(mem_grow(&j->records, j->n, &j->capacity, sizeof *j->records, e));
    j->records[j->n++] = json_incref(record);
    return OK;
}

/* --- reading --- */

/* Takes a line whose checksum matches. */
static enum status take_line(struct journal *j, const char *line, size_t n, int64_t number,
                             struct err *e)
{
    enum status st = OK;
    json_t *record = NULL;
    TRY(json_read_text(j->path, line + PREFIX, n - PREFIX, &record, e));
    if (strcmp(json_text(record, "type", ""), "journal") != 0) {
        TRY(keep(j, record, e));
        goto done;
    }
    json_int_t schema = json_integer_value(json_object_get(record, "schema"));
    ENSURE(schema == SCHEMA, ERR_FORMAT,
           "%s: line %lld: journal schema %lld, this program reads %d; use a newer qtraj", j->path,
           (long long)number, (long long)schema, SCHEMA);
done:
    json_decref(record);
    return st;
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

/* Reads all lines; j->size = the end of the last valid one. Skips damaged lines between valid ones
 * with a warning; damaged lines after the last valid one are a torn tail, left to the caller. */
static enum status take_lines(struct journal *j, const char *data, size_t n, struct err *e)
{
    int64_t number = 0, damaged = 0, reported;
    int64_t good = 0;
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(data + at, '\n', n - at);
        if (!newline) break;
        size_t length = (size_t)(newline - data) - at;
        number++;
        if (line_is_good(data + at, length)) {
            reported = damaged;
            for (; reported > 0; reported--)
                log_warn("%s: line %lld is damaged and skipped: its record is lost and will be "
                         "done again",
                         j->path, (long long)(number - reported));
            damaged = 0;
            PASS(take_line(j, data + at, length, number, e));
            good++;
            j->size = (int64_t)(newline - data) + 1;
        } else {
            damaged++;
        }
        at = (size_t)(newline - data) + 1;
    }
    NEED(good || is_torn_header(data, n), ERR_FORMAT, "%s: not a journal of qtraj", j->path);
    return OK;
}

/* --- writing --- */

/* Writes all of data at the end of the file, or nothing. */
static enum status write_at_end(struct journal *j, const char *data, size_t n, struct err *e)
{
    size_t put = 0;
    NEED(!j->broken, ERR_IO, "%s: an earlier write failed; start the run again to continue",
         j->path);
    while (put < n) {
        ssize_t r = pwrite(j->fd, data + put, n - put, (off_t)j->size + (off_t)put);
        if (r < 0 && errno == EINTR) continue;
        if (r > 0) {
            put += (size_t)r;
            continue;
        }
        int code = r < 0 ? errno : EIO;
        if (ftruncate(j->fd, (off_t)j->size) != 0) j->broken = true;
        RAISE(fsx_errno_status(code), "%s: cannot append %zu bytes: %s", j->path, n,
              strerror(code));
    }
    j->size += (int64_t)n;
    return OK;
}

static enum status append_text(struct journal *j, const char *json, struct err *e)
{
    enum status st = OK;
    char *line = NULL;
    size_t length = strlen(json);
    TRY(mem_alloc(&line, (int64_t)(PREFIX + length + 2), 1, "a journal line", e));
    checksum_text(json, length, line);
    memcpy(line + PREFIX, json, length);
    line[PREFIX + length] = '\n';
    TRY(write_at_end(j, line, PREFIX + length + 1, e));
done:
    free(line);
    return st;
}

/* Reads the file, and removes a torn tail if it is open for writing. */
static enum status read_file(struct journal *j, struct err *e)
{
    enum status st = OK;
    char *data = NULL;
    size_t n;
    TRY(fsx_read(j->path, 0, &data, &n, e));
    TRY(take_lines(j, data, n, e));
    if (j->fd < 0 || (int64_t)n == j->size) goto done;
    log_warn("%s: cut a torn tail of %lld bytes: the last write of an earlier run was not finished",
             j->path, (long long)((int64_t)n - j->size));
    ENSURE(ftruncate(j->fd, (off_t)j->size) == 0, fsx_errno_status(errno), "%s: cannot be cut: %s",
           j->path, strerror(errno));
done:
    free(data);
    return st;
}

static enum status open_file(const char *path, bool write, struct journal **out, struct err *e)
{
    enum status st = OK;
    struct journal *j = NULL;
    struct stat info;
    TRY(mem_zero(&j, 1, sizeof *j, "journal", e));
    j->fd = -1;
    TRY(mem_string(&j->path, path, e));
    if (write) {
        j->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        ENSURE(j->fd >= 0 && fstat(j->fd, &info) == 0, fsx_errno_status(errno), "%s: %s", path,
               strerror(errno));
    }
    if (!write || info.st_size > 0) TRY(read_file(j, e));
    if (write && j->size == 0) {
        TRY(append_text(j, header_json, e));
        TRY(journal_sync(j, e));
        TRY(fsx_sync_parent(path, e));
    }
    *out = j;
    j = NULL;
done:
    journal_close(j);
    return st;
}

enum status journal_open(const char *path, struct journal **out, struct err *e)
{
    return open_file(path, true, out, e);
}

enum status journal_open_readonly(const char *path, struct journal **out, struct err *e)
{
    return open_file(path, false, out, e);
}

enum status journal_append(struct journal *j, json_t *record, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    ENSURE(j->fd >= 0, ERR_USAGE, "%s: opened for reading", j->path);
    text = json_dumps(record, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS);
    ENSURE(text, ERR_NOMEM, "%s: cannot make the text of a record", j->path);
    TRY(mem_grow(&j->records, j->n, &j->capacity, sizeof *j->records, e));
    TRY(append_text(j, text, e));
    TRY(keep(j, record, e));
done:
    free(text);
    return st;
}

enum status journal_sync(struct journal *j, struct err *e)
{
    NEED(j->fd >= 0, ERR_USAGE, "%s: opened for reading", j->path);
    NEED(!j->broken, ERR_IO, "%s: an earlier write failed; start the run again to continue",
         j->path);
    if (fdatasync(j->fd) != 0) {
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
    for (int64_t i = 0; i < j->n; i++) json_decref(j->records[i]);
    free(j->records);
    free(j->path);
    free(j);
}

int64_t journal_n(const struct journal *j)
{
    return j->n;
}

const json_t *journal_record(const struct journal *j, int64_t i)
{
    return i >= 0 && i < j->n ? j->records[i] : NULL;
}
