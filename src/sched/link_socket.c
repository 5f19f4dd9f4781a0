#include "sched/link_socket.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER = 'A', ANSWER_MS = 3000 };

static void host_name(char *host, size_t n)
{
    if (gethostname(host, n) != 0) host[0] = '\0';
    host[n - 1] = '\0';
}

void link_socket_wait(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, ms);
}

/* "SECRET PORT HOST ADDRESS ADDRESS ..."; loopback addresses are left out. */
static void write_address(uint64_t secret, int port, char *address)
{
    struct ifaddrs *all = NULL;
    char host[64];
    host_name(host, sizeof host);
    size_t n = (size_t)snprintf(address, LINK_ADDRESS, "%016llx %d %s", (unsigned long long)secret,
                                port, host);
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        char text[INET_ADDRSTRLEN];
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET) continue;
        const struct sockaddr_in *in = (const void *)a->ifa_addr;
        if (ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) continue;
        if (!inet_ntop(AF_INET, &in->sin_addr, text, sizeof text)) continue;
        if (n + strlen(text) + 2 > LINK_ADDRESS) break;
        n += (size_t)snprintf(address + n, LINK_ADDRESS - n, " %s", text);
    }
    freeifaddrs(all);
}

bool link_socket_listen(int *fd, uint64_t *secret, char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t n = sizeof at;
    if (getrandom(secret, sizeof *secret, 0) != sizeof *secret) return false;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || bind(*fd, (const void *)&at, sizeof at) != 0 || listen(*fd, SOMAXCONN) != 0 ||
        getsockname(*fd, (void *)&at, &n) != 0)
        return false;
    write_address(*secret, ntohs(at.sin_port), address);
    return true;
}

/* Reads n bytes that come at once. */
static bool read_whole(int fd, void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        link_socket_wait(fd, ANSWER_MS);
        ssize_t more = recv(fd, (char *)to + got, n - got, MSG_DONTWAIT);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return false;
        got += (size_t)more;
    }
    return true;
}

int link_socket_accept(int listener, uint64_t secret, struct link_greeting *g)
{
    const char answer = ANSWER;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return -1;
    if (read_whole(fd, g, sizeof *g) && g->secret == secret &&
        send(fd, &answer, 1, MSG_NOSIGNAL) == 1)
        return fd;
    close(fd);
    return -1;
}

static bool greet(int fd, const struct sockaddr_in *to, const struct link_greeting *g)
{
    char answer = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (connect(fd, (const void *)to, sizeof *to) != 0 && errno != EINPROGRESS) return false;
    if (poll(&p, 1, ANSWER_MS) != 1 || p.revents & (POLLERR | POLLHUP)) return false;
    return send(fd, g, sizeof *g, MSG_NOSIGNAL) == sizeof *g && read_whole(fd, &answer, 1) &&
           answer == ANSWER;
}

/* -1: nobody answers there. */
static int try_one(const char *ip, int port, const struct link_greeting *g)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, ip, &to.sin_addr) != 1) return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || greet(fd, &to, g)) return fd;
    close(fd);
    return -1;
}

bool link_socket_connect(const char *address, int64_t id, int *fd)
{
    struct link_greeting g = {.id = id, .pid = getpid()};
    unsigned long long secret;
    char host[64], text[LINK_ADDRESS], *next = NULL;
    int port, used = 0;
    if (sscanf(address, "%llx %d %63s%n", &secret, &port, host, &used) != 3) return false;
    g.secret = secret;
    host_name(g.host, sizeof g.host);
    *fd = strcmp(host, g.host) == 0 ? try_one("127.0.0.1", port, &g) : -1;
    snprintf(text, sizeof text, "%s", address + used);
    for (char *ip = strtok_r(text, " ", &next); ip && *fd < 0; ip = strtok_r(NULL, " ", &next))
        *fd = try_one(ip, port, &g);
    return *fd >= 0;
}
