/* Rank 0 of a run: it assigns batches of jobs and receives results. */
#include "sched/master.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdio.h>

/* Keeps the first failure, after which nothing more is handed out. */
static void keep_failure(struct master *m, enum status st)
{
    if (st == OK) return;
    if (m->st == OK) m->st = st;
    m->stopping = true;
}

/* link_clock; 0: nobody watches. */
static double now_of(const struct master *m)
{
    return m->rescue && m->rescue->link ? link_clock(m->rescue->link) : 0;
}

/* A batch as a message: a line with its parts ("-": none, "0", "1,4"), then the text. The caller
 * frees *out. */
static enum status write_batch(const char *text, const int64_t *parts, int64_t n, char **out,
                               struct err *e)
{
    enum { DIGITS = 21 };
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

static enum status send_batch(struct master *m, struct sched_class *c, int64_t group, int leader,
                              const struct queue_batch *batch, struct err *e)
{
    AUTO_FREE char *message = NULL;
    const char *text = m->jobs[c->first + batch->job].text;
    struct leader *l = master_leader(m, leader);
    if (log_traces("sched")) {
        const struct sched_job *t = &m->jobs[c->first + batch->job];
        log_trace("sched", "job %lld of %lld, %lld of %lld parts, to rank %d: %.3g s expected",
                  (long long)(c->first + batch->job) + 1, (long long)m->n,
                  (long long)batch->n_parts, (long long)t->n_parts, leader, batch->expected);
    }
    *l = (struct leader){.in = c,
                         .group = group,
                         .job = batch->job,
                         .expected = batch->expected,
                         .start = clock_seconds(),
                         .heard = now_of(m),
                         .size = l->size,
                         .class = l->class};
    m->busy++;
    PASS(write_batch(text, batch->parts, batch->n_parts, &message, e));
    return ranks_send(&m->ranks, leader, TAG_JOB, message, e);
}

/* Whether the ranks left over when a group splits for class c are enough for a later class. It does
 * not matter what is finished by then: sizes of groups must not depend on who was faster. */
static bool rest_is_of_use(const struct master *m, const struct sched_class *c, int64_t size)
{
    for (const struct sched_class *i = c + 1; i < m->classes + m->n_classes; i++)
        if (i->ranks <= size % c->ranks) return true;
    return false;
}

/* A group gets a batch of its class while there is one; then it splits for the next class that is
 * not empty. */
static enum status answer(struct master *m, int leader, struct err *e)
{
    const int64_t size = master_leader(m, leader)->size, class = master_leader(m, leader)->class;
    struct queue_batch batch;
    for (int64_t i = 0; i < m->n_classes && !m->stopping; i++) {
        struct sched_class *c = &m->classes[i];
        int64_t group = (leader - 1) / c->ranks;
        if (c->ranks > size) continue;
        if (class != c->ranks) {
            if (class > 0 && class < c->ranks) continue;
            if (queue_empty(c->queue)) continue;
            /* Splits the group for jobs that ask for fewer ranks. */
            char message[48];
            const struct sched_split split = {c->ranks, rest_is_of_use(m, c, size)};
            m->alive += sched_split_count(&split, size) - 1;
            snprintf(message, sizeof message, "%lld %d", (long long)split.class, split.rest);
            log_trace("sched", "rank %d: its group of %lld splits for jobs of %lld ranks", leader,
                      (long long)size, (long long)c->ranks);
            ranks_split(&m->ranks, leader, split.class, split.rest);
            for (int k = leader; k < leader + size; k++) master_leader(m, k)->heard = now_of(m);
            return ranks_send(&m->ranks, leader, TAG_SPLIT, message, e);
        }
        c->node[group] = m->node[leader];
        if (queue_take(c->queue, group, clock_seconds(), &batch))
            return send_batch(m, c, group, leader, &batch, e);
    }
    /* Nothing is left for the group, unless a batch in flight is lost with another one. */
    struct leader *l = master_leader(m, leader);
    if (m->busy > 0 && !m->stopping && m->rescue && m->rescue->link) {
        l->waiting = true;
        m->waiting++;
        return OK;
    }
    m->alive--;
    l->ended = true;
    log_trace("sched", "nothing left for rank %d", leader);
    return ranks_send(&m->ranks, leader, TAG_END, "", e);
}

enum status master_answer_waiting(struct master *m, struct err *e)
{
    for (int i = 1; m->waiting > 0 && i < m->ranks.n; i++) {
        if (!master_leader(m, i)->waiting) continue;
        master_leader(m, i)->waiting = false;
        m->waiting--;
        PASS(answer(m, i, e));
        if (master_leader(m, i)->waiting) return OK; /* nor is there anything for the others */
    }
    return OK;
}

static struct sched_outcome sum_up(const struct master *m)
{
    struct sched_outcome o = {.lost = m->lost};
    for (int64_t i = 0; i < m->n_classes; i++) queue_outcome(m->classes[i].queue, &o);
    return o;
}

void master_report_finished(const struct master *m, const struct sched_class *c, int64_t job)
{
    if (m->sink->finished && queue_job_finished(c->queue, job))
        m->sink->finished(m->sink->context, m->jobs[c->first + job].id);
}

/* The leader's batch has ended, finished or dropped. */
static void end_batch(struct master *m, int leader, bool dropped)
{
    struct leader *l = master_leader(m, leader);
    queue_finish(l->in->queue, l->group, clock_seconds(), dropped);
    master_report_finished(m, l->in, l->job);
    l->in = NULL;
    m->busy--;
    m->dropped = m->dropped || dropped;
    log_trace("sched", "rank %d %s; %lld of %lld jobs finished", leader,
              dropped ? "dropped its batch" : "is done", (long long)sum_up(m).finished,
              (long long)m->n);
}

/* "LEFT ONCE WHAT", as sched_report takes them. */
static enum status note_progress(struct master *m, int leader, const char *text, struct err *e)
{
    double left, once;
    int what = 0;
    NEED(sscanf(text, "%lf %lf %n", &left, &once, &what) == 2 && what > 0, ERR_MPI,
         "rank %d is as far as '%s'", leader, text);
    struct leader *l = master_leader(m, leader);
    if (!l->in) return OK;
    queue_report(l->in->queue, l->group, clock_seconds(), left, once);
    snprintf(l->what, sizeof l->what, "%s", text + what);
    return OK;
}

/* The status of a batch that failed for a reason that ends the run. */
static enum status broken(int leader, const char *message, struct err *e)
{
    int code = ERR_PEER, text = 0;
    if (sscanf(message, "%d %n", &code, &text) != 1 || code <= OK || code > ERR_PEER)
        code = ERR_PEER;
    return err_set(e, (enum status)code, __FILE__, __LINE__, "rank %d: %s", leader, message + text);
}

static enum status handle(struct master *m, const struct ranks_message *message, struct err *e)
{
    const char *text = message->text;
    const int leader = message->rank;
    struct leader *l = master_leader(m, leader);
    long long size, class;
    l->heard = now_of(m);
    switch (message->tag) {
    case TAG_READY:
        NEED(sscanf(text, "%lld %lld", &size, &class) == 2, ERR_MPI, "rank %d is ready for '%s'",
             leader, text);
        if (l->fresh) m->failed_at_start = 0;
        *l = (struct leader){.size = size, .class = class, .heard = l->heard};
        return answer(m, leader, e);
    case TAG_BEGUN:
        l->acknowledged = true;
        return OK;
    case TAG_KEPT:
        l->kept = true;
        return OK;
    case TAG_RESULT:
        if (m->st == OK) keep_failure(m, m->sink->accept(m->sink->context, text, e));
        return OK;
    case TAG_PROGRESS:
        return note_progress(m, leader, text, e);
    case TAG_DONE:
        end_batch(m, leader, strcmp(text, "done") != 0);
        return master_answer_waiting(m, e);
    case TAG_BROKEN:
        end_batch(m, leader, true);
        keep_failure(m, broken(leader, text, e));
        return master_answer_waiting(m, e);
    default:
        RAISE(ERR_MPI, "unexpected message %d from rank %d", message->tag, leader);
    }
}

/* On a signal or a failure: assigns nothing more, or has the batches in flight dropped as well.
 */
static enum status steer(struct master *m, struct err *e)
{
    enum signal_state signal = sched_signal();
    if (signal == SIGNAL_DRAIN && !m->stopping)
        log_info("SIGUSR1: running visits are finished, no more are started");
    if (signal != SIGNAL_NONE) m->stopping = true;
    m->forecast.stopping = m->stopping;
    if (m->stopping) PASS(master_answer_waiting(m, e));
    if (m->stop_sent || (signal != SIGNAL_STOP && m->st == OK)) return OK;
    for (int rank = 1; rank < m->ranks.n; rank++)
        if (master_leader(m, rank)->in) PASS(ranks_send(&m->ranks, rank, TAG_STOP, "", e));
    m->stop_sent = true;
    return OK;
}

static int more_ranks(const void *a, const void *b)
{
    const struct sched_job *x = a, *y = b;
    return (x->ranks < y->ranks) - (x->ranks > y->ranks);
}

static enum status master_init(struct master *m, const struct sched_job *jobs, struct err *e)
{
    int size;
    MPI_Comm_size(m->world, &size);
    m->workers = size - 1;
    m->alive = 1; /* at first all workers are one group */
    PASS(ranks_open(&m->ranks, m->world, m->rescue ? m->rescue->link : NULL, e));
    PASS(run_forecast_open(&m->forecast, m->sink, m->workers, e));
    /* The jobs by decreasing ranks, none with more ranks than there are. */
    PASS(mem_zero(&m->jobs, m->n, sizeof *m->jobs, "jobs", e));
    for (int64_t i = 0; i < m->n; i++) {
        m->jobs[i] = jobs[i];
        if (jobs[i].ranks < 1) m->jobs[i].ranks = 1;
        if (jobs[i].ranks > m->workers) m->jobs[i].ranks = m->workers;
    }
    /* Need not be stable: the queue orders jobs of as many ranks by their cost. */
    qsort(m->jobs, (size_t)m->n, sizeof *m->jobs, more_ranks);
    int64_t capacity = 0;
    for (int64_t i = 0; i < m->n; i++) {
        if (i > 0 && m->jobs[i].ranks == m->jobs[i - 1].ranks) continue;
        PASS(mem_grow(&m->classes, m->n_classes, &capacity, sizeof *m->classes, e));
        m->classes[m->n_classes++] = (struct sched_class){.ranks = m->jobs[i].ranks, .first = i};
    }
    for (int64_t i = 0; i < m->n_classes; i++) {
        struct sched_class *c = &m->classes[i];
        c->n = (i + 1 < m->n_classes ? c[1].first : m->n) - c->first;
        int64_t groups = (m->workers - 1) / c->ranks + 1;
        PASS(mem_zero(&c->node, groups, sizeof *c->node, "groups", e));
        for (int64_t k = 0; k < groups; k++) c->node[k] = m->node[1 + k * c->ranks];
        PASS(queue_open(m->jobs + c->first, c->n, groups, c->node, &c->queue, e));
        queue_limit(c->queue, sched_ends());
    }
    return OK;
}

static enum status report_progress(struct master *m, struct err *e)
{
    int64_t n = 0;
    const double now = clock_seconds();
    if (!run_forecast_due(&m->forecast, now)) return OK;
    for (int i = 1; i < m->ranks.n; i++) {
        const struct leader *l = master_leader(m, i);
        if (!l->in) continue;
        const char *name = m->jobs[l->in->first + l->job].name;
        m->forecast.running[n++] = (struct sched_running){name, l->what, i, now - l->start};
    }
    return run_forecast_send(&m->forecast, m->classes, m->n_classes, n, now, e);
}

/* A message is handled, or all else is looked at if there is none. */
static enum status poll(struct master *m, long *pause, struct err *e)
{
    enum status st = OK;
    struct ranks_message message = {0};
    bool there;
    TRY(ranks_receive(&m->ranks, &message, &there, e));
    if (there) {
        TRY(handle(m, &message, e));
        *pause = 0;
        goto done;
    }
    TRY(steer(m, e));
    TRY(lost_ranks_look(m, e));
    keep_failure(m, m->sink->tick(m->sink->context, e));
    TRY(report_progress(m, e));
    patience_pause(pause);
done:
    if (there) free(message.text);
    return st;
}

enum status master_run(MPI_Comm world, const int *node, const struct sched_job *jobs, int64_t n,
                       const struct sched_sink *sink, const struct sched_rescue *rescue,
                       struct sched_outcome *outcome, struct err *e)
{
    enum status st = OK;
    long pause = 0;
    struct master m = {
        .world = world, .node = node, .sink = sink, .rescue = rescue, .n = n, .st = OK};
    TRY(master_init(&m, jobs, e));
    if (rescue && rescue->link) link_work(rescue->link);
    master_leader(&m, 1)->heard = now_of(&m);
    while (m.alive > 0 && !m.abandoned) TRY(poll(&m, &pause, e));
    if (m.st == OK) keep_failure(&m, sink->tick(sink->context, e));
    *outcome = sum_up(&m);
    outcome->end = outcome->finished == n                       ? SCHED_DONE
                   : m.dropped || sched_signal() == SIGNAL_STOP ? SCHED_STOPPED
                                                                : SCHED_DRAINED;
    st = m.st;
done:
    outcome->lost = m.lost;
    for (int64_t i = 0; i < m.n_classes; i++) {
        queue_close(m.classes[i].queue);
        free(m.classes[i].node);
    }
    run_forecast_close(&m.forecast);
    free(m.classes);
    free(m.jobs);
    ranks_close(&m.ranks);
    return st;
}
