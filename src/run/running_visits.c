#include "run/running_visits.h"
#include "records/running.h"
#include "util/clock.h"
#include "util/log.h"
#include <time.h>

/* The start of a visit is the same each time it is asked for, so that a file is only written when
 * something has changed. */
static json_t *list_of(const struct running_visits *h, const struct sched_progress *p)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < p->n; i++) {
        const struct sched_running *one = &p->running[i];
        const time_t start = (time_t)(h->epoch + clock_seconds() - one->seconds);
        struct tm utc;
        char since[21];
        gmtime_r(&start, &utc);
        strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:s, s:s}", "name", one->name ? one->name : "",
                                        "rank", one->rank, "since", since, "what", one->what));
    }
    return list;
}

double running_visits_note(struct running_visits *h, const char *journal,
                           const struct sched_progress *p)
{
    const double often = 5;
    struct err e = {0};
    if (h->epoch == 0) h->epoch = (double)time(NULL) - clock_seconds();
    json_t *now = list_of(h, p);
    if (!now || json_equal(now, h->visits)) {
        json_decref(now);
        return often;
    }
    if (running_write(journal, now, &e) != OK) log_trace("io", "%s", e.text);
    json_decref(h->visits);
    h->visits = now;
    return often;
}

void running_visits_free(struct running_visits *h)
{
    json_drop(&h->visits);
}
