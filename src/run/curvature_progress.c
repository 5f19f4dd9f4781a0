#include "run/curvature_progress.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/quantity.h"
#include <stdio.h>
#include <unistd.h>

enum { TERMINAL_SECONDS = 1, LOG_SECONDS = 10 };

void curvature_progress_start(struct curvature_progress *p, double most, double expected)
{
    double now = clock_seconds();
    *p = (struct curvature_progress){.most = most,
                                     .expected = expected,
                                     .start = now,
                                     .printed = now,
                                     .terminal = isatty(STDERR_FILENO)};
}

void curvature_progress_text(const struct curvature_progress *p, double seconds,
                             char text[CURVATURE_PROGRESS])
{
    char spent[QUANTITY], left[QUANTITY];
    /* What is expected, until a product has shown how long one takes. */
    double each = p->done >= 2 ? seconds / p->done : p->expected / p->most;
    double rest = each * (p->most - p->done);
    quantity_time(seconds, spent);
    quantity_time(rest, left);
    int n = p->done < 1 ? snprintf(text, CURVATURE_PROGRESS, "curvature: gradient, %s", spent)
                        : snprintf(text, CURVATURE_PROGRESS,
                                   "curvature: %.0f of at most %.0f products with the Hessian, %s",
                                   p->done - 1, p->most - 1, spent);
    if (rest > 0) snprintf(text + n, CURVATURE_PROGRESS - (size_t)n, ", at most %s left", left);
}

void curvature_progress_add(void *context, double products)
{
    struct curvature_progress *p = context;
    char text[CURVATURE_PROGRESS];
    double now = clock_seconds();
    p->done += products;
    if (now - p->printed < (p->terminal ? TERMINAL_SECONDS : LOG_SECONDS)) return;
    p->printed = now;
    curvature_progress_text(p, now - p->start, text);
    log_progress(text, p->terminal);
}
