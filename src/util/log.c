#include "util/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int own_rank = -1;

void log_rank(int rank)
{
    own_rank = rank;
}

/* One write() a line, so that lines of several ranks do not mix. */
static void emit(const char *label, const char *fmt, va_list ap)
{
    char line[2048];
    int n = snprintf(line, sizeof line, "%s", label);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    if (m > 0) n += m;
    if ((size_t)n > sizeof line - 2) n = (int)sizeof line - 2;
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

#define EMIT(label)                                                                                \
    do {                                                                                           \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        emit(label, fmt, ap);                                                                      \
        va_end(ap);                                                                                \
    } while (0)

void log_error(const char *fmt, ...)
{
    EMIT("qtraj: error: ");
}

void log_warn(const char *fmt, ...)
{
    EMIT("qtraj: warning: ");
}

void log_info(const char *fmt, ...)
{
    EMIT("");
}

bool log_traces(const char *topic)
{
    const char *want = getenv("QTRAJ_TRACE");
    size_t n = strlen(topic);
    for (const char *p = want; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t m = strcspn(p, ",");
        if ((m == n && strncmp(p, topic, n) == 0) || (m == 3 && strncmp(p, "all", 3) == 0))
            return true;
    }
    return false;
}

void log_trace(const char *topic, const char *fmt, ...)
{
    if (!log_traces(topic)) return;
    char label[64];
    if (own_rank >= 0)
        snprintf(label, sizeof label, "trace %s [%d]: ", topic, own_rank);
    else
        snprintf(label, sizeof label, "trace %s: ", topic);
    EMIT(label);
}
