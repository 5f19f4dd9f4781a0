#include "run/arrivals.h"
#include "run/startup.h"
#include "sched/link.h"
#include "util/mem.h"
#include <errno.h>
#include <stdio.h>

struct arrivals {
    struct link *link;
    int64_t n;
    struct arrivals_view view;
};

enum status arrivals_open(int64_t ranks, bool here, struct arrivals **out, struct err *e)
{
    CLEANUP(arrivals_close_at) struct arrivals *a = NULL;
    PASS(mem_zero(&a, 1, sizeof *a, "ranks", e));
    *a = (struct arrivals){.n = ranks, .view = {.verdict = -1, .ended = -1}};
    a->link = link_serve(ranks, here);
    NEED(a->link, ERR_IO, "cannot listen for the ranks: %s", strerror(errno));
    NEED(setenv(STARTUP_LAUNCH, link_address(a->link), 1) == 0, ERR_NOMEM, "out of memory");
    *out = TAKE(a);
    return OK;
}

void arrivals_close(struct arrivals *a)
{
    if (a) link_close(a->link);
    free(a);
}

static struct link_view look_at(const struct arrivals *a, int64_t rank)
{
    return link_look(a->link, 1 + rank);
}

struct arrivals_view arrivals_look(struct arrivals *a)
{
    link_poll(a->link);
    a->view.run = link_clock(a->link);
    for (int64_t i = 0; i < a->n; i++) {
        const struct link_view v = look_at(a, i);
        const bool gone = v.known && !v.connected;
        if (gone && v.n_said == 0 && !a->view.met && a->view.ended < 0) a->view.ended = i;
        if (i > 0) continue;
        const char *ends = memchr(v.said, STARTUP_ENDS, v.n_said);
        if (ends && ends + 1 < v.said + v.n_said) a->view.verdict = ends[1];
        a->view.met = v.n_said > 0;
        a->view.gone = gone;
        a->view.silent = v.connected ? v.silent : 0;
    }
    return a->view;
}

/* --- for people --- */

void arrivals_name(const struct arrivals *a, int64_t rank, char *text, size_t n)
{
    const struct link_view v = look_at(a, rank);
    snprintf(text, n, "rank %lld (%s, process %lld)", (long long)rank, v.host, (long long)v.pid);
}

static bool has_not_come(const struct link_view *v)
{
    return !v->known;
}

static bool is_silent(const struct link_view *v)
{
    return v->connected && v->silent >= ARRIVALS_SILENT;
}

/* "0, 2-4", the ranks of which that is true; false: there are none. */
static bool list(const struct arrivals *a, bool (*is)(const struct link_view *v), char *text,
                 size_t n)
{
    size_t used = 0;
    int64_t run = 0; /* ranks before this one of which it is true, too */
    for (int64_t i = 0; i <= a->n && used < n; i++) {
        const struct link_view v = i < a->n ? look_at(a, i) : (struct link_view){0};
        const bool in = i < a->n && is(&v);
        if (in && run == 0)
            used +=
                (size_t)snprintf(text + used, n - used, "%s%lld", used ? ", " : "", (long long)i);
        if (!in && run > 1 && used < n)
            used += (size_t)snprintf(text + used, n - used, "-%lld", (long long)i - 1);
        run = in ? run + 1 : 0;
    }
    return used > 0;
}

void arrivals_describe(const struct arrivals *a, char *text, size_t n)
{
    char some[200] = "";
    if (list(a, has_not_come, some, sizeof some))
        snprintf(text, n,
                 "rank %s has not come: it died or was stopped before, or its host does "
                 "not reach this one",
                 some);
    else if (list(a, is_silent, some, sizeof some))
        snprintf(text, n, "rank %s is silent: it is stopped, or its host is gone", some);
    else
        snprintf(text, n,
                 "all have started, but MPI has not connected them, perhaps for lack of "
                 "memory (ulimit -v) or of room in /dev/shm or TMPDIR");
}
