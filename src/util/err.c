#include "util/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *status_text(enum status st)
{
#define X(name, text) [name] = text,
    static const char *const texts[] = {STATUS_LIST(X)};
#undef X
    return (size_t)st < sizeof texts / sizeof *texts ? texts[st] : "unknown status";
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
    char prefix[sizeof e->text], text[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    memcpy(text, e->text, sizeof text);
    size_t n = strlen(prefix), m = strlen(text), room = sizeof e->text - 1;
    if (n > room - 2) n = room - 2;
    if (m > room - 2 - n) m = room - 2 - n;
    memcpy(e->text, prefix, n);
    memcpy(e->text + n, ": ", 2);
    memcpy(e->text + n + 2, text, m);
    e->text[n + 2 + m] = '\0';
}

void err_clear(struct err *e)
{
    if (e) *e = (struct err){0};
}
