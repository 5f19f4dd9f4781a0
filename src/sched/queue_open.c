/* Makes queues, and frees them. */
#include "sched/queue_internal.h"
#include "util/mem.h"
#include <math.h>

void queue_close(struct queue *q)
{
    if (!q) return;
    free(q->remaining);
    free(q->store);
    free(q->skip);
    free(q->list);
    free(q->in_flight);
    free(q->kinds);
    free(q->work);
    free(q->ratio);
    free(q->reader);
    free(q);
}

struct part {
    int64_t index;
    double cost;
};

static int expensive_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static enum status sort_parts(const struct sched_job *t, struct remaining *r, struct err *e)
{
    AUTO_FREE struct part *parts = NULL;
    PASS(mem_alloc(&parts, t->n_parts, sizeof *parts, "parts", e));
    for (int64_t i = 0; i < t->n_parts; i++) {
        NEED(isfinite(t->parts[i]) && t->parts[i] >= 0, ERR_USAGE, "a part costs %g", t->parts[i]);
        parts[i] = (struct part){.index = i, .cost = t->parts[i]};
        r->cost += t->parts[i];
    }
    qsort(parts, (size_t)t->n_parts, sizeof *parts, expensive_first);
    for (int64_t i = 0; i < t->n_parts; i++) r->parts[i] = parts[i].index;
    return OK;
}

static enum status take_in(struct queue *q, struct err *e)
{
    int64_t *next = q->store;
    for (int64_t i = 0; i < q->n; i++) {
        const struct sched_job *t = &q->jobs[i];
        struct remaining *r = &q->remaining[i];
        NEED(isfinite(t->cost) && t->cost >= 0, ERR_USAGE, "a job costs %g", t->cost);
        *r = (struct remaining){.n = t->n_parts ? t->n_parts : 1, .parts = next, .cost = t->cost};
        if (t->n_parts) PASS(sort_parts(t, r, e));
        next += t->n_parts;
        q->work[t->kind] += r->cost;
        q->list[q->n_list++] = i;
    }
    return OK;
}

enum status queue_open(const struct sched_job *jobs, int64_t n, int64_t n_groups,
                       const int64_t *node, struct queue **out, struct err *e)
{
    CLEANUP(queue_close_at) struct queue *q = NULL;
    int64_t parts = 0, most = 0;
    PASS(mem_zero(&q, 1, sizeof *q, "queue", e));
    *q = (struct queue){
        .jobs = jobs, .n = n, .n_groups = n_groups, .node = node, .n_kinds = 1, .end = INFINITY};
    for (int64_t i = 0; i < n; i++) {
        parts += jobs[i].n_parts;
        if (jobs[i].n_parts > most) most = jobs[i].n_parts;
        if (jobs[i].kind >= q->n_kinds) q->n_kinds = jobs[i].kind + 1;
        if (jobs[i].files > q->n_files) q->n_files = jobs[i].files;
    }
    PASS(mem_zero(&q->remaining, n, sizeof *q->remaining, "queue", e));
    q->n_store = parts + n_groups * most;
    PASS(mem_zero(&q->store, q->n_store, sizeof *q->store, "queue", e));
    PASS(mem_zero(&q->skip, most, sizeof *q->skip, "queue", e));
    PASS(mem_zero(&q->list, n, sizeof *q->list, "queue", e));
    PASS(mem_zero(&q->in_flight, n_groups, sizeof *q->in_flight, "queue", e));
    PASS(mem_zero(&q->kinds, q->n_kinds, sizeof *q->kinds, "queue", e));
    PASS(mem_zero(&q->work, q->n_kinds, sizeof *q->work, "queue", e));
    PASS(mem_zero(&q->ratio, q->n_kinds, sizeof *q->ratio, "queue", e));
    PASS(mem_zero(&q->reader, q->n_files, sizeof *q->reader, "queue", e));
    for (int64_t i = 0; i < q->n_kinds; i++) q->ratio[i] = 1;
    for (int64_t i = 0; i < q->n_files; i++) q->reader[i] = NOWHERE;
    for (int64_t i = 0; i < n_groups; i++) q->in_flight[i].parts = q->store + parts + i * most;
    PASS(take_in(q, e));
    queue_order(q);
    *out = TAKE(q);
    return OK;
}
