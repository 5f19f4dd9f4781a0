#include "util/page.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST = 40, MOST = 100000 };

static int64_t wanted_width(FILE *out, int64_t otherwise)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    char *end;
    long columns = given ? strtol(given, &end, 10) : 0;
    if (columns > 0 && columns < MOST && !*end) return columns;
    int fd = fileno(out); /* -1: in memory */
    if (fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return otherwise;
}

int64_t page_width(FILE *out, int64_t otherwise)
{
    int64_t width = wanted_width(out, otherwise);
    return width < LEAST ? LEAST : width;
}

int64_t page_columns(const char *text)
{
    int64_t n = 0;
    for (; text && *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

void page_print(FILE *out, int64_t width, int64_t indent, int64_t at, const char *text)
{
    bool first = true; /* of its line */
    while (*(text += strspn(text, " "))) {
        size_t n = strcspn(text, " ");
        int64_t columns = 0;
        for (size_t i = 0; i < n; i++) columns += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (!first && at + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)n, text);
        at += columns + !first;
        first = false;
        text += n;
    }
    putc('\n', out);
}

void page_print_lines(FILE *out, int64_t width, int64_t indent, char *text)
{
    for (char *end; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        if (page_columns(text) > width)
            page_print(out, width, indent, 0, text);
        else
            fprintf(out, "%s\n", text);
    }
}
