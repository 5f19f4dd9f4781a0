/* Messages between master and leaders, and the port through which a job reports. */
#include "sched/link.h"
#include "sched/run_forecast.h"
#include "sched/sched_internal.h"
#include "util/clock.h"
#include "util/comm.h"
#include "util/mem.h"
#include <stdio.h>

enum status sched_chunk(MPI_Comm comm, const MPI_Status *probed, struct sched_arrival *a,
                        bool *whole, struct err *e)
{
    MPI_Status status;
    int n;
    PASS(mem_grow(&a->text, a->chunks, &a->capacity, SCHED_CHUNK, e));
    char *to = a->text + a->chunks * SCHED_CHUNK;
    NEED(MPI_Recv(to, SCHED_CHUNK, MPI_CHAR, probed->MPI_SOURCE, probed->MPI_TAG, comm, &status) ==
             MPI_SUCCESS,
         ERR_MPI, "MPI_Recv from rank %d failed", probed->MPI_SOURCE);
    MPI_Get_count(&status, MPI_CHAR, &n);
    a->chunks++;
    *whole = n < SCHED_CHUNK;
    if (*whole) to[n] = '\0';
    return OK;
}

enum status sched_receive(MPI_Comm comm, const MPI_Status *probed, char **text, struct err *e)
{
    struct sched_arrival a = {0};
    enum status st = OK;
    for (bool whole = false; !whole && st == OK;) st = sched_chunk(comm, probed, &a, &whole, e);
    if (st == OK)
        *text = a.text;
    else
        free(a.text);
    return st;
}

enum status sched_post(MPI_Comm comm, int to, int tag, const char *text, struct err *e)
{
    int n = SCHED_CHUNK;
    for (; n == SCHED_CHUNK; text += n) {
        n = (int)strnlen(text, SCHED_CHUNK);
        NEED(MPI_Send(text, n, MPI_CHAR, to, tag, comm) == MPI_SUCCESS, ERR_MPI,
             "MPI_Send to rank %d failed", to);
    }
    return OK;
}

/* --- batches --- */

enum { DIGITS = 21 };

enum status sched_batch_write(const char *text, const int64_t *parts, int64_t n, char **out,
                              struct err *e)
{
    char *message = NULL;
    size_t length = strlen(text);
    PASS(mem_alloc(&message, n * DIGITS + (int64_t)length + 3, 1, "message", e));
    char *p = message;
    if (n == 0) *p++ = '-';
    for (int64_t i = 0; i < n; i++)
        p += snprintf(p, DIGITS + 1, "%s%lld", i ? "," : "", (long long)parts[i]);
    *p++ = '\n';
    memcpy(p, text, length + 1);
    *out = message;
    return OK;
}

enum status sched_batch_read(const char *message, int64_t **parts, struct sched_batch *out,
                             struct err *e)
{
    const char *end = strchr(message, '\n'), *p = message;
    int64_t n = 0, capacity = 0;
    NEED(end, ERR_MPI, "a job without a line of parts");
    while (*message != '-' && p < end) {
        char *next;
        PASS(mem_grow(parts, n, &capacity, sizeof **parts, e));
        (*parts)[n++] = strtoll(p, &next, 10);
        NEED(next != p && (*next == ',' || next == end), ERR_MPI, "a job's parts: %.*s",
             (int)(end - message), message);
        p = next + 1;
    }
    *out = (struct sched_batch){.text = end + 1, .job = -1, .n_parts = n, .parts = *parts};
    return OK;
}

/* --- the port --- */

static bool is_leader(const struct sched_port *port)
{
    return comm_rank(port->group) == 0;
}

enum status sched_send(struct sched_port *port, const char *result, struct err *e)
{
    if (!is_leader(port)) return OK;
    if (!port->sink) return sched_post(port->world, 0, TAG_RESULT, result, e);
    if (port->sink_status == OK)
        port->sink_status = port->sink->accept(port->sink->context, result, e);
    return port->sink_status;
}

enum status port_report_progress(struct sched_port *port, struct err *e)
{
    const struct sched_class all = {.queue = port->queue, .ranks = 1};
    const double now = clock_seconds();
    if (!run_forecast_due(port->forecast, now)) return OK;
    port->forecast->running[0] =
        (struct sched_running){port->name, port->what, 0, now - port->start};
    return run_forecast_send(port->forecast, &all, 1, 1, now, e);
}

void port_await_progress(const struct sched_port *port)
{
    char why[300];
    const double limit = patience_idle_limit(port->expected);
    if (!port->link) return;
    snprintf(why, sizeof why, "%s has made no progress for %.0f s",
             port->name ? port->name : "a job", limit);
    link_alarm(port->link, limit, why);
}

void sched_report(struct sched_port *port, const char *what, double left, double once, bool last)
{
    const double often = 1;
    const double now = clock_seconds();
    char message[96];
    if (!is_leader(port) || (!last && now - port->reported < often)) return;
    port->reported = now;
    snprintf(message, sizeof message, "%.3f %.3f %s", left, once, what);
    if (port->sink) {
        struct err *e = &port->sink_failure;
        port_await_progress(port);
        queue_report(port->queue, 0, clock_seconds(), left, once);
        snprintf(port->what, sizeof port->what, "%s", what);
        if (port->sink_status == OK) port->sink_status = port_report_progress(port, e);
        if (port->sink_status == OK) port->sink_status = port->sink->tick(port->sink->context, e);
    } else /* MPI will fail where it matters */
        (void)!sched_post(port->world, 0, TAG_PROGRESS, message, NULL);
}

void sched_keep(struct sched_port *port)
{
    if (!is_leader(port) || port->sink) return;
    (void)!sched_post(port->world, 0, TAG_KEPT, "", NULL);
}

bool sched_should_stop(struct sched_port *port)
{
    int stop = 0;
    if (is_leader(port)) {
        if (port->sink)
            port->stop = port->sink_status != OK;
        else {
            MPI_Status probed;
            int there = 0; /* STOP may arrive at any time during a job */
            MPI_Iprobe(0, TAG_STOP, port->world, &there, &probed);
            if (there) MPI_Recv(NULL, 0, MPI_CHAR, 0, TAG_STOP, port->world, MPI_STATUS_IGNORE);
            port->stop = port->stop || there;
        }
        stop = port->stop || sched_signal() == SIGNAL_STOP;
    }
    if (comm_size(port->group) > 1) MPI_Bcast(&stop, 1, MPI_INT, 0, port->group);
    return stop;
}
