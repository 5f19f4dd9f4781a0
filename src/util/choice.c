#include "util/choice.h"
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

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
