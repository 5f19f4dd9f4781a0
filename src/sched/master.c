#include "sched/internal.h"
#include "sched/queue.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>

struct master {
    MPI_Comm world;
    const struct sched_groups *groups;
    const struct sched_sink *sink;
    const struct sched_task *tasks;
    int64_t n;
    struct queue *queue;
    int64_t alive;     /* leaders that have not been told END */
    int64_t *group_of; // (ranks) that the rank leads
    bool *busy;        // (ranks) leader has a piece in hand
    bool stopping;     /* nothing more is handed out */
    bool stop_sent;    /* pieces in hand were told to stop */
    bool dropped;      /* some piece was dropped */
    enum status st;    /* first failure */
};

static void note_status(struct master *m, enum status st)
{
    if (st == OK) return;
    if (m->st == OK) m->st = st;
    m->stopping = true;
}

static void trace_piece(const struct master *m, const struct queue_piece *piece, int leader)
{
    if (!log_traces("sched")) return;
    log_trace("sched", "task %lld of %lld, %lld of %lld parts, to rank %d: %.3g s expected",
              (long long)piece->task + 1, (long long)m->n, (long long)piece->n_parts,
              (long long)m->tasks[piece->task].n_parts, leader, piece->expected);
}

static enum status answer_ready(struct master *m, int leader, struct err *e)
{
    enum status st = OK;
    struct queue_piece piece;
    char *message = NULL;
    if (m->stopping || !queue_take(m->queue, m->group_of[leader], clock_seconds(), &piece)) {
        m->alive--;
        log_trace("sched", "nothing left for rank %d", leader);
        return sched_post(m->world, leader, TAG_END, "", e);
    }
    trace_piece(m, &piece, leader);
    m->busy[leader] = true;
    TRY(sched_piece_write(m->tasks[piece.task].text, piece.parts, piece.n_parts, &message, e));
    TRY(sched_post(m->world, leader, TAG_TASK, message, e));
done:
    free(message);
    return st;
}

/* The leader's piece is over, one way or another. */
static void end_piece(struct master *m, int leader, bool dropped)
{
    m->busy[leader] = false;
    m->dropped = m->dropped || dropped;
    queue_finish(m->queue, m->group_of[leader], clock_seconds(), dropped);
    log_trace("sched", "rank %d %s; %lld of %lld tasks finished", leader,
              dropped ? "dropped its piece" : "is done", (long long)queue_finished(m->queue),
              (long long)m->n);
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
        end_piece(m, leader, strcmp(text, "done") != 0);
        break;
    case TAG_BROKEN:
        end_piece(m, leader, true);
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

static enum status master_init(struct master *m, struct err *e)
{
    enum status st = OK;
    int size;
    MPI_Comm_size(m->world, &size);
    m->alive = m->groups->n;
    TRY(mem_zero(&m->busy, size, sizeof *m->busy, "leaders", e));
    TRY(mem_zero(&m->group_of, size, sizeof *m->group_of, "leaders", e));
    for (int64_t i = 0; i < m->groups->n; i++) m->group_of[m->groups->leader[i]] = i;
    TRY(queue_open(m->tasks, m->n, m->groups->n, m->groups->node, &m->queue, e));
done:
    return st;
}

static void master_free(struct master *m)
{
    queue_close(m->queue);
    free(m->busy);
    free(m->group_of);
}

enum status master_run(MPI_Comm world, const struct sched_groups *groups, struct sched_task *tasks,
                       int64_t n, const struct sched_sink *sink, struct sched_outcome *outcome,
                       struct err *e)
{
    enum status st = OK;
    long pause = 0;
    struct master m = {
        .world = world, .groups = groups, .sink = sink, .tasks = tasks, .n = n, .st = OK};
    TRY(master_init(&m, e));
    while (m.alive > 0) {
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
    outcome->finished = queue_finished(m.queue);
    outcome->pieces = queue_pieces(m.queue);
    outcome->end = outcome->finished == n                       ? SCHED_DONE
                   : m.dropped || sched_signal() == SIGNAL_STOP ? SCHED_STOPPED
                                                                : SCHED_DRAINED;
    st = m.st;
done:
    master_free(&m);
    return st;
}

/* Takes one piece after the other until something ends it. */
static enum status work_alone(MPI_Comm world, struct queue *q, const struct sched_task *tasks,
                              const struct sched_work *work, const struct sched_sink *sink,
                              struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    struct sched_port port = {.world = world, .group = world, .sink = sink};
    struct queue_piece taken;
    for (;;) {
        if (sched_signal() != SIGNAL_NONE) {
            outcome->end = sched_signal() == SIGNAL_STOP ? SCHED_STOPPED : SCHED_DRAINED;
            break;
        }
        if (!queue_take(q, 0, clock_seconds(), &taken)) break;
        struct err own = {0};
        const struct sched_piece piece = {
            .text = tasks[taken.task].text, .n_parts = taken.n_parts, .parts = taken.parts};
        log_trace("sched", "task %lld: %.3g s expected", (long long)taken.task + 1, taken.expected);
        enum status result = work->run(work->context, world, &piece, &port, &own);
        queue_finish(q, 0, clock_seconds(), result != OK);
        if (port.sink_status != OK) FAIL(port.sink_status, "%s", own.text);
        TRY(sink->tick(sink->context, e));
        if (result == ERR_STOPPED) {
            outcome->end = SCHED_STOPPED;
            break;
        }
        if (result != OK) FAIL(result, "%s", own.text);
    }
done:
    return st;
}

enum status alone_run(MPI_Comm world, struct sched_task *tasks, int64_t n,
                      const struct sched_work *work, const struct sched_sink *sink,
                      struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    struct queue *q = NULL;
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    TRY(queue_open(tasks, n, 1, NULL, &q, e));
    TRY(work_alone(world, q, tasks, work, sink, outcome, e));
    outcome->finished = queue_finished(q);
    outcome->pieces = queue_pieces(q);
done:
    queue_close(q);
    return st;
}
