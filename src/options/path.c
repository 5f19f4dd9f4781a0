/* Paths of a sweep file: ${VAR}, and relative to the file. */
#include "options/options.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <ctype.h>

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
    AUTO_FREE char *name = NULL;
    char *longer = NULL;
    const char *start = strstr(*text + *from, "${");
    if (!start) {
        *from = -1;
        return OK;
    }
    size_t n = strcspn(start + 2, "}");
    char shown[NODE_SHOWN];
    text_show(start, shown, sizeof shown);
    NEED(start[2 + n] == '}' && is_name(start + 2, n), ERR_USAGE,
         "expected ${NAME} (letters, digits, _) at %s", shown);
    PASS(mem_format(&name, e, "%.*s", (int)n, start + 2));
    const char *value = getenv(name);
    NEED(value, ERR_USAGE, "the environment variable %s is not set", name);
    ptrdiff_t head = start - *text;
    PASS(mem_format(&longer, e, "%.*s%s%s", (int)head, *text, value, start + 3 + n));
    free(*text);
    *text = longer;
    *from = head + (ptrdiff_t)strlen(value);
    return OK;
}

enum status option_path(const char *text, const char *folder, char **out, struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(mem_string(&path, text, e));
    for (ptrdiff_t from = 0; from >= 0;) PASS(expand_one(&path, &from, e));
    NEED(path[0], ERR_USAGE, "expected a path, found nothing after its variables");
    /* A sweep file of the current folder gives "data/x", not "./data/x". */
    return fsx_join(strcmp(folder, ".") == 0 ? "" : folder, path, out, e);
}
