/* The door of link.h among strangers: who has the secret is let in, whatever others do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/link_socket.h"
#include "util/clock.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct rank {
    const char *address;
    int fd;
    pthread_t thread;
    atomic_bool done;
};

static void *knock(void *rank)
{
    struct rank *r = rank;
    r->fd = link_socket_connect(r->address, 3, 20);
    r->done = true;
    return NULL;
}

static void begin(struct rank *r, const struct link_listener *d)
{
    *r = (struct rank){.address = link_listener_address(d), .fd = -1};
    assert_int_equal(pthread_create(&r->thread, NULL, knock, r), 0);
}

/* Tends the door until the rank has its answer; returns how many it let in. */
static int serve(struct link_listener *d, struct rank *r, struct link_greeting *g)
{
    int n = 0;
    while (!r->done) {
        link_socket_wait(link_listener_fd(d), 10);
        const int fd = link_listener_poll(d, g);
        n += fd >= 0;
        if (fd >= 0) close(fd);
    }
    pthread_join(r->thread, NULL);
    return n;
}

static int stranger(const struct link_listener *d)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = strrchr(link_listener_address(d), ':');
    int number;
    assert_int_equal(sscanf(port, ":%d", &number), 1);
    to.sin_port = htons((uint16_t)number);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const void *)&to, sizeof to), 0);
    return fd;
}

static void has_the_secret(void **state)
{
    struct rank r;
    struct link_greeting g;
    struct link_listener *d = link_listener_open(true);
    (void)state;
    assert_non_null(d);
    assert_non_null(strstr(link_listener_address(d), " 127.0.0.1:"));
    begin(&r, d);
    assert_int_equal(serve(d, &r, &g), 1);
    assert_true(r.fd >= 0);
    assert_int_equal(g.id, 3);
    assert_int_equal(g.pid, getpid());
    close(r.fd);
    link_listener_close(d);
}

/* Half-open ones beyond the door's places, garbage, a wrong secret and half a greeting. */
static void among_strangers(void **state)
{
    enum { N = 300 };
    struct rank r;
    struct link_greeting g = {.secret = {1, 2}, .id = 3};
    struct link_listener *d = link_listener_open(true);
    int strangers[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        strangers[i] = stranger(d);
        if (i % 3 == 1) assert_int_equal(send(strangers[i], "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
        if (i % 3 == 2) assert_int_equal(send(strangers[i], &g, sizeof g, 0), sizeof g);
    }
    begin(&r, d);
    assert_int_equal(serve(d, &r, &g), 1);
    assert_true(r.fd >= 0);
    for (int i = 0; i < N; i++) close(strangers[i]);
    close(r.fd);
    link_listener_close(d);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* A connection that cannot be accepted must not keep the door readable, or its thread spins. It is
 * let in once there are descriptors again. */
static void without_descriptors(void **state)
{
    struct rank r;
    struct link_greeting g;
    struct rlimit before, none;
    struct link_listener *d = link_listener_open(true);
    const int waiting = stranger(d);
    (void)state;
    while (!is_readable(link_listener_fd(d))) link_socket_wait(link_listener_fd(d), 100);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int fd = link_listener_poll(d, &g);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(fd, -1);
    assert_false(is_readable(link_listener_fd(d)));
    begin(&r, d);
    assert_int_equal(serve(d, &r, &g), 1);
    assert_true(r.fd >= 0);
    close(r.fd);
    close(waiting);
    link_listener_close(d);
}

static bool is_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Nobody can find the secret byte by byte: a part of it is treated as a part of another. */
static void tells_nothing_of_the_secret(void **state)
{
    uint64_t secret[2];
    struct link_greeting g;
    struct link_listener *d = link_listener_open(true);
    const int right = stranger(d), wrong = stranger(d);
    (void)state;
    assert_int_equal(
        sscanf(link_listener_address(d), "%16" SCNx64 "%16" SCNx64, &secret[0], &secret[1]), 2);
    assert_int_equal(send(right, secret, 15, 0), 15);
    secret[0]++;
    assert_int_equal(send(wrong, secret, 15, 0), 15);
    assert_int_equal(link_listener_poll(d, &g), -1);
    assert_false(is_closed(right));
    assert_false(is_closed(wrong));
    assert_int_equal(send(wrong, (char *)secret + 15, 1, 0), 1);
    assert_int_equal(link_listener_poll(d, &g), -1);
    assert_true(is_closed(wrong));
    close(right);
    close(wrong);
    link_listener_close(d);
}

/* Ranks of other hosts are expected, but no interface leads to them. */
static void without_a_network(void **state)
{
    struct link_listener *d;
    (void)state;
    setenv("OMPI_MCA_btl_tcp_if_include", "none0", 1);
    d = link_listener_open(false);
    unsetenv("OMPI_MCA_btl_tcp_if_include");
    assert_non_null(d);
    assert_non_null(strstr(link_listener_address(d), " 127.0.0.1:"));
    link_listener_close(d);
}

/* Both sides were stopped for longer than a rank tries: it tries again. */
static void after_a_stop(void **state)
{
    struct link_greeting g;
    struct link_listener *d = link_listener_open(true);
    int ended = 0;
    (void)state;
    const pid_t rank = fork();
    if (rank == 0) _exit(link_socket_connect(link_listener_address(d), 3, 3) < 0);
    while (!is_readable(link_listener_fd(d))) link_socket_wait(link_listener_fd(d), 100);
    usleep(300000); /* it waits for an answer */
    assert_int_equal(kill(rank, SIGSTOP), 0);
    usleep(3500000);
    assert_int_equal(kill(rank, SIGCONT), 0);
    usleep(200000); /* its time for an answer is over */
    while (waitpid(rank, &ended, WNOHANG) == 0) {
        link_socket_wait(link_listener_fd(d), 10);
        const int fd = link_listener_poll(d, &g);
        if (fd >= 0) close(fd);
    }
    assert_int_equal(ended, 0);
    link_listener_close(d);
}

/* Who says nothing, or the secret byte by byte, has three seconds. */
static void time_is_limited(void **state)
{
    struct link_greeting g = {0};
    struct link_listener *d = link_listener_open(true);
    const double begun = clock_seconds();
    const int silent = stranger(d), slow = stranger(d);
    (void)state;
    assert_int_equal(
        sscanf(link_listener_address(d), "%16" SCNx64 "%16" SCNx64, &g.secret[0], &g.secret[1]), 2);
    for (size_t sent = 0; !is_closed(silent) || !is_closed(slow);) {
        assert_true(clock_seconds() - begun < 10);
        if (sent < sizeof g - 1) sent += send(slow, (char *)&g + sent, 1, MSG_NOSIGNAL) == 1;
        link_socket_wait(link_listener_fd(d), 100);
        usleep(50000);
        assert_int_equal(link_listener_poll(d, &g), -1);
    }
    assert_true(clock_seconds() - begun > 2);
    close(silent);
    close(slow);
    link_listener_close(d);
}

/* An address at which nobody listens any more, and none. */
static void nobody_is_there(void **state)
{
    char address[LINK_ADDRESS];
    struct link_listener *d = link_listener_open(true);
    (void)state;
    memcpy(address, link_listener_address(d), sizeof address);
    link_listener_close(d);
    const double begun = clock_seconds();
    assert_int_equal(link_socket_connect(address, 1, 20), -1);
    assert_int_equal(link_socket_connect("", 1, 20), -1);
    assert_true(clock_seconds() - begun < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_secret),      cmocka_unit_test(among_strangers),
        cmocka_unit_test(without_descriptors), cmocka_unit_test(tells_nothing_of_the_secret),
        cmocka_unit_test(without_a_network),   cmocka_unit_test(after_a_stop),
        cmocka_unit_test(time_is_limited),     cmocka_unit_test(nobody_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
