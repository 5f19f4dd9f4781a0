/* Rank 0 of a run: it hands out pieces of tasks and takes results; alone, it does the work too. */
#include "sched/queue.h"
#include "sched/sched_internal.h"
#include "sched/watch.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tasks that ask for the same number of ranks. */
struct class
{
    int64_t ranks;
    int64_t first, n; /* in the master's tasks */
    int64_t *node;    // (groups of this class at most) the node of each leader
    struct queue *queue;
};

struct master {
    MPI_Comm world;
    const int *node; // (ranks)
    const struct sched_sink *sink;
    struct sched_task *tasks; // (n) by decreasing ranks
    int64_t n, workers;
    int64_t n_classes;
    struct class *classes;       // (n_classes) by decreasing ranks
    int64_t alive;               /* leaders that have not got END */
    struct watch watch;          /* how far the run is */
    struct watch_class *watched; // (n_classes) what it is told of them
    struct class **in;           // (ranks) class of the leader's piece, NULL: it has none
    int64_t *group;              // (ranks) number of its group in that class
    bool stopping;               /* nothing more is handed out */
    bool stop_sent;              /* leaders with a piece have got STOP */
    bool dropped;                /* some piece was dropped */
    enum status st;              /* first failure */
};

static void note_status(struct master *m, enum status st)
{
    if (st == OK) return;
    if (m->st == OK) m->st = st;
    m->stopping = true;
}

static void trace_piece(const struct master *m, const struct class *c,
                        const struct queue_piece *piece, int leader)
{
    if (!log_traces("sched")) return;
    const struct sched_task *t = &m->tasks[c->first + piece->task];
    log_trace("sched", "task %lld of %lld, %lld of %lld parts, to rank %d: %.3g s expected",
              (long long)(c->first + piece->task) + 1, (long long)m->n, (long long)piece->n_parts,
              (long long)t->n_parts, leader, piece->expected);
}

static enum status give_piece(struct master *m, struct class *c, int64_t group, int leader,
                              const struct queue_piece *piece, struct err *e)
{
    enum status st = OK;
    char *message = NULL;
    const char *text = m->tasks[c->first + piece->task].text;
    trace_piece(m, c, piece, leader);
    m->in[leader] = c;
    m->group[leader] = group;
    watch_begin(&m->watch, leader, m->tasks[c->first + piece->task].name, clock_seconds());
    TRY(sched_piece_write(text, piece->parts, piece->n_parts, &message, e));
    TRY(sched_post(m->world, leader, TAG_TASK, message, e));
done:
    free(message);
    return st;
}

/* Whether the ranks left over when a group splits for class c are enough for a later class. It does
 * not matter what is finished by then: sizes of groups must not depend on who was faster. */
static bool rest_is_of_use(const struct master *m, const struct class *c, int64_t size)
{
    for (const struct class *i = c + 1; i < m->classes + m->n_classes; i++)
        if (i->ranks <= size % c->ranks) return true;
    return false;
}

/* Splits the group for tasks that ask for fewer ranks. */
static enum status split_group(struct master *m, const struct class *c, int64_t size, int leader,
                               struct err *e)
{
    char message[48];
    const struct sched_split split = {c->ranks, rest_is_of_use(m, c, size)};
    m->alive += sched_split_count(&split, size) - 1;
    snprintf(message, sizeof message, "%lld %d", (long long)split.class, split.rest);
    log_trace("sched", "rank %d: its group of %lld splits for tasks of %lld ranks", leader,
              (long long)size, (long long)c->ranks);
    return sched_post(m->world, leader, TAG_SPLIT, message, e);
}

/* A group gets a piece of its class while there is one; then it splits for the next class that is
 * not empty. */
static enum status answer_ready(struct master *m, int leader, const char *text, struct err *e)
{
    long long size, class;
    struct queue_piece piece;
    NEED(sscanf(text, "%lld %lld", &size, &class) == 2, ERR_MPI, "rank %d is ready for '%s'",
         leader, text);
    for (int64_t i = 0; i < m->n_classes && !m->stopping; i++) {
        struct class *c = &m->classes[i];
        int64_t group = (leader - 1) / c->ranks;
        if (c->ranks > size) continue;
        if (class != c->ranks) {
            if (class > 0 && class < c->ranks) continue;
            if (queue_empty(c->queue)) continue;
            return split_group(m, c, size, leader, e);
        }
        c->node[group] = m->node[leader];
        if (queue_take(c->queue, group, clock_seconds(), &piece))
            return give_piece(m, c, group, leader, &piece, e);
    }
    m->alive--;
    log_trace("sched", "nothing left for rank %d", leader);
    return sched_post(m->world, leader, TAG_END, "", e);
}

static int64_t sum_over_classes(const struct master *m, int64_t (*of)(const struct queue *))
{
    int64_t sum = 0;
    for (int64_t i = 0; i < m->n_classes; i++) sum += of(m->classes[i].queue);
    return sum;
}

/* The leader's piece has ended, finished or dropped. */
static void end_piece(struct master *m, int leader, bool dropped)
{
    queue_finish(m->in[leader]->queue, m->group[leader], clock_seconds(), dropped);
    m->in[leader] = NULL;
    watch_end(&m->watch, leader);
    m->dropped = m->dropped || dropped;
    log_trace("sched", "rank %d %s; %lld of %lld tasks finished", leader,
              dropped ? "dropped its piece" : "is done",
              (long long)sum_over_classes(m, queue_finished), (long long)m->n);
}

/* "LEFT ONCE WHAT", as sched_report takes them. */
static enum status note_progress(struct master *m, int leader, const char *text, struct err *e)
{
    double left, once;
    int what = 0;
    NEED(sscanf(text, "%lf %lf %n", &left, &once, &what) == 2 && what > 0, ERR_MPI,
         "rank %d is as far as '%s'", leader, text);
    if (!m->in[leader]) return OK;
    queue_report(m->in[leader]->queue, m->group[leader], clock_seconds(), left, once);
    watch_note(&m->watch, leader, text + what);
    return OK;
}

/* The status of a piece that failed for a reason that ends the run. */
static enum status broken(int leader, const char *message, struct err *e)
{
    int code = ERR_PEER, text = 0;
    if (sscanf(message, "%d %n", &code, &text) != 1 || code <= OK || code > ERR_PEER)
        code = ERR_PEER;
    return err_set(e, (enum status)code, __FILE__, __LINE__, "rank %d: %s", leader, message + text);
}

static enum status handle(struct master *m, const MPI_Status *probed, struct err *e)
{
    enum status st = OK;
    char *text = NULL;
    int leader = probed->MPI_SOURCE;
    TRY(sched_receive(m->world, probed, &text, e));
    switch (probed->MPI_TAG) {
    case TAG_READY:
        TRY(answer_ready(m, leader, text, e));
        break;
    case TAG_RESULT:
        if (m->st == OK) note_status(m, m->sink->accept(m->sink->context, text, e));
        break;
    case TAG_PROGRESS:
        TRY(note_progress(m, leader, text, e));
        break;
    case TAG_DONE:
        end_piece(m, leader, strcmp(text, "done") != 0);
        break;
    case TAG_BROKEN:
        end_piece(m, leader, true);
        note_status(m, broken(leader, text, e));
        break;
    default:
        FAIL(ERR_MPI, "unexpected message %d from rank %d", probed->MPI_TAG, leader);
    }
done:
    free(text);
    return st;
}

/* On a signal or a failure: hands out nothing more, or has the pieces in flight dropped as well. */
static enum status steer(struct master *m, struct err *e)
{
    enum signal_state signal = sched_signal();
    int size;
    if (signal != SIGNAL_NONE) m->stopping = true;
    m->watch.stopping = m->stopping;
    if (m->stop_sent || (signal != SIGNAL_STOP && m->st == OK)) return OK;
    MPI_Comm_size(m->world, &size);
    for (int rank = 1; rank < size; rank++)
        if (m->in[rank]) PASS(sched_post(m->world, rank, TAG_STOP, "", e));
    m->stop_sent = true;
    return OK;
}

static int more_ranks(const void *a, const void *b)
{
    const struct sched_task *x = a, *y = b;
    return (x->ranks < y->ranks) - (x->ranks > y->ranks);
}

/* The tasks by decreasing ranks, none with more ranks than there are. */
static enum status tasks_make(struct master *m, const struct sched_task *tasks, struct err *e)
{
    PASS(mem_zero(&m->tasks, m->n, sizeof *m->tasks, "tasks", e));
    for (int64_t i = 0; i < m->n; i++) {
        m->tasks[i] = tasks[i];
        if (tasks[i].ranks < 1) m->tasks[i].ranks = 1;
        if (tasks[i].ranks > m->workers) m->tasks[i].ranks = m->workers;
    }
    /* Need not be stable: the queue orders tasks of as many ranks by their cost. */
    qsort(m->tasks, (size_t)m->n, sizeof *m->tasks, more_ranks);
    return OK;
}

static enum status class_open(struct master *m, struct class *c, struct err *e)
{
    int64_t groups = (m->workers - 1) / c->ranks + 1;
    PASS(mem_zero(&c->node, groups, sizeof *c->node, "groups", e));
    for (int64_t i = 0; i < groups; i++) c->node[i] = m->node[1 + i * c->ranks];
    return queue_open(m->tasks + c->first, c->n, groups, c->node, &c->queue, e);
}

static enum status classes_make(struct master *m, struct err *e)
{
    int64_t capacity = 0;
    for (int64_t i = 0; i < m->n; i++) {
        if (i > 0 && m->tasks[i].ranks == m->tasks[i - 1].ranks) continue;
        PASS(mem_grow(&m->classes, m->n_classes, &capacity, sizeof *m->classes, e));
        m->classes[m->n_classes++] = (struct class){.ranks = m->tasks[i].ranks, .first = i};
    }
    PASS(mem_zero(&m->watched, m->n_classes, sizeof *m->watched, "classes", e));
    for (int64_t i = 0; i < m->n_classes; i++) {
        struct class *c = &m->classes[i];
        c->n = (i + 1 < m->n_classes ? c[1].first : m->n) - c->first;
        PASS(class_open(m, c, e));
        m->watched[i] = (struct watch_class){.queue = c->queue, .ranks = c->ranks};
    }
    return OK;
}

static enum status master_init(struct master *m, const struct sched_task *tasks, struct err *e)
{
    int size;
    MPI_Comm_size(m->world, &size);
    m->workers = size - 1;
    m->alive = 1; /* at first all workers are one group */
    PASS(mem_zero(&m->in, size, sizeof *m->in, "leaders", e));
    PASS(mem_zero(&m->group, size, sizeof *m->group, "leaders", e));
    PASS(watch_open(&m->watch, m->sink, m->workers, e));
    PASS(tasks_make(m, tasks, e));
    return classes_make(m, e);
}

static void master_free(struct master *m)
{
    for (int64_t i = 0; i < m->n_classes; i++) {
        queue_close(m->classes[i].queue);
        free(m->classes[i].node);
    }
    watch_close(&m->watch);
    free(m->watched);
    free(m->classes);
    free(m->tasks);
    free(m->in);
    free(m->group);
}

enum status master_run(MPI_Comm world, const int *node, const struct sched_task *tasks, int64_t n,
                       const struct sched_sink *sink, struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    long pause = 0;
    struct master m = {.world = world, .node = node, .sink = sink, .n = n, .st = OK};
    TRY(master_init(&m, tasks, e));
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
        TRY(watch_tell(&m.watch, m.watched, m.n_classes, clock_seconds(), e));
        patient_pause(&pause);
    }
    if (m.st == OK) note_status(&m, sink->tick(sink->context, e));
    outcome->finished = sum_over_classes(&m, queue_finished);
    outcome->pieces = sum_over_classes(&m, queue_pieces);
    outcome->end = outcome->finished == n                       ? SCHED_DONE
                   : m.dropped || sched_signal() == SIGNAL_STOP ? SCHED_STOPPED
                                                                : SCHED_DRAINED;
    st = m.st;
done:
    master_free(&m);
    return st;
}

/* Runs one piece after the other. */
static enum status work_alone(MPI_Comm world, struct queue *q, struct watch *watch,
                              const struct sched_task *tasks, const struct sched_work *work,
                              const struct sched_sink *sink, struct sched_outcome *outcome,
                              struct err *e)
{
    struct sched_port port = {
        .world = world, .group = world, .sink = sink, .watch = watch, .queue = q};
    struct queue_piece taken;
    for (;;) {
        if (sched_signal() != SIGNAL_NONE) {
            outcome->end = sched_signal() == SIGNAL_STOP ? SCHED_STOPPED : SCHED_DRAINED;
            break;
        }
        if (!queue_take(q, 0, clock_seconds(), &taken)) break;
        struct err own = {0};
        const struct sched_piece piece = {.text = tasks[taken.task].text,
                                          .task = taken.task,
                                          .n_parts = taken.n_parts,
                                          .parts = taken.parts};
        log_trace("sched", "task %lld: %.3g s expected", (long long)taken.task + 1, taken.expected);
        watch_begin(watch, 0, tasks[taken.task].name, clock_seconds());
        PASS(port_tell(&port, e));
        enum status result = work->run(work->context, world, &piece, &port, &own);
        queue_finish(q, 0, clock_seconds(), result != OK);
        watch_end(watch, 0);
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

enum status alone_run(MPI_Comm world, const struct sched_task *tasks, int64_t n,
                      const struct sched_work *work, const struct sched_sink *sink,
                      struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    struct queue *q = NULL;
    struct watch watch = {0};
    *outcome = (struct sched_outcome){.end = SCHED_DONE};
    TRY(watch_open(&watch, sink, 1, e));
    TRY(queue_open(tasks, n, 1, NULL, &q, e));
    TRY(work_alone(world, q, &watch, tasks, work, sink, outcome, e));
    outcome->finished = queue_finished(q);
    outcome->pieces = queue_pieces(q);
done:
    queue_close(q);
    watch_close(&watch);
    return st;
}
