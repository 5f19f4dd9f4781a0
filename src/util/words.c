#include "util/words.h"
#include <fnmatch.h>
#include <stddef.h>
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

const char *choice_pattern(const char *choice, const char *key)
{
    size_t n = strlen(key);
    return strncmp(choice, key, n) == 0 && choice[n] == '=' ? choice + n + 1 : NULL;
}

bool choices_name(const char *const *choices, int64_t n, const char *key)
{
    for (int64_t i = 0; i < n; i++)
        if (choice_pattern(choices[i], key)) return true;
    return false;
}

bool choices_take(const char *const *choices, int64_t n, const char *key, const char *value)
{
    for (int64_t i = 0; i < n; i++) {
        const char *pattern = choice_pattern(choices[i], key);
        if (pattern && fnmatch(pattern, value, 0) != 0) return false;
    }
    return true;
}
