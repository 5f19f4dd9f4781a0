#include "sched/link.h"
#include "sched/link_socket.h"
#include "util/clock.h"
#include "util/comm.h"
#include "util/exit_code.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/patience.h"
#include "util/thread.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a byte says. */
enum { BYTE_BEAT = 'B', BYTE_LEAVE = 'L', BYTE_BYE = 'Q' };

/* The other end of a connection. */
struct peer {
    int fd; /* -1: not connected, or not any more */
    int64_t id;
    double heard;         /* running time */
    bool left, dismissed; /* it said that it ends; it was ordered to */
    struct link_view is;  /* what link_look says, but for what is asked of the moment */
};

struct link {
    int64_t id; /* of this rank; 0: the master */
    int epoll;
    bool here;                      /* all ranks are on this host */
    struct link_listener *listener; /* NULL: all have come */
    long parent;                    /* process id of mpirun; 0: whoever it is, it may end */
    double sent;                    /* running time of the last beat */
    pthread_mutex_t guard;          /* of all below */
    struct clock_running clock;
    struct peer **peers; // (n) by id; of a worker: only its master, peers[0]
    int64_t n, capacity;
    bool working, bye;
    atomic_bool unused; /* its thread ends */
    double ends_at;
    atomic_bool changed;
    bool finishing; /* in the last collective calls */
    int code;
    void (*tell)(int code);
    double alarm; /* running time; 0: none */
    char alarm_why[300];
    void (*broken)(void *context, const char *why);
    void *context;
};

bool link_recovers(void)
{
    const char *given = getenv("OMPI_MCA_orte_enable_recovery");
    return given && (strcmp(given, "1") == 0 || strcmp(given, "true") == 0);
}

/* --- the thread, with the guard held --- */

static void say(const struct peer *p, char byte)
{
    if (p->fd >= 0 && send(p->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
        log_trace("link", "a byte to process %lld is lost: %s", (long long)p->is.pid,
                  strerror(errno));
}

static void leave(const char *why)
{
    log_trace("link", "leaving: %s", why);
    _exit(EXIT_STOPPED);
}

static void beat(struct link *l)
{
    const double often = patience_limit() / 12;
    if (l->clock.run - l->sent < often) return;
    l->sent = l->clock.run;
    for (int64_t i = 0; i < l->n; i++) say(l->peers[i], BYTE_BEAT);
}

/* When all is over. */
static void end_here(const struct link *l)
{
    if (l->tell) l->tell(l->code);
    _exit(l->code);
}

/* Gives the guard back before it ends the run, since that takes other locks. */
static void call_broken(struct link *l, const char *why)
{
    pthread_mutex_unlock(&l->guard);
    l->broken(l->context, why);
    pthread_mutex_lock(&l->guard);
}

/* A rank has died, or is silent. Rank 0 may be waiting for it, unless it works. */
static void lose(struct link *l, struct peer *p, const char *how)
{
    char why[300];
    if (p->left || p->dismissed || p->is.lost || l->bye) return;
    if (l->id > 0) leave(how);
    p->is.lost = true;
    l->changed = true;
    snprintf(why, sizeof why, "rank %lld (%s, process %lld) %s%s", (long long)p->id, p->is.host,
             (long long)p->is.pid, how, l->working ? "" : " before the work began");
    log_trace("link", "%s", why);
    if (l->finishing) end_here(l);
    if (!l->working) call_broken(l, why);
}

/* Reads what has come from it, or that it has ended. */
static void listen_to(struct link *l, struct peer *p)
{
    char bytes[64];
    ssize_t n;
    while ((n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        p->heard = l->clock.run;
        for (ssize_t i = 0; i < n; i++)
            if (bytes[i] != BYTE_BEAT && p->is.n_said < sizeof p->is.said)
                p->is.said[p->is.n_said++] = bytes[i];
        if (memchr(bytes, BYTE_BYE, (size_t)n)) p->left = true;
        if (l->id > 0 && memchr(bytes, BYTE_LEAVE, (size_t)n)) leave("rank 0 says so");
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    close(p->fd);
    p->fd = -1;
    lose(l, p, l->id > 0 ? "rank 0 is gone" : "has died");
}

static void add_to_epoll(struct link *l, int fd, void *tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};
    epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* One that knows the secret. */
static void admit(struct link *l, int fd, const struct link_greeting *g)
{
    if (g->id < 1 || g->id >= l->n || l->peers[g->id]->is.known) {
        close(fd);
        return;
    }
    struct peer *p = l->peers[g->id];
    p->fd = fd;
    p->is.known = true;
    p->is.pid = g->pid;
    p->heard = l->clock.run;
    memcpy(p->is.host, g->host, sizeof p->is.host);
    if (p->dismissed) say(p, BYTE_LEAVE);
    add_to_epoll(l, fd, p);
}

/* Nothing listens while nobody is expected. */
static void admit_ranks(struct link *l)
{
    struct link_greeting g;
    int64_t known = 1;
    if (!l->listener) return;
    for (int fd; (fd = link_listener_poll(l->listener, &g)) >= 0;) admit(l, fd, &g);
    for (int64_t i = 1; i < l->n; i++) known += l->peers[i]->is.known;
    if (known < l->n) return;
    link_listener_close(l->listener);
    l->listener = NULL;
}

/* What no connection says. */
static void look_around(struct link *l)
{
    /* One that has not come is silent, too, once rank 0 works: it replaces another. */
    char how[64];
    for (int64_t i = 0; i < l->n; i++) {
        struct peer *p = l->peers[i];
        const double silent = l->clock.run - p->heard;
        const bool expected = p->is.known ? p->fd >= 0 : l->working;
        snprintf(how, sizeof how, "has been silent for %.0f s", silent);
        if (expected && silent > patience_limit()) lose(l, p, how);
    }
    admit_ranks(l);
    if (l->parent > 1 && getppid() != l->parent) {
        l->parent = 0; /* mpirun is gone, which sends no signal then */
        kill(getpid(), SIGTERM);
    }
    if (l->id > 0 && l->peers[0]->left && !l->bye) {
        l->bye = true;
        l->ends_at = l->clock.run;
    }
    if (l->alarm > 0 && l->clock.run > l->alarm) call_broken(l, l->alarm_why);
    beat(l);
    /* It stays although all is over, or waits for one that does not come to the end. */
    if ((l->bye || l->finishing) && l->clock.run - l->ends_at > patience_limit()) end_here(l);
}

/* Takes in what comes within so many milliseconds. Returns the number of events. */
static int attend(struct link *l, int ms)
{
    enum { AT_ONCE = 64 };
    struct epoll_event events[AT_ONCE];
    const int n = epoll_wait(l->epoll, events, AT_ONCE, ms);
    HOLD(&l->guard);
    clock_running(&l->clock);
    for (int i = 0; i < n; i++) {
        struct peer *p = events[i].data.ptr;
        if (p && p->fd >= 0) listen_to(l, p);
    }
    look_around(l);
    return n;
}

static void *run(void *link)
{
    struct link *l = link;
    while (!l->unused) attend(l, 1000);
    return NULL;
}

/* Who is let in may have said something already. */
void link_poll(struct link *l)
{
    enum { MOST = 4 };
    for (int i = 0; i < MOST && attend(l, 0) > 0; i++) continue;
}

/* --- opening --- */

void link_close(struct link *l)
{
    if (!l) return;
    for (int64_t i = 0; i < l->n; i++) {
        if (l->peers[i]->fd >= 0) close(l->peers[i]->fd);
        free(l->peers[i]);
    }
    link_listener_close(l->listener);
    if (l->epoll >= 0) close(l->epoll);
    free(l->peers);
    free(l);
}

static struct link *link_new(int64_t id, int64_t peers)
{
    CLEANUP(link_close_at) struct link *l = NULL;
    int64_t first;
    if (mem_zero(&l, 1, sizeof *l, "a link", NULL) != OK) return NULL;
    l->id = id;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    pthread_mutex_init(&l->guard, NULL);
    if (l->epoll < 0 || link_expect(l, peers, &first, NULL) != OK) return NULL;
    l->peers[0]->is.known = true; /* the master: it does not greet */
    return TAKE(l);
}

static bool open_listener(struct link *l)
{
    if (l->listener) return true;
    l->listener = link_listener_open(l->here);
    if (l->listener) add_to_epoll(l, link_listener_fd(l->listener), NULL);
    return l->listener;
}

struct link *link_serve(int64_t ranks, bool here)
{
    CLEANUP(link_close_at) struct link *l = link_new(0, 1 + ranks);
    if (!l) return NULL;
    l->here = here;
    l->working = true;
    return ranks == 0 || open_listener(l) ? TAKE(l) : NULL;
}

/* A process alone has nobody to connect to, and may outlive its parent. */
static struct link *open_master(int64_t ranks, bool here,
                                void (*broken)(void *context, const char *why), void *context)
{
    CLEANUP(link_close_at) struct link *l = link_serve(ranks - 1, here);
    if (!l) return NULL;
    l->working = false;
    l->broken = broken;
    l->context = context;
    if (ranks > 1) l->parent = getppid();
    return thread_start(run, l, NULL) ? TAKE(l) : NULL;
}

struct link *link_join(const char *address, int64_t id)
{
    CLEANUP(link_close_at) struct link *l = link_new(id, 1);
    if (!l) return NULL;
    const int fd = l->peers[0]->fd = link_socket_connect(address, id, patience_limit());
    if (fd >= 0) add_to_epoll(l, fd, l->peers[0]);
    return fd >= 0 && thread_start(run, l, NULL) ? TAKE(l) : NULL;
}

/* Whether all ranks, and those that may replace them, are on this host. Collective on world. */
static bool all_here(MPI_Comm world)
{
    const char *nodes = getenv("OMPI_MCA_orte_num_nodes");
    CLEANUP(comm_free) MPI_Comm mates = MPI_COMM_NULL;
    return comm_of_node(world, &mates, NULL) == OK && comm_size(mates) == comm_size(world) &&
           (!nodes || atoi(nodes) <= 1);
}

enum status link_open(MPI_Comm world, void (*broken)(void *context, const char *why), void *context,
                      struct link **out, struct err *e)
{
    char address[LINK_ADDRESS] = "";
    struct link *l = NULL;
    const int rank = comm_rank(world), size = comm_size(world);
    const bool here = size == 1 || all_here(world);
    if (rank == 0 && (l = open_master(size, here, broken, context)))
        memcpy(address, link_address(l), strlen(link_address(l)));
    MPI_Bcast(address, sizeof address, MPI_CHAR, 0, world);
    if (rank > 0 && address[0]) l = link_join(address, rank);
    int all = l != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, world);
    *out = all ? l : NULL;
    if (all) return OK;
    if (l) l->unused = true;
    NEED(size > 1, ERR_NOMEM, "out of memory: no thread that looks for progress");
    NEED(!link_recovers(), ERR_MPI,
         "not every rank can connect to rank 0 over TCP, so that nobody would notice the death of "
         "one; start it by mpirun without --enable-recovery, or by srun");
    if (rank == 0) log_warn("not every rank can connect to rank 0 over TCP: nobody watches them");
    return OK;
}

void link_bye(struct link *l)
{
    if (!l) return;
    HOLD(&l->guard);
    for (int64_t i = 0; i < l->n; i++) say(l->peers[i], BYTE_BYE);
    l->bye = true;
    l->alarm = 0;
    l->ends_at = l->clock.run;
}

/* --- rank 0 --- */

void link_work(struct link *l)
{
    HOLD(&l->guard);
    l->working = true;
    l->alarm = 0;
}

struct link_view link_look(struct link *l, int64_t id)
{
    HOLD(&l->guard);
    const struct peer *p = l->peers[id];
    struct link_view v = p->is;
    v.connected = p->fd >= 0;
    if (v.connected || !v.known) v.silent = l->clock.run - p->heard;
    return v;
}

bool link_changed(struct link *l)
{
    return l->changed && atomic_exchange(&l->changed, false);
}

double link_clock(struct link *l)
{
    HOLD(&l->guard);
    return l->clock.run;
}

void link_dismiss(struct link *l, int64_t id)
{
    HOLD(&l->guard);
    l->peers[id]->dismissed = true;
    say(l->peers[id], BYTE_LEAVE);
}

enum status link_expect(struct link *l, int64_t n, int64_t *first, struct err *e)
{
    HOLD(&l->guard);
    NEED(!l->working || open_listener(l), ERR_MPI, "no TCP socket");
    *first = l->n;
    for (int64_t i = 0; i < n; i++) {
        struct peer *p;
        PASS(mem_grow(&l->peers, l->n, &l->capacity, sizeof *l->peers, e));
        PASS(mem_zero(&p, 1, sizeof *p, "a rank", e));
        *p = (struct peer){.fd = -1, .id = l->n, .heard = l->clock.run};
        l->peers[l->n++] = p;
    }
    return OK;
}

const char *link_address(const struct link *l)
{
    return l->listener ? link_listener_address(l->listener) : "";
}

void link_alarm(struct link *l, double seconds, const char *why)
{
    HOLD(&l->guard);
    l->alarm = why ? l->clock.run + seconds : 0;
    if (why) snprintf(l->alarm_why, sizeof l->alarm_why, "%s", why);
}

bool link_finish(struct link *l, int code, bool detached, void (*tell)(int code))
{
    pthread_mutex_lock(&l->guard);
    l->code = code;
    l->tell = tell;
    for (int64_t i = 1; i < l->n; i++) detached = detached || l->peers[i]->is.lost;
    l->alarm = 0;
    l->finishing = !detached;
    l->bye = l->bye || detached;
    l->ends_at = l->clock.run;
    for (int64_t i = 1; detached && i < l->n; i++) say(l->peers[i], BYTE_LEAVE);
    pthread_mutex_unlock(&l->guard);
    return detached;
}
