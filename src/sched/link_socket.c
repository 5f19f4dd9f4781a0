#include "sched/link_socket.h"
#include "util/clock.h"
#include "util/mem.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the side that listens: strangers of the network can connect to it --- */

enum { NEWCOMERS = 64, LISTENERS = 32, ANSWER = 'A' };

static const double newcomer_seconds = 3, pause_seconds = 0.5;

/* Who has connected and not yet shown the secret. */
struct newcomer {
    int fd; /* -1: none */
    size_t n;
    double since;
    struct link_greeting greeting; /* its first n bytes have come */
};

struct link_listener {
    int epoll, n, listeners[LISTENERS];
    uint64_t secret[2];
    double paused; /* clock_seconds since when nobody is accepted; 0: they are */
    char address[LINK_ADDRESS];
    struct newcomer newcomers[NEWCOMERS];
};

/* Adds a listener on the address, with a port of its own. */
static void listen_on(struct link_listener *l, struct in_addr ip)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = ip};
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t size = sizeof at;
    char text[INET_ADDRSTRLEN];
    const size_t used = strlen(l->address);
    if (l->n == LISTENERS || used + INET_ADDRSTRLEN + 8 > sizeof l->address) return;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    event.data.fd = fd;
    if (fd >= 0 && bind(fd, (const void *)&at, sizeof at) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (void *)&at, &size) == 0 && inet_ntop(AF_INET, &ip, text, sizeof text) &&
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
        l->listeners[l->n++] = fd;
        snprintf(l->address + used, sizeof l->address - used, " %s:%d", text, ntohs(at.sin_port));
    } else if (fd >= 0) {
        close(fd);
    }
}

/* Whether a word of Open MPI's list, "ib0" or "10.1.0.0/16", means the interface. */
static bool is_meant(const char *word, const struct ifaddrs *a)
{
    const struct sockaddr_in *in = (const void *)a->ifa_addr;
    struct in_addr net;
    char ip[INET_ADDRSTRLEN];
    unsigned bits;
    if (sscanf(word, "%15[0-9.]/%u", ip, &bits) != 2) return strcmp(word, a->ifa_name) == 0;
    if (bits > 32 || inet_pton(AF_INET, ip, &net) != 1) return false;
    const uint32_t mask = bits ? UINT32_MAX << (32 - bits) : 0;
    return ((ntohl(in->sin_addr.s_addr) ^ ntohl(net.s_addr)) & mask) == 0;
}

static bool is_used(const struct ifaddrs *a)
{
    const char *list = getenv("OMPI_MCA_btl_tcp_if_include");
    char text[1024], *next = NULL;
    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || a->ifa_flags & IFF_LOOPBACK)
        return false;
    snprintf(text, sizeof text, "%s", list ? list : a->ifa_name);
    for (char *w = strtok_r(text, ",", &next); w; w = strtok_r(NULL, ",", &next))
        if (is_meant(w, a)) return true;
    return false;
}

static void listen_to_hosts(struct link_listener *l)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next)
        if (is_used(a))
            listen_on(l, ((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr);
    freeifaddrs(all);
}

struct link_listener *link_listener_open(bool here)
{
    struct link_listener *l;
    if (mem_zero(&l, 1, sizeof *l, "a listener", NULL) != OK) return NULL;
    for (int i = 0; i < NEWCOMERS; i++) l->newcomers[i].fd = -1;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll >= 0 && getrandom(l->secret, sizeof l->secret, 0) == sizeof l->secret) {
        snprintf(l->address, sizeof l->address, "%016" PRIx64 "%016" PRIx64, l->secret[0],
                 l->secret[1]);
        if (!here) listen_to_hosts(l);
        if (l->n == 0) listen_on(l, (struct in_addr){htonl(INADDR_LOOPBACK)});
    }
    if (l->n > 0) return l;
    link_listener_close(l);
    return NULL;
}

void link_listener_close(struct link_listener *l)
{
    if (!l) return;
    for (int i = 0; i < l->n; i++) close(l->listeners[i]);
    for (int i = 0; i < NEWCOMERS; i++)
        if (l->newcomers[i].fd >= 0) close(l->newcomers[i].fd);
    if (l->epoll >= 0) close(l->epoll);
    free(l);
}

const char *link_listener_address(const struct link_listener *l)
{
    return l->address;
}

int link_listener_fd(const struct link_listener *l)
{
    return l->epoll;
}

/* --- newcomers --- */

static void drop(struct newcomer *g)
{
    if (g->fd >= 0) close(g->fd);
    g->fd = -1;
}

static struct newcomer *find_place(struct link_listener *l)
{
    struct newcomer *best = l->newcomers;
    for (struct newcomer *g = l->newcomers; g < l->newcomers + NEWCOMERS; g++) {
        if (g->fd < 0) return g;
        if (g->since < best->since) best = g;
    }
    drop(best);
    return best;
}

/* Where no descriptor can be had, a waiting connection would keep the listener readable for ever.
 */
static void pause_listeners(struct link_listener *l, bool pause)
{
    l->paused = pause ? clock_seconds() : 0;
    for (int i = 0; i < l->n; i++) {
        struct epoll_event event = {.events = pause ? 0 : EPOLLIN, .data.fd = l->listeners[i]};
        epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->listeners[i], &event);
    }
}

static void take_newcomer(struct link_listener *l, int listener)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        pause_listeners(l, true);
    if (fd < 0) return;
    struct newcomer *g = find_place(l);
    *g = (struct newcomer){.fd = fd, .since = clock_seconds()};
    event.data.fd = fd;
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) != 0) drop(g);
}

/* Reads no more than a greeting. The secret is judged as a whole: from who is sent away for its
 * first byte, 4096 strangers could learn it. True: it is whole, has the secret, and its sender
 * still waits. */
static bool receive_secret(const struct link_listener *l, struct newcomer *g)
{
    char more;
    const char answer = ANSWER;
    const ssize_t got =
        recv(g->fd, (char *)&g->greeting + g->n, sizeof g->greeting - g->n, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got > 0) g->n += (size_t)got;
    const bool whole = g->n >= sizeof l->secret;
    if (got <= 0 || (whole && memcmp(g->greeting.secret, l->secret, sizeof l->secret) != 0)) {
        drop(g);
        return false;
    }
    if (g->n < sizeof g->greeting) return false;
    if (recv(g->fd, &more, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN &&
        send(g->fd, &answer, 1, MSG_NOSIGNAL) == 1)
        return true;
    drop(g);
    return false;
}

static struct newcomer *newcomer_of(struct link_listener *l, int fd)
{
    for (struct newcomer *g = l->newcomers; g < l->newcomers + NEWCOMERS; g++)
        if (g->fd == fd) return g;
    return NULL;
}

int link_listener_poll(struct link_listener *l, struct link_greeting *greeting)
{
    enum { AT_MOST = 256 }; /* connections that keep coming must not keep the caller */
    struct epoll_event event;
    if (l->paused > 0 && clock_seconds() - l->paused > pause_seconds) pause_listeners(l, false);
    for (int i = 0; i < AT_MOST && epoll_wait(l->epoll, &event, 1, 0) == 1; i++) {
        struct newcomer *g = newcomer_of(l, event.data.fd);
        if (!g) take_newcomer(l, event.data.fd);
        if (!g || !receive_secret(l, g)) continue;
        const int fd = g->fd;
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
        *greeting = g->greeting;
        greeting->host[sizeof greeting->host - 1] = '\0';
        g->fd = -1;
        return fd;
    }
    for (struct newcomer *g = l->newcomers; g < l->newcomers + NEWCOMERS; g++)
        if (g->fd >= 0 && clock_seconds() - g->since > newcomer_seconds) drop(g);
    return -1;
}

/* --- the side that knocks --- */

enum { CONNECT_MS = 3000 }; /* and for the answer */

void link_socket_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, ms);
}

/* Whether it was worth another attempt: somebody was there, but gave no answer. */
enum knock { LET_IN, NO_ANSWER, NOBODY };

static enum knock knock(int fd, const struct sockaddr_in *to, const struct link_greeting *g)
{
    char answer;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (connect(fd, (const void *)to, sizeof *to) != 0 && errno != EINPROGRESS) return NOBODY;
    if (poll(&p, 1, CONNECT_MS) != 1) return NO_ANSWER;
    if (p.revents & (POLLERR | POLLHUP)) return NOBODY;
    if (send(fd, g, sizeof *g, MSG_NOSIGNAL) != sizeof *g) return NO_ANSWER;
    link_socket_wait(fd, CONNECT_MS);
    return recv(fd, &answer, 1, MSG_DONTWAIT) == 1 ? LET_IN : NO_ANSWER;
}

static int knock_at(const char *where, const struct link_greeting *g, bool *again)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char ip[INET_ADDRSTRLEN];
    int port;
    if (sscanf(where, "%15[0-9.]:%d", ip, &port) != 2) return -1;
    to.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, ip, &to.sin_addr) != 1) return -1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const enum knock how = knock(fd, &to, g);
    if (how == LET_IN) return fd;
    if (how == NO_ANSWER) *again = true;
    close(fd);
    return -1;
}

int link_socket_connect(const char *address, int64_t id, double seconds)
{
    struct link_greeting g = {.id = id, .pid = getpid()};
    struct clock_running clock = {0};
    int fd = -1, used = 0;
    if (sscanf(address, "%16" SCNx64 "%16" SCNx64 "%n", &g.secret[0], &g.secret[1], &used) != 2)
        return -1;
    if (gethostname(g.host, sizeof g.host - 1) != 0) g.host[0] = '\0';
    for (bool again = true; fd < 0 && again && clock_running(&clock) < seconds;) {
        const int pause_ms = 50;
        char text[LINK_ADDRESS], *next = NULL;
        again = false;
        snprintf(text, sizeof text, "%s", address + used);
        for (char *w = strtok_r(text, " ", &next); w && fd < 0; w = strtok_r(NULL, " ", &next))
            fd = knock_at(w, &g, &again);
        if (fd < 0 && again) link_socket_wait(-1, pause_ms);
    }
    return fd;
}
