#include "util/log.h"
#include "util/words.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int own_rank = -1;
static atomic_bool line_open;
static const char clear[] = "\r\033[K";

void log_rank(int rank)
{
    own_rank = rank;
}

void log_clear_line(void)
{
    ssize_t written = 0;
    if (atomic_exchange(&line_open, false)) written = write(STDERR_FILENO, clear, strlen(clear));
    (void)written;
}

void log_progress(const char *line, bool terminal)
{
    log_clear_line();
    fprintf(stderr, "%s%s", line, terminal ? "" : "\n");
    fflush(stderr);
    line_open = terminal;
}

/* One write() per line, so that lines of several ranks do not mix. */
static void emit(const char *label, const char *fmt, va_list ap)
{
    char line[2048];
    const bool replaces = atomic_exchange(&line_open, false);
    int n = snprintf(line, sizeof line, "%s%s", replaces ? clear : "", label);
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
    const char *topics = getenv("QTRAJ_TRACE");
    return topics &&
           (words_have(topics, ",", topic, strlen(topic)) || words_have(topics, ",", "all", 3));
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
