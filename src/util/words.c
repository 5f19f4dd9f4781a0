#include "util/words.h"
#include <string.h>

bool words_have(const char *list, const char *separators, const char *word, size_t n)
{
    for (const char *p = list; *p; p += *p != '\0') {
        size_t length = strcspn(p, separators);
        if (length == n && strncmp(p, word, n) == 0) return true;
        p += length;
    }
    return false;
}

bool words_end(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}
