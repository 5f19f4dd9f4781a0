/* Messages, the port through which a job reports, and the work of a single rank. */
#include "sched/link.h"
#include "sched/run_forecast.h"
#include "sched/sched_internal.h"
#include "util/clock.h"
#include "util/comm.h"
#include "util/log.h"
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

/* A single rank: tells its sink how far the run is if it is time. ERR_NOMEM. */
static enum status report_progress(struct sched_port *port, struct err *e)
{
    const struct sched_class all = {.queue = port->queue, .ranks = 1};
    const double now = clock_seconds();
    if (!run_forecast_due(port->forecast, now)) return OK;
    port->forecast->running[0] =
        (struct sched_running){port->name, port->what, 0, now - port->start};
    return run_forecast_send(port->forecast, &all, 1, 1, now, e);
}

/* Likewise: its job has made progress. If it makes none for patience_idle_limit, the run ends. */
static void await_progress(const struct sched_port *port)
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
        await_progress(port);
        queue_report(port->queue, 0, clock_seconds(), left, once);
        snprintf(port->what, sizeof port->what, "%s", what);
        if (port->sink_status == OK) port->sink_status = report_progress(port, e);
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

/* --- a single rank: master and worker at once --- */

/* Runs one batch after the other. */
static enum status work_alone(MPI_Comm world, struct queue *q, struct run_forecast *forecast,
                              struct link *link, const struct sched_job *jobs,
                              const struct sched_work *work, const struct sched_sink *sink,
                              struct sched_outcome *outcome, struct err *e)
{
    struct sched_port port = {.world = world,
                              .group = world,
                              .sink = sink,
                              .forecast = forecast,
                              .queue = q,
                              .link = link};
    struct queue_batch taken;
    for (;;) {
        if (sched_signal() != SIGNAL_NONE) {
            outcome->end = sched_signal() == SIGNAL_STOP ? SCHED_STOPPED : SCHED_DRAINED;
            break;
        }
        if (!queue_take(q, 0, clock_seconds(), &taken)) {
            if (!queue_empty(q)) outcome->end = SCHED_DRAINED;
            break;
        }
        struct err own = {0};
        const struct sched_batch batch = {.text = jobs[taken.job].text,
                                          .job = taken.job,
                                          .n_parts = taken.n_parts,
                                          .parts = taken.parts};
        log_trace("sched", "job %lld: %.3g s expected", (long long)taken.job + 1, taken.expected);
        port.name = jobs[taken.job].name;
        port.what[0] = '\0';
        port.start = clock_seconds();
        port.expected = taken.expected;
        PASS(report_progress(&port, e));
        await_progress(&port);
        enum status result = work->run(work->context, world, &batch, &port, &own);
        if (link) link_alarm(link, 0, NULL);
        queue_finish(q, 0, clock_seconds(), result != OK);
        if (sink->finished && queue_job_finished(q, taken.job))
            sink->finished(sink->context, jobs[taken.job].id);
        if (port.sink_failure.code != OK) RAISE(port.sink_status, "%s", port.sink_failure.text);
        if (port.sink_status != OK) RAISE(port.sink_status, "%s", own.text);
        PASS(sink->tick(sink->context, e));
        if (result == ERR_STOPPED) {
            outcome->end = SCHED_STOPPED;
            break;
        }
        if (result != OK) RAISE(result, "%s", own.text);
    }
    return OK;
}

enum status single_process_run(MPI_Comm world, const struct sched_job *jobs, int64_t n,
                               const struct sched_work *work, const struct sched_sink *sink,
                               const struct sched_rescue *rescue, struct sched_outcome *outcome,
                               struct err *e)
{
    CLEANUP(run_forecast_close) struct run_forecast forecast = {0};
    CLEANUP(queue_close_at) struct queue *q = NULL;
    struct link *link = rescue ? rescue->link : NULL;
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    PASS(run_forecast_open(&forecast, sink, 1, e));
    PASS(queue_open(jobs, n, 1, NULL, &q, e));
    queue_limit(q, sched_ends());
    if (link) link_work(link);
    PASS(work_alone(world, q, &forecast, link, jobs, work, sink, outcome, e));
    queue_outcome(q, outcome);
    return OK;
}
