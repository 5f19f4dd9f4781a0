/* link_socket: the connections of link.h: a listener that ranks connect to, also those of other
 * hosts, and whom it admits. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LINK_ADDRESS = 1024 }; /* bytes of an address as text */

/* Who connects. */
struct link_greeting {
    uint64_t secret[2];
    int64_t id, pid;
    char host[64];
};

/* A strange connection costs a descriptor for a few seconds, one of 64: the oldest of more is
 * closed, and each as soon as its first 16 bytes are not the secret. While the process has no
 * descriptor left, connections wait. */
struct link_listener;

/* Listens for who knows a new random secret: on the loopback address if all are `here`, on this
 * host; else on the addresses of the interfaces that Open MPI may use (btl_tcp_if_include), all but
 * loopback ones by default; where there is none, on the loopback address. NULL: it cannot. */
struct link_listener *link_listener_open(bool here);
/* NULL: nothing. */
void link_listener_close(struct link_listener *l);
/* The secret and where to connect: for link_socket_connect only. */
const char *link_listener_address(const struct link_listener *l);
/* Can be read when link_listener_poll has something to do; it belongs to the listener. */
int link_listener_fd(const struct link_listener *l);
/* Attends to who has come, without waiting. Returns the descriptor of one that knows the secret,
 * and its greeting; -1: nobody now. To be called again within seconds also if nobody comes. */
int link_listener_poll(struct link_listener *l, struct link_greeting *g);

/* Returns a descriptor connected to the first of the addresses that answers a greeting as `id`; -1:
 * none does within so many seconds, of which two count of a longer time without an answer: if all
 * of a job was stopped, the other side has not answered either. */
int link_socket_connect(const char *address, int64_t id, double seconds);
/* Waits until the descriptor can be read, so many milliseconds at most. */
void link_socket_wait(int fd, int ms);
