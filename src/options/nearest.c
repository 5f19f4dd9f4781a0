#include "options/nearest.h"
#include "util/num.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH_MAX = 63 };

static int fold(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

/* Optimal string alignment distance (Damerau-Levenshtein without edits inside an exchange); both
 * at most LENGTH_MAX long. */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    int d[LENGTH_MAX + 1][LENGTH_MAX + 1];
    for (size_t i = 0; i <= na; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= nb; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++)
        for (size_t j = 1; j <= nb; j++) {
            int cost = fold(a[i - 1]) != fold(b[j - 1]);
            int64_t best = min64(d[i - 1][j], d[i][j - 1]) + 1;
            best = min64(best, d[i - 1][j - 1] + cost);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]))
                best = min64(best, d[i - 2][j - 2] + 1);
            d[i][j] = (int)best;
        }
    return d[na][nb];
}

/* NULL if none or several begin with it. */
static const char *only_beginning_with(const char *name, size_t length, const char *const *names,
                                       int64_t n)
{
    const char *found = NULL;
    for (int64_t i = 0; i < n && length > 1; i++) {
        size_t same = 0;
        while (same < length && names[i][same] && fold(name[same]) == fold(names[i][same])) same++;
        if (same < length) continue;
        if (found) return NULL;
        found = names[i];
    }
    return found;
}

const char *nearest_name(const char *name, const char *const *names, int64_t n)
{
    const char *nearest = NULL;
    int nearest_distance = 0;
    size_t length = strlen(name);
    if (length > LENGTH_MAX) return NULL;
    for (int64_t i = 0; i < n; i++) {
        size_t other = strlen(names[i]);
        if (other > LENGTH_MAX) continue;
        int d = distance(name, length, names[i], other);
        int limit = (int)(other < 3 ? 1 : (other + 2) / 3);
        if (d > limit || (size_t)d >= other) continue;
        if (nearest && d >= nearest_distance) continue;
        nearest = names[i];
        nearest_distance = d;
    }
    return nearest ? nearest : only_beginning_with(name, length, names, n);
}

void nearest_advice(const char *name, const char *const *names, int64_t n, char *text, size_t size)
{
    const bool pattern = strpbrk(name, "*?[") != NULL;
    const char *near = pattern ? NULL : nearest_name(name, names, n);
    if (near) {
        snprintf(text, size, ", did you mean %s?", near);
        return;
    }
    size_t used = (size_t)snprintf(text, size, "%s", n ? "; there are: " : "");
    for (int64_t i = 0; i < n; i++) {
        enum { MORE = 32 }; /* room for the last part */
        if (used + strlen(names[i]) + MORE > size) {
            snprintf(text + used, size - used, " and %lld more", (long long)(n - i));
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
    }
}
