#include "run/arrivals.h"
#include "run/startup.h"
#include "sched/link_socket.h"
#include "util/clock.h"
#include "util/mem.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct arrival {
    int fd; /* -1: not connected, or not any more */
    bool came, met, telling;
    int64_t pid;
    char host[64];
    double heard; /* running time */
};

struct arrivals {
    int epoll;
    struct clock_running clock;
    struct link_door *door;
    int64_t n;
    struct arrival *ranks; // (n)
    struct arrivals_view view;
};

static void add_to_epoll(struct arrivals *a, int fd, void *tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};
    epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &event);
}

enum status arrivals_open(int64_t ranks, bool here, struct arrivals **out, struct err *e)
{
    enum status st = OK;
    struct arrivals *a = NULL;
    TRY(mem_zero(&a, 1, sizeof *a, "ranks", e));
    a->view = (struct arrivals_view){.verdict = -1, .ended = -1};
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    TRY(mem_zero(&a->ranks, ranks, sizeof *a->ranks, "ranks", e));
    for (; a->n < ranks; a->n++) a->ranks[a->n].fd = -1;
    a->door = link_door_open(here);
    ENSURE(a->epoll >= 0 && a->door, ERR_IO, "cannot listen for the ranks: %s", strerror(errno));
    add_to_epoll(a, link_door_fd(a->door), NULL);
    ENSURE(setenv(STARTUP_LAUNCH, link_door_address(a->door), 1) == 0, ERR_NOMEM, "out of memory");
    *out = a;
    a = NULL;
done:
    arrivals_close(a);
    return st;
}

void arrivals_close(struct arrivals *a)
{
    if (!a) return;
    for (int64_t i = 0; i < a->n; i++)
        if (a->ranks[i].fd >= 0) close(a->ranks[i].fd);
    link_door_close(a->door);
    if (a->epoll >= 0) close(a->epoll);
    free(a->ranks);
    free(a);
}

int arrivals_fd(const struct arrivals *a)
{
    return a->epoll;
}

static void admit(struct arrivals *a, int fd, const struct link_greeting *g)
{
    if (g->id < 0 || g->id >= a->n || a->ranks[g->id].came) {
        close(fd);
        return;
    }
    struct arrival *r = &a->ranks[g->id];
    *r = (struct arrival){.fd = fd, .came = true, .pid = g->pid, .heard = a->clock.run};
    memcpy(r->host, g->host, sizeof r->host);
    add_to_epoll(a, fd, r);
}

static void take(struct arrivals *a, struct arrival *r, const char *bytes, ssize_t n)
{
    const bool first = r == a->ranks;
    r->heard = a->clock.run;
    for (ssize_t i = 0; i < n; i++) {
        if (r->telling && first) a->view.verdict = bytes[i];
        r->telling = !r->telling && bytes[i] == STARTUP_ENDS;
        r->met = r->met || r->telling || bytes[i] == STARTUP_MET;
    }
    if (first && r->met) a->view.met = true;
}

static void listen_to(struct arrivals *a, struct arrival *r)
{
    char bytes[64];
    const ssize_t n = recv(r->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) take(a, r, bytes, n);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    close(r->fd);
    r->fd = -1;
    if (r == a->ranks) a->view.gone = true;
    if (!r->met && !a->view.met && a->view.ended < 0) a->view.ended = r - a->ranks;
}

static double silence(const struct arrivals *a, const struct arrival *r)
{
    return r->fd >= 0 ? a->clock.run - r->heard : 0;
}

struct arrivals_view arrivals_look(struct arrivals *a)
{
    enum { AT_ONCE = 64 };
    struct link_greeting g;
    struct epoll_event events[AT_ONCE];
    a->view.run = clock_running(&a->clock);
    for (int fd; a->door && (fd = link_door_tend(a->door, &g)) >= 0;) admit(a, fd, &g);
    const int n = epoll_wait(a->epoll, events, AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr) listen_to(a, events[i].data.ptr);
    if (a->view.met) {
        link_door_close(a->door);
        a->door = NULL;
    }
    a->view.silent = silence(a, a->ranks);
    return a->view;
}

/* --- for people --- */

void arrivals_name(const struct arrivals *a, int64_t rank, char *text, size_t n)
{
    const struct arrival *r = &a->ranks[rank];
    snprintf(text, n, "rank %lld (%s, process %lld)", (long long)rank, r->host, (long long)r->pid);
}

static bool has_not_come(const struct arrivals *a, const struct arrival *r)
{
    (void)a;
    return !r->came;
}

static bool is_silent(const struct arrivals *a, const struct arrival *r)
{
    return silence(a, r) >= ARRIVALS_SILENT;
}

/* "0, 2-4", the ranks of which that is true; false: there are none. */
static bool list(const struct arrivals *a,
                 bool (*is)(const struct arrivals *a, const struct arrival *r), char *text,
                 size_t n)
{
    size_t used = 0;
    for (int64_t i = 0, last; i < a->n && used < n; i = last + 1) {
        last = i;
        if (!is(a, &a->ranks[i])) continue;
        while (last + 1 < a->n && is(a, &a->ranks[last + 1])) last++;
        used += (size_t)snprintf(text + used, n - used, "%s%lld", used ? ", " : "", (long long)i);
        if (last > i && used < n)
            used += (size_t)snprintf(text + used, n - used, "-%lld", (long long)last);
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
