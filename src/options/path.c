/* Paths of a sweep file: ${VAR}, and relative to the file. */
#include "options/options.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const char *text, size_t n)
{
    if (n == 0 || isdigit((unsigned char)text[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
    return true;
}

/* Replaces the first ${VAR} at or behind *from in *text; *from becomes what follows it, or -1. */
static enum status expand_one(char **text, ptrdiff_t *from, struct err *e)
{
    enum status st = OK;
    char *name = NULL, *longer = NULL;
    const char *start = strstr(*text + *from, "${");
    if (!start) {
        *from = -1;
        return OK;
    }
    size_t n = strcspn(start + 2, "}");
    char shown[NODE_SHOWN];
    text_show(start, shown, sizeof shown);
    ENSURE(start[2 + n] == '}' && is_name(start + 2, n), ERR_USAGE,
           "expected ${NAME} (letters, digits, _) at %s", shown);
    TRY(mem_format(&name, e, "%.*s", (int)n, start + 2));
    const char *value = getenv(name);
    ENSURE(value, ERR_USAGE, "the environment variable %s is not set", name);
    ptrdiff_t head = start - *text;
    TRY(mem_format(&longer, e, "%.*s%s%s", (int)head, *text, value, start + 3 + n));
    free(*text);
    *text = longer;
    *from = head + (ptrdiff_t)strlen(value);
done:
    free(name);
    return st;
}

enum status option_path(const char *text, const char *folder, char **out, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    TRY(mem_string(&path, text, e));
    for (ptrdiff_t from = 0; from >= 0;) TRY(expand_one(&path, &from, e));
    ENSURE(path[0], ERR_USAGE, "expected a path, found nothing after its variables");
    /* A sweep file of the current folder gives "data/x", not "./data/x". */
    TRY(fsx_join(strcmp(folder, ".") == 0 ? "" : folder, path, out, e));
done:
    free(path);
    return st;
}
