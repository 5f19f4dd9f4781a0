/* textfile: the text of a file that is plain, gzip or zstd; which of them, its first bytes say. */
#pragma once
#include "util/err.h"
#include <stdbool.h>
#include <stdint.h>

struct textfile;

/* ERR_IO names the path. */
MUST_USE enum status textfile_open(const char *path, struct textfile **out, struct err *e);
void textfile_close(struct textfile *f);

/* The next line without its end ("\n" or "\r\n"), valid until the next call, not NUL-terminated;
 * *line = NULL behind the last. *number counts from 1. ERR_IO, ERR_FORMAT (damaged or truncated
 * compression, a line of more than 1 GiB). */
MUST_USE enum status textfile_line(struct textfile *f, const char **line, size_t *n,
                                   int64_t *number, struct err *e);

/* *text (*n bytes) = the rest of the file; the caller frees. Errors as above. */
MUST_USE enum status textfile_rest(struct textfile *f, char **text, size_t *n, struct err *e);
