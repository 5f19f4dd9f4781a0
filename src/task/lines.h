/* lines: the lines of a task's data, JSON lines that are plain, gzip or zstd. They are kept as
 * text, since of a large pool of examples only a few are looked at. */
#pragma once
#include "util/hash.h"
#include "util/json.h"

struct line {
    char *text;
    size_t n;
    int64_t number; /* in the file, from 1 */
};

/* Zero-initialise. */
struct lines {
    char *path;
    char hash[HASH_HEX]; /* digest of the file's bytes as they were read */
    int64_t n, capacity;
    struct line *line; // (n) blank ones are left out
};
void lines_free(struct lines *r);

/* Reads FOLDER/NAME.jsonl, or else that with .gz or .zst behind it; at most `limit` rows (0: all).
 * ERR_IO names the file; ERR_FORMAT: it has no rows, or its compression is damaged; ERR_NOMEM. */
MUST_USE enum status lines_read(const char *folder, const char *name, int64_t limit,
                                struct lines *out, struct err *e);
/* Whether there is such a file. */
bool lines_exist(const char *folder, const char *name);

/* *out = row i (a new reference). ERR_FORMAT with file and line; ERR_NOMEM. */
MUST_USE enum status line_open(const struct lines *r, int64_t i, json_t **out, struct err *e);
/* Puts "FILE:LINE: " before the text of an error about row i. */
void line_blame(const struct lines *r, int64_t i, struct err *e);
