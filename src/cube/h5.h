/* h5: HDF5 with this project's errors. The library never accesses a disk: files are made and opened
 * in memory, as bytes. A full disk, locks of a network file system or a file replaced meanwhile are
 * then plain I/O errors with clear messages (the library reports a full disk only at the end, or
 * never). */
#pragma once
#include "cube/cube.h"
#include "records/results.h"
#include <hdf5.h>

/* Has HDF5 print no errors. */
void h5_quiet(void);

/* Raises the innermost error of HDF5's stack as "name: what: HDF5: text". */
enum status h5_fail(struct err *e, enum status code, int line, const char *file, const char *name,
                    const char *what);
#define H5_NEED(ok, code, name, what)                                                              \
    do {                                                                                           \
        if (!(ok)) return h5_fail(e, (code), __LINE__, __FILE__, (name), (what));                  \
    } while (0)

/* For CLEANUP (util/err.h): closes a file, or another identifier, that is open (not negative). */
void h5_close_file(const hid_t *id);
void h5_close(const hid_t *id);

/* A new file in memory; name is for messages. */
MUST_USE enum status h5_create(const char *name, hid_t *file, struct err *e);
/* The bytes of a flushed file in memory, followed by the seal (seal.h); the caller frees *data. */
MUST_USE enum status h5_image(hid_t file, const char *name, const struct journal_mark *mark,
                              char **data, size_t *n, struct err *e);
/* Opens a copy of the bytes for reading, without their seal, which must fit if there is one (seal.h
 * says what *mark and *sealed are). ERR_FORMAT. */
MUST_USE enum status h5_open_image(const char *name, char *data, size_t n, hid_t *file,
                                   struct journal_mark *mark, bool *sealed, struct err *e);

/* The types of elements in memory and in a file. A text is variable-length UTF-8; *type is closed
 * by the caller. */
MUST_USE enum status h5_type(enum field_type type, bool in_file, hid_t *out, struct err *e);

/* Writes attributes of an open object; n -1: one value, not an array. */
MUST_USE enum status h5_put_text(hid_t object, const char *key, const char *text, struct err *e);
MUST_USE enum status h5_put_array(hid_t object, const char *key, enum field_type type,
                                  const void *values, int64_t n, struct err *e);

/* Reads a whole dataset of that type; *n: the number of its elements, set if it is -1. *out is
 * freed with h5_free_data. A zero-length text may come back as NULL. ERR_FORMAT. */
MUST_USE enum status h5_read(hid_t file, const char *name, const char *path, enum field_type type,
                             int64_t *n, union cube_data *out, struct err *e);
/* Whether a group has a variable. */
bool h5_has(hid_t file, const char *group, const char *variable);
void h5_free_data(union cube_data *data, enum field_type type, int64_t n);
