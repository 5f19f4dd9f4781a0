#include "sched/queue_internal.h"
#include "util/ratio.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AROUND = 32 };
/* Jobs at least this long, relative to the longest, may be handed out instead of it. */
static const double about_as_long = 0.95;
/* A job is cut only if it is longer than an even share of the remaining work by this much: shares
 * are never exactly even, and every batch repeats the shared part. */
static const double slack = 0.2;
/* Cutting a job must save at least this share of its time. */
static const double worth_cutting = 0.1;
/* If the time is limited: a job may take so much longer than expected; and one that is too long is
 * begun only if so many times the work is done after which its state is saved. */
static const double doubt = 0.1, saves = 2;

/* --- costs --- */

static double corrected(const struct queue *q, int64_t job, double cost)
{
    return cost * q->ratio[q->jobs[job].kind];
}

static double length_left(const struct queue *q, int64_t job)
{
    return corrected(q, job, q->remaining[job].cost);
}

/* Time taken / time planned of finished jobs of the kind; while it has none, what those of other
 * kinds say of it. */
static double measured_ratio(const struct queue *q, int64_t kind)
{
    const struct measured *m = &q->kinds[kind];
    if (m->planned > 0 && m->taken > 0) return m->taken / m->planned;
    return ratio_carried(q->all.planned, q->all.taken, q->work[kind]);
}

/* --- the list of jobs --- */

static bool begun(const struct queue *q, int64_t job)
{
    return q->jobs[job].saved > 0;
}

/* By turn, then those that have a saved state, then by length; ties go to the earlier job, so that
 * the order is the same on every run. */
static bool goes_first(const struct queue *q, int64_t a, int64_t b)
{
    if (q->jobs[a].turn != q->jobs[b].turn) return q->jobs[a].turn < q->jobs[b].turn;
    if (begun(q, a) != begun(q, b)) return begun(q, a);
    double x = length_left(q, a), y = length_left(q, b);
    return x != y ? x > y : a < b;
}

static int by_turn(const void *a, const void *b, void *queue)
{
    const int64_t *x = a, *y = b;
    return goes_first(queue, *x, *y) ? 1 : -1;
}

void queue_order(struct queue *q)
{
    q->total = 0;
    for (int64_t i = 0; i < q->n_list; i++) q->total += length_left(q, q->list[i]);
    qsort_r(q->list, (size_t)q->n_list, sizeof *q->list, by_turn, q);
}

/* --- taking --- */

static int64_t node_of(const struct queue *q, int64_t group)
{
    return q->node ? q->node[group] : group;
}

/* 2: the node has read the files, 1: no node has, 0: another node has. */
static int nearness(const struct queue *q, int64_t job, int64_t node)
{
    int64_t files = q->jobs[job].files;
    int64_t reader = files > 0 ? q->reader[files - 1] : NOWHERE;
    return reader == node ? 2 : reader == NOWHERE;
}

/* Expected seconds that a batch may take which begins now. */
static double room(const struct queue *q, double now)
{
    return (q->end - now) / (1 + doubt);
}

/* Whether all that is left of the job ends in time, or another run can continue it where it is
 * broken off. */
static bool fits(const struct queue *q, int64_t job, double now)
{
    const double after = q->jobs[job].saved_after;
    return length_left(q, job) <= room(q, now) || (after > 0 && saves * after <= q->end - now);
}

/* The cost of the job's cheapest batch: its last part is the cheapest. */
static double shortest_batch(const struct queue *q, int64_t job)
{
    const struct sched_job *t = &q->jobs[job];
    const struct remaining *r = &q->remaining[job];
    return t->n_parts ? t->cost + t->parts[r->parts[r->n - 1]] : r->cost;
}

static bool may_begin(const struct queue *q, int64_t job, double now)
{
    if (fits(q, job, now)) return true;
    return q->remaining[job].n > 1 && q->jobs[job].n_parts &&
           corrected(q, job, shortest_batch(q, job)) <= room(q, now);
}

/* Index in the list of the job to take: the first that may begin, or one of its turn and of
 * similar length, with a state as that has, whose files the node has read; NOWHERE: none may begin.
 */
static int64_t choose(const struct queue *q, int64_t node, double now)
{
    int64_t first = q->n_list - 1, best;
    while (first >= 0 && !may_begin(q, q->list[first], now)) first--;
    if (first < 0) return NOWHERE;
    best = first;
    const int64_t begins = q->list[first];
    const double enough = about_as_long * length_left(q, begins);
    int near = nearness(q, begins, node);
    for (int64_t i = first - 1; i >= 0 && i > first - LOOK_AROUND && near < 2; i--) {
        const int64_t job = q->list[i];
        const int other = nearness(q, job, node);
        if (q->jobs[job].turn != q->jobs[begins].turn) continue;
        if (begun(q, job) != begun(q, begins) || other <= near) continue;
        if (length_left(q, job) < enough || !may_begin(q, job, now)) continue;
        best = i;
        near = other;
    }
    return best;
}

/* Remaining work per group, the batches in flight included. */
static double even_share(const struct queue *q, double now)
{
    double sum = q->total;
    for (int64_t g = 0; g < q->n_groups; g++) {
        const struct in_flight *f = &q->in_flight[g];
        if (f->busy && f->start + f->expected > now) sum += f->start + f->expected - now;
    }
    return sum / (double)q->n_groups;
}

/* Selects remaining parts, the most expensive first, for a batch that takes at most `share`;
 * `some`: the first one even if it takes longer. Returns their number; *cost: of the batch; q->skip
 * marks the others. */
static int64_t fit_parts(struct queue *q, int64_t job, double share, bool some, double *cost)
{
    const struct sched_job *t = &q->jobs[job];
    const struct remaining *r = &q->remaining[job];
    int64_t n = 0;
    *cost = t->cost;
    for (int64_t i = 0; i < r->n; i++) {
        double more = *cost + t->parts[r->parts[i]];
        q->skip[i] = (n > 0 || !some) && corrected(q, job, more) > share;
        if (q->skip[i]) continue;
        *cost = more;
        n++;
    }
    return n;
}

static int ascending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Seconds that a batch of the job should take at most; *late: all that is left of it cannot end in
 * time. */
static double length_wanted(struct queue *q, int64_t job, double now, bool *late)
{
    const double whole = length_left(q, job);
    double share = (1 + slack) * q->total / (double)q->n_groups;
    if (whole > share) share = (1 + slack) * even_share(q, now);
    *late = !fits(q, job, now);
    return *late && room(q, now) < share ? room(q, now) : share;
}

/* Moves parts of the job to the group's batch, with their cost, and returns their number: all of
 * them, unless the job is longer than an even share and a batch saves enough of its time, or it
 * cannot end in time.
 */
static int64_t cut(struct queue *q, int64_t job, struct in_flight *f, double now)
{
    const struct sched_job *t = &q->jobs[job];
    struct remaining *r = &q->remaining[job];
    const double whole = length_left(q, job);
    bool late;
    const double share = length_wanted(q, job, now, &late);
    int64_t n = r->n;
    if (whole > share && n > 1) {
        n = fit_parts(q, job, share, !late, &f->cost);
        if (late && n == 0) n = fit_parts(q, job, room(q, now), false, &f->cost);
        if (!late && corrected(q, job, f->cost) > (1 - worth_cutting) * (whole - t->saved))
            n = r->n;
    }
    if (n == r->n) {
        f->cost = r->cost;
        memset(q->skip, 0, (size_t)n * sizeof *q->skip);
    }
    /* Moves the parts that are not skipped from the job to the group's batch. */
    int64_t kept = 0, moved = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (q->skip[i])
            r->parts[kept++] = r->parts[i];
        else
            f->parts[moved++] = r->parts[i];
    r->n = kept;
    qsort(f->parts, (size_t)moved, sizeof *f->parts, ascending);
    r->cost -= f->cost - t->cost;
    return n;
}

bool queue_take(struct queue *q, int64_t group, double now, struct queue_batch *out)
{
    struct in_flight *f = &q->in_flight[group];
    const int64_t place = choose(q, node_of(q, group), now);
    if (place < 0) return false;
    const int64_t job = q->list[place], files = q->jobs[job].files;
    struct remaining *r = &q->remaining[job];
    const double before = length_left(q, job);
    *f = (struct in_flight){
        .busy = true, .job = job, .cost = r->cost, .start = now, .parts = f->parts};
    if (q->jobs[job].n_parts)
        f->n = cut(q, job, f, now);
    else
        r->n = 0;
    q->total -= before;
    f->expected = corrected(q, job, f->cost);
    r->out++;
    q->batches++;
    if (files > 0) q->reader[files - 1] = node_of(q, group);
    if (r->n == 0) {
        q->n_list--;
        memmove(q->list + place, q->list + place + 1,
                (size_t)(q->n_list - place) * sizeof *q->list);
    } else {
        /* It has become shorter, and finds its place. */
        int64_t to = place;
        q->total += length_left(q, job);
        for (; to > 0 && goes_first(q, q->list[to - 1], job); to--) q->list[to] = q->list[to - 1];
        q->list[to] = job;
    }
    *out = (struct queue_batch){
        .job = job, .parts = f->parts, .n_parts = f->n, .expected = f->expected};
    return true;
}

/* Takes in how long a batch took that ends then. */
static void measure(struct queue *q, const struct in_flight *f, double end)
{
    struct measured *of[] = {&q->kinds[q->jobs[f->job].kind], &q->all};
    for (int i = 0; i < 2; i++) {
        of[i]->planned += f->cost;
        of[i]->taken += end - f->start - f->once;
    }
}

static void end_batch(struct queue *q, struct in_flight *f)
{
    f->busy = false;
    q->remaining[f->job].out--;
    q->finished += queue_job_finished(q, f->job);
}

void queue_finish(struct queue *q, int64_t group, double now, bool dropped)
{
    struct in_flight *f = &q->in_flight[group];
    if (!f->busy) return;
    q->remaining[f->job].dropped |= dropped;
    end_batch(q, f);
    if (dropped) return;
    measure(q, f, now);
    q->ends++;
    /* Reorders the list by new ratios once one has changed by a tenth and twice as many batches
     * have ended as at the last time: a few times per run. */
    bool moved = false;
    if (q->ends < 2 * q->reordered_at) return;
    for (int64_t k = 0; k < q->n_kinds; k++)
        moved = moved || fabs(measured_ratio(q, k) / q->ratio[k] - 1) > 0.1;
    if (!moved) return;
    for (int64_t k = 0; k < q->n_kinds; k++) q->ratio[k] = measured_ratio(q, k);
    q->reordered_at = q->ends;
    queue_order(q);
}

/* --- returning --- */

const int64_t *queue_parts(const struct queue *q, int64_t group, int64_t *n)
{
    *n = q->in_flight[group].n;
    return q->in_flight[group].parts;
}

/* Puts a part back into its place by decreasing cost. */
static void put_back(struct remaining *r, const double *costs, int64_t part)
{
    int64_t i = r->n++;
    for (; i > 0 && costs[r->parts[i - 1]] < costs[part]; i--) r->parts[i] = r->parts[i - 1];
    r->parts[i] = part;
    r->cost += costs[part];
}

void queue_return(struct queue *q, int64_t group, const int64_t *parts, int64_t n, bool again)
{
    struct in_flight *f = &q->in_flight[group];
    if (!f->busy) return;
    const struct sched_job *t = &q->jobs[f->job];
    struct remaining *r = &q->remaining[f->job];
    const bool listed = r->n > 0;
    for (int64_t i = 0; again && i < n; i++) put_back(r, t->parts, parts[i]);
    if (again && t->n_parts == 0) r->n = 1;
    if (!listed && r->n > 0) q->list[q->n_list++] = f->job;
    end_batch(q, f);
    queue_order(q);
}

/* --- forecasts --- */

void queue_report(struct queue *q, int64_t group, double now, double left, double once)
{
    struct in_flight *f = &q->in_flight[group];
    if (!f->busy) return;
    f->reported = true;
    f->ends = now + left;
    f->once = once;
}

double queue_left(const struct queue *q, int64_t group, double now)
{
    const struct in_flight *f = &q->in_flight[group];
    double ends = f->reported ? f->ends : f->start + corrected(q, f->job, f->cost);
    return f->busy && ends > now ? ends - now : 0;
}

enum status queue_clone(const struct queue *q, struct queue **out, struct err *e)
{
    struct queue *c;
    PASS(queue_open(q->jobs, q->n, q->n_groups, q->node, &c, e));
    const struct queue own = *c;
    *c = *q;
    c->remaining = memcpy(own.remaining, q->remaining, (size_t)q->n * sizeof *q->remaining);
    c->store = memcpy(own.store, q->store, (size_t)q->n_store * sizeof *q->store);
    c->skip = own.skip;
    c->list = memcpy(own.list, q->list, (size_t)q->n * sizeof *q->list);
    c->in_flight = memcpy(own.in_flight, q->in_flight, (size_t)q->n_groups * sizeof *q->in_flight);
    c->work = memcpy(own.work, q->work, (size_t)q->n_kinds * sizeof *q->work);
    c->kinds = memcpy(own.kinds, q->kinds, (size_t)q->n_kinds * sizeof *q->kinds);
    c->ratio = memcpy(own.ratio, q->ratio, (size_t)q->n_kinds * sizeof *q->ratio);
    c->reader = memcpy(own.reader, q->reader, (size_t)q->n_files * sizeof *q->reader);
    for (int64_t i = 0; i < q->n; i++)
        c->remaining[i].parts = c->store + (q->remaining[i].parts - q->store);
    for (int64_t g = 0; g < q->n_groups; g++)
        c->in_flight[g].parts = c->store + (q->in_flight[g].parts - q->store);
    c->end = INFINITY;
    /* As if the batches that have reported had ended as they expect to. */
    for (int64_t g = 0; g < c->n_groups; g++) {
        const struct in_flight *f = &c->in_flight[g];
        if (f->busy && f->reported) measure(c, f, f->ends);
    }
    for (int64_t k = 0; k < c->n_kinds; k++) c->ratio[k] = measured_ratio(c, k);
    queue_order(c);
    *out = c;
    return OK;
}

void queue_limit(struct queue *q, double end)
{
    q->end = end;
}

void queue_outcome(const struct queue *q, struct sched_outcome *o)
{
    o->finished += q->finished;
    o->batches += q->batches;
    for (int64_t i = 0; i < q->n_list && isfinite(q->end); i++) {
        const double cost = corrected(q, q->list[i], shortest_batch(q, q->list[i]));
        if (o->shortest <= 0 || cost < o->shortest) o->shortest = cost;
    }
}

bool queue_empty(const struct queue *q)
{
    return q->n_list == 0;
}

bool queue_job_finished(const struct queue *q, int64_t job)
{
    const struct remaining *r = &q->remaining[job];
    return r->n == 0 && r->out == 0 && !r->dropped;
}
