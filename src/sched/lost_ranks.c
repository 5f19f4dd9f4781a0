/* Ranks that are lost while a run goes on, and what becomes of their work. */
#include "sched/master.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdio.h>

/* Why a group is lost, for people. */
struct reason {
    char who[160], why[160];
};

/* Whether the group of this rank is to be written off, and why. */
static bool is_lost(const struct master *m, int rank, struct reason *r)
{
    const struct rank *s = &m->ranks.rank[rank];
    const struct leader *l = master_leader(m, s->leader);
    const struct link_view v = link_look(m->rescue->link, s->link);
    const double idle = link_clock(m->rescue->link) - l->heard,
                 most = patience_idle_limit(l->expected);
    if (s->gone || l->ended) return false;
    const bool replaced = m->ranks.rank[rank].comm > 0;
    snprintf(r->who, sizeof r->who, "%srank %d (%s, process %lld)", replaced ? "replaced " : "",
             rank, v.host[0] ? v.host : "never connected", (long long)v.pid);
    if (v.silent > patience_limit()) {
        snprintf(r->why, sizeof r->why, "has been silent for %.0f s", v.silent);
    } else if (v.lost) {
        snprintf(r->why, sizeof r->why, "has died");
    } else if (rank == s->leader && l->in && !l->acknowledged && idle > patience_limit()) {
        snprintf(r->why, sizeof r->why, "has not taken its visit for %.0f s", idle);
    } else if (rank == s->leader && l->in && idle > most) {
        snprintf(r->why, sizeof r->why, "has made no progress for %.0f s", idle);
    } else if (rank == s->leader && !l->in && !l->waiting && !l->vacant &&
               idle > patience_limit()) {
        snprintf(r->why, sizeof r->why, "has not asked for work for %.0f s", idle);
    } else {
        return false;
    }
    return true;
}

/* The batch of a lost group: what the sink wants done again goes back to the queue. */
static enum status return_batch(struct master *m, int leader, const struct reason *r, struct err *e)
{
    struct leader *l = master_leader(m, leader);
    struct sched_job *t = &m->jobs[l->in->first + l->job];
    int64_t n;
    AUTO_FREE int64_t *parts = NULL;
    AUTO_FREE char *why = NULL;
    const int64_t *of = queue_parts(l->in->queue, l->group, &n);
    PASS(mem_alloc(&parts, n, sizeof *parts, "parts", e));
    if (n > 0) memcpy(parts, of, (size_t)n * sizeof *parts);
    PASS(mem_format(&why, e, "%s %s", r->who, r->why));
    struct sched_loss loss = {.job = t->id,
                              .why = why,
                              .seconds = clock_seconds() - l->start,
                              .kept = l->kept,
                              .again = true,
                              .n_parts = n,
                              .parts = parts,
                              .text = t->text};
    if (sched_signal() == SIGNAL_NONE) PASS(m->rescue->lose(m->rescue->context, &loss, e));
    t->text = loss.text;
    if (l->kept) t->saved = loss.seconds;
    queue_return(l->in->queue, l->group, parts, loss.n_parts, loss.again);
    master_report_finished(m, l->in, l->job);
    return OK;
}

static bool work_left(const struct master *m)
{
    if (m->busy > 0) return true;
    for (int64_t i = 0; i < m->n_classes; i++)
        if (!queue_empty(m->classes[i].queue)) return true;
    return false;
}

static enum status lose_group(struct master *m, int leader, const struct reason *r, struct err *e)
{
    enum { STILLBORN = 3 };
    struct leader *l = master_leader(m, leader);
    const bool recovers = link_recovers() && m->rescue->argv;
    if (sched_signal() == SIGNAL_NONE && !l->in) log_warn("%s %s", r->who, r->why);
    ranks_lose(&m->ranks, leader);
    m->lost = true;
    m->alive--;
    m->waiting -= l->waiting;
    m->failed_at_start += l->fresh;
    if (l->in) {
        m->busy--;
        PASS(return_batch(m, leader, r, e));
    }
    *l = (struct leader){.ended = true};
    if (!recovers) {
        m->abandoned = m->dropped = true;
        return OK;
    }
    if (m->failed_at_start >= STILLBORN) m->irreplaceable = true;
    l->vacant = true;
    m->vacant++;
    m->alive++;
    m->lost_last = clock_seconds();
    return master_answer_waiting(m, e);
}

/* Once no rank has been lost for a moment: mpirun may lose a new process when another dies while
 * it starts. */
static enum status fill_vacancies(struct master *m, struct err *e)
{
    const double moment = 0.5;
    if (m->vacant == 0 || clock_seconds() - m->lost_last < moment) return OK;
    for (int i = 1; i < m->ranks.n && m->vacant > 0; i++) {
        if (!master_leader(m, i)->vacant) continue;
        master_leader(m, i)->vacant = false;
        m->vacant--;
        m->alive--;
        if (!m->stopping && !m->irreplaceable && work_left(m)) {
            /* That new processes cannot be had is no error: the others go on. */
            struct err own = {0};
            const int n = ranks_group(&m->ranks, i);
            AUTO_FREE const char **terms = NULL;
            PASS(mem_zero(&terms, n, sizeof *terms, "ranks", e));
            for (int k = 0; k < n; k++) terms[k] = m->rescue->terms(m->rescue->context, i + k);
            if (ranks_replace(&m->ranks, i, m->rescue->argv, terms, &own) == OK) {
                *master_leader(m, i) =
                    (struct leader){.heard = link_clock(m->rescue->link), .fresh = true};
                m->alive++;
                log_trace("sched", "rank %d and %d more of its group are replaced", i, n - 1);
            } else {
                log_warn("rank %d cannot be replaced (%s); the others go on", i, own.text);
                m->irreplaceable = true;
            }
        }
        return OK;
    }
    return OK;
}

enum status lost_ranks_look(struct master *m, struct err *e)
{
    const double often = 1;
    struct reason r;
    if (!m->rescue || !m->rescue->link) return OK;
    PASS(fill_vacancies(m, e));
    if (!link_changed(m->rescue->link)) {
        const double now = link_clock(m->rescue->link);
        if (now - m->looked < often) return OK;
        m->looked = now;
    }
    for (int i = 1; i < m->ranks.n && !m->abandoned; i++)
        if (is_lost(m, i, &r)) PASS(lose_group(m, m->ranks.rank[i].leader, &r, e));
    return OK;
}
