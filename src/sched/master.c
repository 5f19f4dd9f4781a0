#include "sched/internal.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

struct master {
    MPI_Comm world;
    const struct sched_sink *sink;
    struct sched_task *tasks;
    int64_t n, next, finished;
    int groups;     /* leaders that have not been told END */
    bool *busy;     // (ranks) leader has a task in hand
    bool stopping;  /* nothing more is handed out */
    bool stop_sent; /* tasks in hand were told to stop */
    bool dropped;   /* some task was dropped */
    enum status st; /* first failure */
};

static int longest_first(const void *a, const void *b)
{
    const struct sched_task *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return strcmp(x->text, y->text); /* the same order on every run */
}

static void note_status(struct master *m, enum status st)
{
    if (st == OK) return;
    if (m->st == OK) m->st = st;
    m->stopping = true;
}

static enum status answer_ready(struct master *m, int leader, struct err *e)
{
    enum status st = OK;
    if (m->stopping || m->next == m->n) {
        m->groups--;
        return sched_post(m->world, leader, TAG_END, "", e);
    }
    log_trace("sched", "task %lld of %lld to rank %d", (long long)m->next + 1, (long long)m->n,
              leader);
    m->busy[leader] = true;
    TRY(sched_post(m->world, leader, TAG_TASK, m->tasks[m->next++].text, e));
done:
    return st;
}

static enum status handle(struct master *m, const MPI_Status *probed, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    int leader = probed->MPI_SOURCE;
    TRY(sched_receive(m->world, probed, &text, e));
    switch (probed->MPI_TAG) {
    case TAG_READY:
        TRY(answer_ready(m, leader, e));
        break;
    case TAG_RESULT:
        if (m->st == OK) note_status(m, m->sink->accept(m->sink->context, text, e));
        break;
    case TAG_DONE:
        m->busy[leader] = false;
        if (strcmp(text, "done") == 0)
            m->finished++;
        else
            m->dropped = true;
        break;
    case TAG_BROKEN:
        m->busy[leader] = false;
        note_status(m, err_set(e, ERR_PEER, __FILE__, __LINE__, "rank %d: %s", leader, text));
        break;
    default:
        FAIL(ERR_MPI, "unexpected message %d from rank %d", probed->MPI_TAG, leader);
    }
done:
    free(text);
    return st;
}

/* Signals and failures become "hand out nothing more" or "drop what is in hand". */
static enum status steer(struct master *m, struct err *e)
{
    enum status st = OK;
    enum signal_state signal = sched_signal();
    int size;
    if (signal != SIGNAL_NONE) m->stopping = true;
    if (m->stop_sent || (signal != SIGNAL_STOP && m->st == OK)) return OK;
    MPI_Comm_size(m->world, &size);
    for (int rank = 1; rank < size; rank++)
        if (m->busy[rank]) TRY(sched_post(m->world, rank, TAG_STOP, "", e));
    m->stop_sent = true;
done:
    return st;
}

enum status master_run(MPI_Comm world, int n_groups, struct sched_task *tasks, int64_t n,
                       const struct sched_sink *sink, struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    int size;
    long pause = 0;
    struct master m = {
        .world = world, .sink = sink, .tasks = tasks, .n = n, .groups = n_groups, .st = OK};
    MPI_Comm_size(world, &size);
    TRY(mem_zero(&m.busy, size, sizeof *m.busy, "leaders", e));
    qsort(tasks, (size_t)n, sizeof *tasks, longest_first);
    while (m.groups > 0) {
        MPI_Status probed;
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &there, &probed);
        if (there) {
            TRY(handle(&m, &probed, e));
            pause = 0;
            continue;
        }
        TRY(steer(&m, e));
        note_status(&m, sink->tick(sink->context, e));
        patient_pause(&pause);
    }
    if (m.st == OK) note_status(&m, sink->tick(sink->context, e));
    outcome->finished = m.finished;
    outcome->end = m.finished == n                              ? SCHED_DONE
                   : m.dropped || sched_signal() == SIGNAL_STOP ? SCHED_STOPPED
                                                                : SCHED_DRAINED;
    st = m.st;
done:
    free(m.busy);
    return st;
}

enum status alone_run(MPI_Comm world, struct sched_task *tasks, int64_t n,
                      const struct sched_work *work, const struct sched_sink *sink,
                      struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    struct sched_port port = {.world = world, .group = world, .sink = sink};
    qsort(tasks, (size_t)n, sizeof *tasks, longest_first);
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    for (int64_t i = 0; i < n; i++) {
        if (sched_signal() != SIGNAL_NONE) {
            outcome->end = sched_signal() == SIGNAL_STOP ? SCHED_STOPPED : SCHED_DRAINED;
            break;
        }
        struct err own = {0};
        enum status result = work->run(work->context, world, tasks[i].text, &port, &own);
        if (port.sink_status != OK) FAIL(port.sink_status, "%s", own.text);
        TRY(sink->tick(sink->context, e));
        if (result == ERR_STOPPED) {
            outcome->end = SCHED_STOPPED;
            break;
        }
        if (result != OK) FAIL(result, "%s", own.text);
        outcome->finished++;
    }
done:
    return st;
}
