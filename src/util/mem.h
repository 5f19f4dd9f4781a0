/* mem: allocation that reports instead of returning NULL. Memory is freed with free(). */
#pragma once
#include "util/err.h"
#include <stdlib.h> /* free, and what else nearly every file has from here */
#include <string.h>

/* Call once per process: freed blocks go back to the system, so that measured memory is used
 * memory, unless the environment sets glibc's thresholds. (By default glibc stops mapping blocks of
 * a size that was freed before and keeps them in its heap.) */
void mem_setup(void);

/* From now on freed blocks of up to 32 MiB stay in the process, and large ones have huge pages
 * where the system allows it: for work that allocates the same ones again and again, of which
 * clearing their pages would take a tenth of the time, and reading all of them takes many. */
void mem_keep_freed(void);

/* Before the declaration of a pointer, or of several in one: it is freed when it leaves its scope,
 * by whichever way. Initialise it. */
#define AUTO_FREE __attribute__((cleanup(mem_drop)))

/* The pointer p, which is NULL afterwards: *out = TAKE(text) hands over what text owns. */
#define TAKE(p)                                                                                    \
    __extension__({                                                                                \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

/* Frees what the pointer at `pointer` points to, and makes it NULL. */
void mem_drop(void *pointer);

/* *out = n zeroed elements of `size` bytes, 64-byte aligned; n = 0 gives a valid pointer. The
 * caller frees. ERR_NOMEM (also on overflow of n * size), the text names `what` and the bytes. */
MUST_USE enum status mem_zero(void *out, int64_t n, size_t size, const char *what, struct err *e);

/* The same without zeroing: for buffers that are written before they are read. */
MUST_USE enum status mem_alloc(void *out, int64_t n, size_t size, const char *what, struct err *e);

/* *out = a copy of the string; the caller frees. ERR_NOMEM. */
MUST_USE enum status mem_string(char **out, const char *text, struct err *e);

/* *out = a formatted string of any length; the caller frees. ERR_NOMEM. */
MUST_USE enum status mem_format(char **out, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends a formatted string to *text (NULL: empty), which the caller frees. ERR_NOMEM leaves it as
 * it was. */
MUST_USE enum status mem_append(char **text, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Grows *array (elements of `size` bytes) to hold at least n + 1 of them and updates *capacity.
 * Start with NULL and 0; the caller frees. ERR_NOMEM leaves the array as it was. */
MUST_USE enum status mem_grow(void *array, int64_t n, int64_t *capacity, size_t size,
                              struct err *e);

/* Memory that is kept from call to call, as by a thread whose work has one size. Zero-initialise.
 */
struct mem_kept {
    void *at;
    int64_t bytes;
};
/* So many bytes of it, 64-byte aligned; what was there is lost when it grows. NULL: out of memory,
 * and nothing is kept. */
void *mem_keep(struct mem_kept *k, int64_t bytes);
