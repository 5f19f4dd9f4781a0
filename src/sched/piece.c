#include "sched/sched_internal.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 21 };

enum status sched_piece_write(const char *text, const int64_t *parts, int64_t n, char **out,
                              struct err *e)
{
    enum status st = OK;
    char *message = NULL;
    size_t length = strlen(text);
    TRY(mem_alloc(&message, n * DIGITS + (int64_t)length + 3, 1, "message", e));
    char *p = message;
    if (n == 0) *p++ = '-';
    for (int64_t i = 0; i < n; i++)
        p += snprintf(p, DIGITS + 1, "%s%lld", i ? "," : "", (long long)parts[i]);
    *p++ = '\n';
    memcpy(p, text, length + 1);
    *out = message;
done:
    return st;
}

enum status sched_piece_read(const char *message, int64_t **parts, struct sched_piece *out,
                             struct err *e)
{
    enum status st = OK;
    const char *end = strchr(message, '\n'), *p = message;
    int64_t n = 0, capacity = 0;
    ENSURE(end, ERR_MPI, "a task without a line of parts");
    while (*message != '-' && p < end) {
        char *next;
        TRY(mem_grow(parts, n, &capacity, sizeof **parts, e));
        (*parts)[n++] = strtoll(p, &next, 10);
        ENSURE(next != p && (*next == ',' || next == end), ERR_MPI, "a task's parts: %.*s",
               (int)(end - message), message);
        p = next + 1;
    }
    *out = (struct sched_piece){.text = end + 1, .n_parts = n, .parts = *parts};
done:
    return st;
}
