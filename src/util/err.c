#include "util/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *word, *text;
} statuses[] = {
#define X(id, word, text) [id] = {word, text},
    STATUS_LIST(X)
#undef X
};
enum { STATUS_N = sizeof statuses / sizeof *statuses };

const char *status_text(enum status st)
{
    return (size_t)st < STATUS_N ? statuses[st].text : "unknown status";
}

const char *status_word(enum status st)
{
    return (size_t)st < STATUS_N ? statuses[st].word : "unknown";
}

enum status status_of_word(const char *word)
{
    for (int i = 0; word && i < STATUS_N; i++)
        if (strcmp(statuses[i].word, word) == 0) return (enum status)i;
    return ERR_FORMAT;
}

enum status err_set(struct err *e, enum status code, const char *file, int line, const char *fmt,
                    ...)
{
    if (e == NULL || e->code != OK) return code; /* the first cause wins */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    e->code = code;
    e->file = file;
    e->line = line;
    return code;
}

void err_trail(struct err *e, const char *file, int line)
{
    if (e == NULL) return;
    size_t n = strlen(e->trail);
    snprintf(e->trail + n, sizeof e->trail - n, " < %s:%d", file, line);
}

void err_prefix(struct err *e, const char *fmt, ...)
{
    if (e == NULL || e->code == OK) return;
    char text[sizeof e->text];
    memcpy(text, e->text, sizeof text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text - 2, fmt, ap);
    va_end(ap);
    const size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", text);
}

void err_rename(struct err *e, const char *from, const char *to)
{
    if (e == NULL || !from[0]) return;
    char text[sizeof e->text];
    size_t n = 0;
    for (const char *p = e->text; *p && n < sizeof text - 1;) {
        bool here = strncmp(p, from, strlen(from)) == 0;
        const char *piece = here ? to : p;
        size_t m = here ? strlen(to) : 1, room = sizeof text - 1 - n;
        if (m > room) m = room;
        memcpy(text + n, piece, m);
        n += m;
        p += here ? strlen(from) : 1;
    }
    memcpy(e->text, text, n);
    e->text[n] = '\0';
}

void err_first(struct err *bad, int64_t *first, int64_t i, const struct err *own)
{
#pragma omp critical(err_first)
    if (i < *first) {
        *first = i;
        *bad = *own;
    }
}

void err_clear(struct err *e)
{
    if (e) *e = (struct err){0};
}
