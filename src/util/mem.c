#include "util/mem.h"
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

/* Aligned blocks leave holes in the heap that glibc before 2.38 does not reuse
 * (sourceware.org/bugzilla 14581), so blocks of a few pages or more are mapped. */
enum { ALIGNMENT = 64, MAPPED_FROM = 32 << 10, HUGE_PAGE = 2 << 20 };

void mem_setup(void)
{
    if (!getenv("MALLOC_MMAP_THRESHOLD_")) mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
    if (!getenv("MALLOC_TRIM_THRESHOLD_")) mallopt(M_TRIM_THRESHOLD, MAPPED_FROM);
    /* Else each large block that is freed makes glibc go through all small ones that were freed
     * since the last time: a fifth of the time in which a long journal is read. */
    mallopt(M_MXFAST, 0);
}

/* Whether pages of large blocks are huge where the system has such: mem_keep_freed was called. */
static bool huge;

void mem_keep_freed(void)
{
    huge = true;
    enum { MAPPED = 32 << 20, KEPT = 1 << 30 }; /* the largest threshold that glibc takes */
    if (!getenv("MALLOC_MMAP_THRESHOLD_")) mallopt(M_MMAP_THRESHOLD, MAPPED);
    if (!getenv("MALLOC_TRIM_THRESHOLD_")) mallopt(M_TRIM_THRESHOLD, KEPT);
}

void mem_drop(void *pointer)
{
    void *p;
    memcpy(&p, pointer, sizeof p);
    free(p);
    memset(pointer, 0, sizeof p);
}

enum status mem_alloc(void *out, int64_t n, size_t size, const char *what, struct err *e)
{
    size_t bytes;
    void *p = NULL;
    NEED(n >= 0 && !__builtin_mul_overflow((size_t)n, size, &bytes) && bytes < SIZE_MAX / 2,
         ERR_NOMEM, "%s: %lld elements of %zu bytes cannot be addressed", what, (long long)n, size);
    NEED(posix_memalign(&p, ALIGNMENT, bytes ? bytes : 1) == 0, ERR_NOMEM,
         "%s: cannot allocate %zu bytes", what, bytes);
    if (huge && bytes >= 2 * HUGE_PAGE) {
        const size_t skipped = -(uintptr_t)p % HUGE_PAGE;
        (void)madvise((char *)p + skipped, bytes - skipped, MADV_HUGEPAGE);
    }
    memcpy(out, &p, sizeof p);
    return OK;
}

enum status mem_zero(void *out, int64_t n, size_t size, const char *what, struct err *e)
{
    void *p = NULL;
    enum status st = mem_alloc(&p, n, size, what, e);
    if (st != OK) return st;
    memset(p, 0, (size_t)n * size);
    memcpy(out, &p, sizeof p);
    return OK;
}

enum status mem_string(char **out, const char *text, struct err *e)
{
    return mem_format(out, e, "%s", text);
}

enum status mem_format(char **out, struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(out, fmt, ap);
    va_end(ap);
    if (n < 0) *out = NULL;
    NEED(n >= 0, ERR_NOMEM, "cannot allocate a string");
    return OK;
}

enum status mem_append(char **text, struct err *e, const char *fmt, ...)
{
    char *more, *whole;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&more, fmt, ap);
    va_end(ap);
    NEED(n >= 0, ERR_NOMEM, "cannot allocate a string");
    enum status st = mem_format(&whole, e, "%s%s", *text ? *text : "", more);
    free(more);
    if (st == OK) free(*text);
    if (st == OK) *text = whole;
    return st;
}

enum status mem_grow(void *array, int64_t n, int64_t *capacity, size_t size, struct err *e)
{
    void *p;
    memcpy(&p, array, sizeof p);
    if (n < *capacity) return OK;
    int64_t want = *capacity ? 2 * *capacity : 16;
    while (want <= n) want *= 2;
    void *q = reallocarray(p, (size_t)want, size);
    NEED(q, ERR_NOMEM, "cannot allocate %lld elements of %zu bytes", (long long)want, size);
    *capacity = want;
    memcpy(array, &q, sizeof q);
    return OK;
}

void *mem_keep(struct mem_kept *k, int64_t bytes)
{
    if (k->at && bytes <= k->bytes) return k->at;
    free(k->at);
    *k = (struct mem_kept){0};
    if (mem_alloc(&k->at, bytes, 1, "kept memory", NULL) == OK) k->bytes = bytes;
    return k->at;
}
