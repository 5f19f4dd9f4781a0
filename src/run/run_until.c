#include "run/run_until.h"
#include "records/slurm.h"
#include "sched/sched.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/quantity.h"
#include <math.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static double unix_now(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
}

/* "@1770000000", "2026-01-31T18:00", "2026-01-31T18:00:00"; false: it is none of them. */
static bool parse_moment(const char *text, double *when)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"};
    char *end = NULL;
    if (text[0] == '@') {
        *when = strtod(text + 1, &end);
        return end != text + 1 && *end == '\0' && *when > 0;
    }
    for (int i = 0; i < 2; i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *rest = strptime(text, forms[i], &tm);
        if (!rest || *rest) continue;
        *when = (double)mktime(&tm);
        return *when > 0;
    }
    return false;
}

enum status run_until_find(const char *text, double *when, struct err *e)
{
    double end, left;
    *when = INFINITY;
    if (text && !parse_moment(text, when)) {
        if (span_parse(text, &left, e) != OK) {
            err_clear(e);
            RAISE(ERR_USAGE,
                  "--until %s: expected a length of time (30m, 8h, 1-12:00:00) or a moment "
                  "(2026-01-31T18:00, or @ and a Unix time)",
                  text);
        }
        *when = unix_now() + left;
    }
    NEED(!text || *when > unix_now(), ERR_USAGE, "--until %s: that moment is over", text);
    if (slurm_job_ends(&end) && end < *when) *when = end;
    return OK;
}

void run_until_set(double when)
{
    /* For the last records and cube; the half of it for a computation that cannot be broken off. */
    const double most = 60, share = 0.02;
    char text[QUANTITY];
    if (!isfinite(when)) return;
    const double left = when - unix_now(), now = clock_seconds();
    const double reserve = share * left < most ? share * left : most;
    quantity_time(left > 0 ? left : 0, text);
    log_info("the time ends in %s; no visit is begun that cannot end or be resumed by then", text);
    sched_end(now + left - reserve, now + left - reserve / 2);
}
