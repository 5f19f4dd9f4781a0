/* link_socket: the connections of link.h: finding rank 0 from another host, and greeting it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LINK_ADDRESS = 1024 }; /* bytes of an address as text */

/* Who connects. */
struct link_greeting {
    uint64_t secret;
    int64_t id, pid;
    char host[64];
};

/* *fd listens on all IPv4 addresses of this host, which `address` (LINK_ADDRESS) names together
 * with the new secret. false: it cannot. */
bool link_socket_listen(int *fd, uint64_t *secret, char *address);
/* Accepts a connection whose greeting has the secret, and answers it. Returns its descriptor, -1:
 * somebody else's, which is closed. */
int link_socket_accept(int listener, uint64_t secret, struct link_greeting *g);
/* *fd is connected to the first of the addresses that answers a greeting as `id`. false: none. */
bool link_socket_connect(const char *address, int64_t id, int *fd);
/* Waits until the descriptor can be read, so many milliseconds at most. */
void link_socket_wait(int fd, int ms);
