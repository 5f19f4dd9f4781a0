#include "stage/helper.h"
#include "stage/stager.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct helper {
    pid_t pid;
    int fd; /* lines to the process, answers from it */
};

/* --- lines --- */

static enum status send_line(int fd, const json_t *line, struct err *e)
{
    enum status st = OK;
    char *text = json_dump_whole(line, JSON_COMPACT);
    ENSURE(text, ERR_NOMEM, "out of memory for a message");
    TRY(fsx_write(fd, "the staging process", text, strlen(text), e));
    TRY(fsx_write(fd, "the staging process", "\n", 1, e));
done:
    free(text);
    return st;
}

struct reader {
    char *text; // (n) received, not yet a whole line
    int64_t n, capacity;
};

/* Receives what is there, after waiting up to so many milliseconds (-1: as long as it takes);
 * false: the other side is gone. */
static bool receive(int fd, struct reader *r, int milliseconds)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char part[1 << 16];
    const int ready = poll(&p, 1, milliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) return true;
    const ssize_t got = ready < 0 ? -1 : read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0 || mem_grow(&r->text, r->n + got, &r->capacity, 1, NULL) != OK) return false;
    memcpy(r->text + r->n, part, (size_t)got);
    r->n += got;
    return true;
}

/* The next whole line (a new reference); NULL: there is none yet. */
static json_t *take_line(struct reader *r)
{
    json_t *line = NULL;
    char *end = r->n ? memchr(r->text, '\n', (size_t)r->n) : NULL;
    if (!end) return NULL;
    const int64_t length = end - r->text;
    if (json_read_text("message", r->text, (size_t)length, &line, NULL) != OK) line = json_null();
    r->n -= length + 1;
    memmove(r->text, end + 1, (size_t)r->n);
    return line;
}

/* --- in the process --- */

static enum status answer(int fd, enum status st, const struct err *e)
{
    json_t *line = json_pack("{s:s, s:s}", "status", status_word(st), "text", e->text);
    const enum status sent = send_line(fd, line, NULL);
    json_decref(line);
    return sent;
}

/* A failed job is reported; the process then waits for another one. */
static enum status take_job(int fd, const json_t *job, struct stager **s)
{
    struct err e = {0};
    stager_close(*s);
    *s = NULL;
    enum status st = stager_open(job, s, &e);
    if (st == OK) st = stager_step(*s, &e);
    if (st != OK) stager_close(*s);
    if (st != OK) *s = NULL;
    return answer(fd, st, &e);
}

static enum status take_message(int fd, const json_t *line, struct stager **s)
{
    const json_t *job = json_object_get(line, "job"), *ended = json_object_get(line, "ended");
    if (json_is_object(job)) return take_job(fd, job, s);
    if (*s && json_is_integer(ended)) stager_end_visit(*s, (int64_t)json_integer_value(ended));
    return OK;
}

/* Until the other side is gone: then it steps once more, to remove what is needed no longer. */
static int serve(int fd)
{
    const int pause_ms = 50;
    struct reader reader = {0};
    struct stager *s = NULL;
    struct err e = {0};
    enum status st = OK;
    bool there = true;
    while (there && st == OK) {
        json_t *line;
        there = receive(fd, &reader, s ? pause_ms : -1);
        while (st == OK && (line = take_line(&reader)) != NULL) {
            st = take_message(fd, line, &s);
            json_decref(line);
        }
        if (st == OK && s) st = stager_step(s, &e);
    }
    if (e.code != OK) log_error("staging: %s", e.text);
    stager_close(s);
    free(reader.text);
    return st == OK ? 0 : 1;
}

/* Signals for the run are rank 0's business: it decides what becomes of its visits, and ends this
 * process by letting go of it. */
static void become(int fd)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    setpgid(0, 0);
    _exit(serve(fd));
}

/* --- in rank 0 --- */

enum status helper_start(struct helper **out, struct err *e)
{
    enum status st = OK;
    struct helper *h = NULL;
    int ends[2] = {-1, -1};
    TRY(mem_zero(&h, 1, sizeof *h, "the staging process", e));
    ENSURE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, ERR_IO, "socketpair: %s",
           strerror(errno));
    h->fd = ends[0];
    h->pid = fork();
    if (h->pid == 0) {
        close(ends[0]);
        become(ends[1]);
    }
    close(ends[1]);
    if (h->pid < 0) close(ends[0]);
    ENSURE(h->pid > 0, ERR_IO, "no process to stage checkpoints: %s", strerror(errno));
    *out = h;
    h = NULL;
done:
    free(h);
    return st;
}

enum status helper_give(struct helper *h, const json_t *job, struct err *e)
{
    enum status st = OK;
    struct reader reader = {0};
    json_t *message = json_pack("{s:O}", "job", job), *line = NULL;
    ENSURE(message, ERR_NOMEM, "out of memory for a message");
    TRY(send_line(h->fd, message, e));
    while (!(line = take_line(&reader)))
        ENSURE(receive(h->fd, &reader, -1), ERR_IO,
               "the process that stages checkpoints has ended");
    st = status_of_word(json_text(line, "status", ""));
    ENSURE(st == OK, st, "%s", json_text(line, "text", ""));
done:
    free(reader.text);
    json_decref(message);
    json_decref(line);
    return st;
}

void helper_end_visit(struct helper *h, int64_t visit)
{
    json_t *line = json_pack("{s:I}", "ended", (json_int_t)visit);
    if (send_line(h->fd, line, NULL) != OK) log_trace("stage", "the staging process is gone");
    json_decref(line);
}

enum status helper_check(const struct helper *h, struct err *e)
{
    siginfo_t info = {0};
    if (!h || waitid(P_PID, (id_t)h->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return OK;
    NEED(info.si_pid == 0, ERR_IO, "the process that stages checkpoints has ended");
    return OK;
}

void helper_end(struct helper *h)
{
    if (!h) return;
    close(h->fd);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) continue;
    free(h);
}
