/* The side that listens: strangers of the network can connect to it. */
#include "sched/link_socket.h"
#include "util/clock.h"
#include "util/mem.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUESTS = 64, LISTENERS = 32, ANSWER = 'A' };

static const double guest_seconds = 3, pause_seconds = 0.5;

/* Who has connected and not yet shown the secret. */
struct guest {
    int fd; /* -1: none */
    size_t n;
    double since;
    struct link_greeting greeting; /* its first n bytes have come */
};

struct link_door {
    int epoll, n, listeners[LISTENERS];
    uint64_t secret[2];
    double paused; /* clock_seconds since when nobody is accepted; 0: they are */
    char address[LINK_ADDRESS];
    struct guest guests[GUESTS];
};

/* --- opening --- */

/* Adds a listener on the address, with a port of its own. */
static void listen_on(struct link_door *d, struct in_addr ip)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = ip};
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t size = sizeof at;
    char text[INET_ADDRSTRLEN];
    const size_t used = strlen(d->address);
    if (d->n == LISTENERS || used + INET_ADDRSTRLEN + 8 > sizeof d->address) return;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    event.data.fd = fd;
    if (fd >= 0 && bind(fd, (const void *)&at, sizeof at) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (void *)&at, &size) == 0 && inet_ntop(AF_INET, &ip, text, sizeof text) &&
        epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
        d->listeners[d->n++] = fd;
        snprintf(d->address + used, sizeof d->address - used, " %s:%d", text, ntohs(at.sin_port));
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

static void listen_to_hosts(struct link_door *d)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next)
        if (is_used(a))
            listen_on(d, ((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr);
    freeifaddrs(all);
}

struct link_door *link_door_open(bool here)
{
    struct link_door *d;
    if (mem_zero(&d, 1, sizeof *d, "a door", NULL) != OK) return NULL;
    for (int i = 0; i < GUESTS; i++) d->guests[i].fd = -1;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll >= 0 && getrandom(d->secret, sizeof d->secret, 0) == sizeof d->secret) {
        snprintf(d->address, sizeof d->address, "%016" PRIx64 "%016" PRIx64, d->secret[0],
                 d->secret[1]);
        if (!here) listen_to_hosts(d);
        if (d->n == 0) listen_on(d, (struct in_addr){htonl(INADDR_LOOPBACK)});
    }
    if (d->n > 0) return d;
    link_door_close(d);
    return NULL;
}

void link_door_close(struct link_door *d)
{
    if (!d) return;
    for (int i = 0; i < d->n; i++) close(d->listeners[i]);
    for (int i = 0; i < GUESTS; i++)
        if (d->guests[i].fd >= 0) close(d->guests[i].fd);
    if (d->epoll >= 0) close(d->epoll);
    free(d);
}

const char *link_door_address(const struct link_door *d)
{
    return d->address;
}

int link_door_fd(const struct link_door *d)
{
    return d->epoll;
}

/* --- guests --- */

static void send_away(struct guest *g)
{
    if (g->fd >= 0) close(g->fd);
    g->fd = -1;
}

static struct guest *find_place(struct link_door *d)
{
    struct guest *best = d->guests;
    for (struct guest *g = d->guests; g < d->guests + GUESTS; g++) {
        if (g->fd < 0) return g;
        if (g->since < best->since) best = g;
    }
    send_away(best);
    return best;
}

/* Where no descriptor can be had, a waiting connection would keep the door readable for ever. */
static void pause_listeners(struct link_door *d, bool pause)
{
    d->paused = pause ? clock_seconds() : 0;
    for (int i = 0; i < d->n; i++) {
        struct epoll_event event = {.events = pause ? 0 : EPOLLIN, .data.fd = d->listeners[i]};
        epoll_ctl(d->epoll, EPOLL_CTL_MOD, d->listeners[i], &event);
    }
}

static void take_guest(struct link_door *d, int listener)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        pause_listeners(d, true);
    if (fd < 0) return;
    struct guest *g = find_place(d);
    *g = (struct guest){.fd = fd, .since = clock_seconds()};
    event.data.fd = fd;
    if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event) != 0) send_away(g);
}

/* Reads no more than a greeting. The secret is judged as a whole: from who is sent away for its
 * first byte, 4096 strangers could learn it. True: it is whole, has the secret, and its sender
 * still waits. */
static bool hear(const struct link_door *d, struct guest *g)
{
    char more;
    const char answer = ANSWER;
    const ssize_t got =
        recv(g->fd, (char *)&g->greeting + g->n, sizeof g->greeting - g->n, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got > 0) g->n += (size_t)got;
    const bool whole = g->n >= sizeof d->secret;
    if (got <= 0 || (whole && memcmp(g->greeting.secret, d->secret, sizeof d->secret) != 0)) {
        send_away(g);
        return false;
    }
    if (g->n < sizeof g->greeting) return false;
    if (recv(g->fd, &more, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN &&
        send(g->fd, &answer, 1, MSG_NOSIGNAL) == 1)
        return true;
    send_away(g);
    return false;
}

static struct guest *guest_of(struct link_door *d, int fd)
{
    for (struct guest *g = d->guests; g < d->guests + GUESTS; g++)
        if (g->fd == fd) return g;
    return NULL;
}

int link_door_poll(struct link_door *d, struct link_greeting *greeting)
{
    enum { AT_MOST = 256 }; /* connections that keep coming must not keep the caller */
    struct epoll_event event;
    if (d->paused > 0 && clock_seconds() - d->paused > pause_seconds) pause_listeners(d, false);
    for (int i = 0; i < AT_MOST && epoll_wait(d->epoll, &event, 1, 0) == 1; i++) {
        struct guest *g = guest_of(d, event.data.fd);
        if (!g) take_guest(d, event.data.fd);
        if (!g || !hear(d, g)) continue;
        const int fd = g->fd;
        epoll_ctl(d->epoll, EPOLL_CTL_DEL, fd, NULL);
        *greeting = g->greeting;
        greeting->host[sizeof greeting->host - 1] = '\0';
        g->fd = -1;
        return fd;
    }
    for (struct guest *g = d->guests; g < d->guests + GUESTS; g++)
        if (g->fd >= 0 && clock_seconds() - g->since > guest_seconds) send_away(g);
    return -1;
}
