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
