/* master: what rank 0 knows while others work; for master.c (messages) and lost_ranks.c (ranks that
 * are lost). */
#pragma once
#include "sched/queue.h"
#include "sched/ranks.h"
#include "sched/sched_internal.h"

struct master {
    MPI_Comm world;
    const int *node; // (ranks)
    const struct sched_sink *sink;
    const struct sched_rescue *rescue;
    struct ranks ranks;
    struct sched_job *jobs; // (n) by decreasing ranks
    int64_t n, workers;
    int64_t n_classes;
    struct sched_class *classes; // (n_classes) by decreasing ranks
    int64_t alive;               /* leaders that have not got END */
    int64_t busy, waiting;       /* leaders with a batch; that wait */
    struct run_forecast forecast;
    bool stopping;           /* nothing more is handed out */
    bool stop_sent;          /* leaders with a batch have got STOP */
    bool dropped;            /* some batch was dropped */
    bool lost, abandoned;    /* a rank was; and the run cannot go on */
    bool irreplaceable;      /* no more replacements are tried */
    int64_t vacant;          /* groups to be replaced */
    double lost_last;        /* clock_seconds of the last loss */
    int64_t failed_at_start; /* replacements in a row that died before they were ready */
    double looked;           /* link_clock of the last look at the ranks */
    enum status st;          /* first failure */
};

/* What is known of the group that this rank leads. */
static inline struct leader *master_leader(const struct master *m, int rank)
{
    return &m->ranks.rank[rank].lead;
}

/* After a batch of the job of class c has ended or was given up: tells the sink if nothing of it
 * is left. */
void master_report_finished(const struct master *m, const struct sched_class *c, int64_t job);
/* Answers the leaders that wait. ERR_MPI, ERR_NOMEM. */
MUST_USE enum status master_answer_waiting(struct master *m, struct err *e);

/* Finds ranks that have died, are silent, or make no progress; writes off their groups, returns
 * their batches to the queue and replaces them where MPI can. Without that, m->abandoned. Errors:
 * of rescue->lose, ERR_MPI, ERR_NOMEM. */
MUST_USE enum status lost_ranks_look(struct master *m, struct err *e);
