/* The side that knocks. */
#include "sched/link_socket.h"
#include "util/clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    const double end = clock_seconds() + seconds;
    int fd = -1, used = 0;
    if (sscanf(address, "%16" SCNx64 "%16" SCNx64 "%n", &g.secret[0], &g.secret[1], &used) != 2)
        return -1;
    if (gethostname(g.host, sizeof g.host - 1) != 0) g.host[0] = '\0';
    for (bool again = true; fd < 0 && again && clock_seconds() < end;) {
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
