#include "eval/doubts.h"
#include "util/log.h"
#include "util/num.h"
#include "util/quantity.h"
#include <stdio.h>

bool doubt_of_length(const char *data, const struct sequences *s, int64_t first, int64_t end,
                     int64_t positions, char *text, size_t size)
{
    int64_t longest = 0, n = 0;
    for (int64_t i = first; i < end; i++) {
        const int64_t length = s->offset[i + 1] - s->offset[i];
        longest = max64(longest, length);
        n += length > positions;
    }
    if (positions < 1 || n == 0) return false;
    snprintf(text, size,
             "%s: %lld of %lld sequences are longer than the model's %lld positions, up to "
             "%lld tokens: predictions beyond position %lld mean little; length: %lld (or auto) "
             "cuts them",
             data, (long long)n, (long long)(end - first), (long long)positions, (long long)longest,
             (long long)positions, (long long)positions);
    return true;
}

bool doubt_of_number(const char *data, const struct data_options *d, int64_t n, char *text,
                     size_t size)
{
    if (n >= d->samples || d->tokens) return false; /* which may be what cuts them */
    snprintf(
        text, size,
        "%s: %lld sequence%s, where samples: %lld asks for more than the text gives: give more "
        "text, or a lower length",
        data, (long long)n, quantity_plural(n), (long long)d->samples);
    return true;
}

void warn_of_length(const char *model, const char *data, const struct sequences *s, int64_t first,
                    int64_t end, int64_t positions)
{
    char text[400];
    if (doubt_of_length(data, s, first, end, positions, text, sizeof text))
        log_warn("%s: %s", model, text);
}
