#include "cli/progress.h"
#include "util/clock.h"
#include <stdio.h>
#include <unistd.h>

void progress_start(struct progress *p, int64_t cells)
{
    double now = clock_seconds();
    *p = (struct progress){
        .cells = cells, .start = now, .printed = now, .terminal = isatty(STDERR_FILENO)};
}

void progress_add(struct progress *p, int64_t done, int64_t failed)
{
    p->done += done;
    p->failed += failed;
    p->dirty = p->dirty || done || failed;
}

static void format_seconds(double seconds, char *text, size_t n)
{
    long s = (long)(seconds + 0.5);
    if (s >= 86400)
        snprintf(text, n, "%ldd %02ldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(text, n, "%ldh %02ldm", s / 3600, s / 60 % 60);
    else
        snprintf(text, n, "%ldm %02lds", s / 60, s % 60);
}

void progress_print(struct progress *p, bool last)
{
    enum { TERMINAL_SECONDS = 1, LOG_SECONDS = 10 };
    double now = clock_seconds(), elapsed = now - p->start;
    int64_t finished = p->done + p->failed;
    if (!p->cells || (!last && now - p->printed < (p->terminal ? TERMINAL_SECONDS : LOG_SECONDS)))
        return;
    if (!last && !p->terminal && !p->dirty) return;
    char left[32] = "?", spent[32];
    if (finished)
        format_seconds(elapsed / (double)finished * (double)(p->cells - finished), left,
                       sizeof left);
    format_seconds(elapsed, spent, sizeof spent);
    fprintf(stderr, "%s%lld/%lld cells, %lld failed, %.2f cells/s, %s spent, %s left%s",
            p->terminal ? "\r\033[K" : "", (long long)finished, (long long)p->cells,
            (long long)p->failed, elapsed > 0 ? (double)finished / elapsed : 0.0, spent, left,
            p->terminal && !last ? "" : "\n");
    fflush(stderr);
    p->printed = now;
    p->dirty = false;
}
