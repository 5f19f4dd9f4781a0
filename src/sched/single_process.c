/* A single rank: master and worker at once. */
#include "sched/link.h"
#include "sched/queue.h"
#include "sched/run_forecast.h"
#include "sched/sched_internal.h"
#include "util/clock.h"
#include "util/log.h"

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
        PASS(port_report_progress(&port, e));
        port_await_progress(&port);
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
