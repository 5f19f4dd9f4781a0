/* textfile: reads text files that are plain, gzip or zstd, as their first bytes tell. */
#pragma once
#include "util/hash.h"

struct textfile;

/* Opens the file; *out is closed with textfile_close. ERR_IO names the path; ERR_NOMEM. */
MUST_USE enum status textfile_open(const char *path, struct textfile **out, struct err *e);
void textfile_close(struct textfile *f);
CLEANUP_BY_VALUE(struct textfile, textfile_close);
/* It ends after so many bytes, if it has more. Before the first line is read. */
void textfile_end_at(struct textfile *f, int64_t bytes);

/* *line = the next line (*n bytes, not NUL-terminated) without its end ("\n" or "\r\n"), borrowed
 * until the next call; NULL after the last line. *number: of the line, from 1. ERR_IO; ERR_FORMAT:
 * damaged or truncated compression, a line of more than 1 GiB; ERR_NOMEM. */
MUST_USE enum status textfile_line(struct textfile *f, const char **line, size_t *n,
                                   int64_t *number, struct err *e);

/* Whether the line of n bytes has nothing but spaces, tabs and "\r". */
bool textfile_is_blank(const char *line, size_t n);

/* hash = digest of the file's bytes as they were read; reads those that are left. The last call.
 * ERR_IO. */
MUST_USE enum status textfile_hash(struct textfile *f, char hash[HASH_HEX], struct err *e);

/* *text (*n bytes, not NUL-terminated; the caller frees) = the file's rest. Errors as above. */
MUST_USE enum status textfile_rest(struct textfile *f, char **text, size_t *n, struct err *e);
