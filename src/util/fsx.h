/* fsx: whole files, paths, files that appear complete or not at all, and room for them. */
#pragma once
#include "util/err.h"
#include <dirent.h>
#include <sys/types.h>

/* *fd = a regular file, open for reading; *size (bytes; may be NULL). Anything else, a FIFO too, is
 * refused instead of waited for. The caller closes. ERR_IO names the path. */
MUST_USE enum status fsx_open(const char *path, int *fd, int64_t *size, struct err *e);

/* For CLEANUP (util/err.h): closes a file that is open (not -1), a folder that is (not NULL). */
void fsx_close(const int *fd);
void fsx_closedir(DIR **dir);

/* pread that is repeated when a signal interrupts it, and three times after a pause when the
 * storage reports EIO or a timeout, as network file systems do once in a while. Returns the bytes
 * read, 0 at the end of the file; -1 with errno. */
ssize_t fsx_pread(int fd, void *dst, size_t n, int64_t offset);

/* *data = the file's bytes, followed by a NUL (not counted in *n, which may be NULL). The caller
 * frees. ERR_IO names the path; ERR_FORMAT when the file is larger than max_bytes (0: no limit). */
MUST_USE enum status fsx_read(const char *path, size_t max_bytes, char **data, size_t *n,
                              struct err *e);

/* text = the beginning of a file, at most size - 1 bytes, and a NUL: for the files of /proc and
 * /sys, which have no size. False: it cannot be read, or is empty. */
bool fsx_text(const char *path, char *text, size_t size);

/* Writes n bytes to fd, however many writes that takes; path stands in messages. ERR_FULL, ERR_IO.
 */
MUST_USE enum status fsx_write(int fd, const char *path, const void *data, size_t n, struct err *e);

/* Writes a whole file, not synced; after an error it may be there in part. ERR_FULL, ERR_IO. */
MUST_USE enum status fsx_write_file(const char *path, const void *data, size_t n, struct err *e);

/* Writes a temporary file (util/temporary.h), fsyncs, renames it over path, fsyncs the folder.
 * ERR_FULL when the disk is full, else ERR_IO. */
MUST_USE enum status fsx_write_atomic(const char *path, const void *data, size_t n, struct err *e);

/* open with these flags, O_CLOEXEC and mode 0666, and ftruncate, repeated when a signal interrupts
 * them; -1 or false: errno. */
int fsx_open_as(const char *path, int flags);
bool fsx_truncate(int fd, int64_t size);
/* fsync or, of the bytes alone, fdatasync, repeated when a signal interrupts it; false: errno. */
enum fsx_what { FSX_ALL, FSX_DATA };
bool fsx_sync(int fd, enum fsx_what what);

/* fsync of the file `from`, rename to `to`, fsync of the folder. ERR_FULL, ERR_IO. */
MUST_USE enum status fsx_publish(const char *from, const char *to, struct err *e);

/* fsync of the folder of path, which makes the name of a new file durable. ERR_FULL, ERR_IO. */
MUST_USE enum status fsx_sync_parent(const char *path, struct err *e);

/* The status for the errno of a system call: ERR_FULL for a full disk, an exceeded quota or file
 * size limit (a run can resume after each), ERR_NOMEM, else ERR_IO. */
enum status fsx_errno_status(int code);

/* Makes the folder of path and those above it. ERR_FULL, ERR_IO. */
MUST_USE enum status fsx_make_parent(const char *path, struct err *e);

/* *out = path if it is absolute, else base/path. The caller frees. ERR_NOMEM. */
MUST_USE enum status fsx_join(const char *base, const char *path, char **out, struct err *e);

/* *out = the folder part of path, "." if there is none. The caller frees. ERR_NOMEM. */
MUST_USE enum status fsx_parent(const char *path, char **out, struct err *e);

/* *out = the file that path leads to by symbolic links of its last part, which may not exist yet;
 * path itself if it is no link. The caller frees. ERR_IO (too many links), ERR_NOMEM. */
MUST_USE enum status fsx_resolve(const char *path, char **out, struct err *e);

/* Whether path is a folder, a regular file (links are followed). */
bool fsx_is_dir(const char *path);
bool fsx_is_file(const char *path);
/* Whether the path that is formatted so is a regular file; one beyond PATH_MAX is none. */
bool fsx_has(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether two paths lead to one file that exists. */
bool fsx_same(const char *a, const char *b);
/* Whether it is a folder that can be read and has nothing in it. */
bool fsx_is_empty_dir(const char *path);

/* --- before a folder is written --- */

/* Whether files can be made in the folder, which is there or could be made in the nearest one above
 * it. why (size bytes) = what is wrong and with which folder, "" if nothing is. */
bool folder_is_writable(const char *path, char *why, size_t size);
/* Bytes that are free on the disk of the folder, or of the nearest above it that is there; -1: not
 * known. */
int64_t folder_free_bytes(const char *path);
