/* saved_internal: what the files of saved states share. */
#pragma once
#include "records/saved.h"
#include <stdio.h>

/* The end of a file, after its data. */
struct saved_trailer {
    char magic[8];
    uint64_t process;   /* random number of the group that saved it */
    int64_t generation; /* counts the states of the work */
    int64_t bytes;      /* of the data */
    int64_t rank, size;
    char check[HASH_HEX]; /* digest of the data */
    char identity[SAVED_IDENTITY_N][HASH_HEX];
    char owner[HASH_HEX];
    char utc[21];
    char zero[6];
    double seconds; /* of work */
    uint64_t own;   /* checksum of the fields above */
};

/* A transfer: only counting, to a file, or from one. */
enum saved_direction { SAVED_COUNT, SAVED_STORE, SAVED_LOAD };
struct saved_move {
    enum saved_direction direction;
    int fd;     /* meaningless without a file */
    FILE *file; /* NULL: none; its buffer is that of fd */
    const char *path;
    struct XXH3_state_s *check; /* storing: of the bytes so far */
    int64_t bytes;              /* moved; loading: still to be read */
    struct err err;
};

/* Writes a file of the levels' data and the trailer, whose fields bytes, check and own it sets; not
 * synced. Local. ERR_FULL, ERR_IO, ERR_NOMEM. */
MUST_USE enum status saved_file_write(const char *path, const struct saved_level *levels,
                                      struct saved_trailer *trailer, struct err *e);
/* Bytes of the data that it would write. */
int64_t saved_file_bytes(const struct saved_level *levels);
/* Reads and checks a file's trailer, without the data. False: no such file, or a damaged one. */
bool saved_file_trailer(const char *path, struct saved_trailer *out);
/* Opens a file to load it, if all its data are as the trailer says. The caller closes with
 * saved_file_close, whatever is returned. ERR_IO, ERR_FORMAT, ERR_NOMEM. */
MUST_USE enum status saved_file_open(const char *path, const struct saved_trailer *trailer,
                                     struct saved_move *m, struct err *e);
void saved_file_close(struct saved_move *m);
/* Moves one level. */
void saved_file_level(struct saved_move *m, const struct saved_level *level);

/* --- saved_times.c --- */

/* At every point, for tests (QTRAJ_SAVE=always). */
bool saves_always(void);
/* What the saves of a work have taken. */
struct saved_times {
    int64_t n;
    double spent, longest; /* seconds: of all, of one */
};
/* Seconds that a save of so many bytes on all ranks is expected to take. */
double saved_takes(const struct saved_times *t, int64_t bytes);
/* Whether one more save, of so many bytes on all ranks, keeps within 1 % of the elapsed seconds,
 * even if it takes twice what is expected. */
bool saved_is_due(const struct saved_times *t, int64_t bytes, double elapsed);
/* Counts a save. */
void saved_took(struct saved_times *t, double seconds);
