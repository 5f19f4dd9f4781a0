#include "sched/queue.h"
#include "util/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE = -1, LOOK_AROUND = 32 };

/* Tasks within this share of the longest are as good for the end of the run. */
static const double about_as_long = 0.95;
/* A task this much longer than an even share of what is left is cut: shares are never quite even,
 * and pieces repeat the shared part. */
static const double slack = 0.2;
/* Cutting a task must save at least this share of its time. */

static const double worth_cutting = 0.1;

/* What is left of a task. */
struct left {
    int64_t n;      /* parts not handed out; tasks without parts: 1 until handed out */
    int64_t out;    /* pieces in hand */
    int64_t *parts; // (n) in the order of falling cost, inside the queue's store
    double cost;    /* shared part and what is left, not corrected */
    bool started, dropped;
};

struct hand {
    bool busy;
    int64_t task;
    double cost, start, expected;
    int64_t *parts; // (most parts of a task) inside the queue's store
};

/* Costs as planned and as they turned out. */
struct measured {
    double planned, taken;
};

struct queue {
    const struct sched_task *tasks;
    int64_t n, n_groups, n_kinds, n_files;
    const int64_t *node;
    struct left *left; // (n)
    int64_t *store;    /* the parts of all tasks and hands */
    bool *skip;        // (most parts of a task) working memory
    int64_t *heap;     // (n_heap) tasks of which something is left, the longest at the top
    int64_t n_heap;
    double total;           /* cost of what is left, corrected */
    struct hand *hands;     // (n_groups)
    struct measured *kinds; // (n_kinds)
    struct measured all;
    double *ratio;   // (n_kinds) what the heap's order rests on
    int64_t *reader; // (n_files) node that read the files last
    int64_t finished, pieces, ends, reordered_at;
};

void queue_close(struct queue *q)
{
    if (!q) return;
    free(q->left);
    free(q->store);
    free(q->skip);
    free(q->heap);
    free(q->hands);
    free(q->kinds);
    free(q->ratio);
    free(q->reader);
    free(q);
}

/* --- costs --- */

static double corrected(const struct queue *q, int64_t task, double cost)
{
    return cost * q->ratio[q->tasks[task].kind];
}

static double length_left(const struct queue *q, int64_t task)
{
    return corrected(q, task, q->left[task].cost);
}

/* How much longer tasks of the kind take than planned; kinds of which none is finished go by the
 * others. */
static double measured_ratio(const struct queue *q, int64_t kind)
{
    const struct measured *m = &q->kinds[kind];
    if (m->planned > 0 && m->taken > 0) return m->taken / m->planned;
    if (q->all.planned > 0 && q->all.taken > 0) return q->all.taken / q->all.planned;
    return 1;
}

/* --- the heap --- */

/* The same order on every run: at equal length the earlier task. */
static bool longer(const struct queue *q, int64_t a, int64_t b)
{
    double x = length_left(q, a), y = length_left(q, b);
    return x != y ? x > y : a < b;
}

static void swap(struct queue *q, int64_t i, int64_t j)
{
    int64_t t = q->heap[i];
    q->heap[i] = q->heap[j];
    q->heap[j] = t;
}

static void sift_down(struct queue *q, int64_t i)
{
    for (;;) {
        int64_t top = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < q->n_heap; child++)
            if (longer(q, q->heap[child], q->heap[top])) top = child;
        if (top == i) return;
        swap(q, i, top);
        i = top;
    }
}

static void sift_up(struct queue *q, int64_t i)
{
    for (; i > 0 && longer(q, q->heap[i], q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(q, i, (i - 1) / 2);
}

static void heap_order(struct queue *q)
{
    q->total = 0;
    for (int64_t i = 0; i < q->n_heap; i++) q->total += length_left(q, q->heap[i]);
    for (int64_t i = q->n_heap / 2; i-- > 0;) sift_down(q, i);
}

static void heap_remove(struct queue *q, int64_t i)
{
    q->heap[i] = q->heap[--q->n_heap];
    if (i == q->n_heap) return;
    sift_up(q, i);
    sift_down(q, i);
}

/* New ratios make a new order once they have moved by a tenth and twice as many pieces are behind
 * them: a few times a run. */
static void learn(struct queue *q)
{
    bool moved = false;
    if (q->ends < 2 * q->reordered_at) return;
    for (int64_t k = 0; k < q->n_kinds; k++)
        moved = moved || fabs(measured_ratio(q, k) / q->ratio[k] - 1) > 0.1;
    if (!moved) return;
    for (int64_t k = 0; k < q->n_kinds; k++) q->ratio[k] = measured_ratio(q, k);
    q->reordered_at = q->ends;
    heap_order(q);
}

/* --- opening --- */

struct part {
    int64_t index;
    double cost;
};

static int dearest_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static enum status sort_parts(const struct sched_task *t, struct left *l, struct err *e)
{
    enum status st = OK;
    struct part *parts = NULL;
    TRY(mem_alloc(&parts, t->n_parts, sizeof *parts, "parts", e));
    for (int64_t i = 0; i < t->n_parts; i++) {
        ENSURE(isfinite(t->parts[i]) && t->parts[i] >= 0, ERR_USAGE, "a part costs %g",
               t->parts[i]);
        parts[i] = (struct part){.index = i, .cost = t->parts[i]};
        l->cost += t->parts[i];
    }
    qsort(parts, (size_t)t->n_parts, sizeof *parts, dearest_first);
    for (int64_t i = 0; i < t->n_parts; i++) l->parts[i] = parts[i].index;
done:
    free(parts);
    return st;
}

static enum status take_in(struct queue *q, struct err *e)
{
    enum status st = OK;
    int64_t *room = q->store;
    for (int64_t i = 0; i < q->n; i++) {
        const struct sched_task *t = &q->tasks[i];
        struct left *l = &q->left[i];
        ENSURE(isfinite(t->cost) && t->cost >= 0, ERR_USAGE, "a task costs %g", t->cost);
        *l = (struct left){.n = t->n_parts ? t->n_parts : 1, .parts = room, .cost = t->cost};
        if (t->n_parts) TRY(sort_parts(t, l, e));
        room += t->n_parts;
        q->heap[q->n_heap++] = i;
    }
done:
    return st;
}

enum status queue_open(const struct sched_task *tasks, int64_t n, int64_t n_groups,
                       const int64_t *node, struct queue **out, struct err *e)
{
    enum status st = OK;
    struct queue *q = NULL;
    int64_t parts = 0, most = 0;
    TRY(mem_zero(&q, 1, sizeof *q, "queue", e));
    *q = (struct queue){.tasks = tasks, .n = n, .n_groups = n_groups, .node = node, .n_kinds = 1};
    for (int64_t i = 0; i < n; i++) {
        parts += tasks[i].n_parts;
        if (tasks[i].n_parts > most) most = tasks[i].n_parts;
        if (tasks[i].kind >= q->n_kinds) q->n_kinds = tasks[i].kind + 1;
        if (tasks[i].files > q->n_files) q->n_files = tasks[i].files;
    }
    TRY(mem_zero(&q->left, n, sizeof *q->left, "queue", e));
    TRY(mem_zero(&q->store, parts + n_groups * most, sizeof *q->store, "queue", e));
    TRY(mem_zero(&q->skip, most, sizeof *q->skip, "queue", e));
    TRY(mem_zero(&q->heap, n, sizeof *q->heap, "queue", e));
    TRY(mem_zero(&q->hands, n_groups, sizeof *q->hands, "queue", e));
    TRY(mem_zero(&q->kinds, q->n_kinds, sizeof *q->kinds, "queue", e));
    TRY(mem_zero(&q->ratio, q->n_kinds, sizeof *q->ratio, "queue", e));
    TRY(mem_zero(&q->reader, q->n_files, sizeof *q->reader, "queue", e));
    for (int64_t i = 0; i < q->n_kinds; i++) q->ratio[i] = 1;
    for (int64_t i = 0; i < q->n_files; i++) q->reader[i] = NOWHERE;
    for (int64_t i = 0; i < n_groups; i++) q->hands[i].parts = q->store + parts + i * most;
    TRY(take_in(q, e));
    heap_order(q);
    *out = q;
    q = NULL;
done:
    queue_close(q);
    return st;
}

/* --- taking --- */

static int64_t node_of(const struct queue *q, int64_t group)
{
    return q->node ? q->node[group] : group;
}

/* 2: the node has the files, 1: nobody has, 0: another node has. */
static int nearness(const struct queue *q, int64_t task, int64_t node)
{
    int64_t files = q->tasks[task].files;
    int64_t reader = files > 0 ? q->reader[files - 1] : NOWHERE;
    return reader == node ? 2 : reader == NOWHERE;
}

/* Place in the heap of the task to take: the top, or one about as long that is nearer. */
static int64_t choose(const struct queue *q, int64_t node)
{
    int64_t best = 0;
    double enough = about_as_long * length_left(q, q->heap[0]);
    int near = nearness(q, q->heap[0], node);
    for (int64_t i = 1; i < q->n_heap && i < LOOK_AROUND && near < 2; i++) {
        int other = nearness(q, q->heap[i], node);
        if (other <= near || length_left(q, q->heap[i]) < enough) continue;
        best = i;
        near = other;
    }
    return best;
}

/* An even share for each group of all that is left, work in hand included. */
static double even_share(const struct queue *q, double now)
{
    double sum = q->total;
    for (int64_t g = 0; g < q->n_groups; g++) {
        const struct hand *h = &q->hands[g];
        if (h->busy && h->start + h->expected > now) sum += h->start + h->expected - now;
    }
    return sum / (double)q->n_groups;
}

/* How many of the parts left, from the dearest on, make a piece of at most `share`; at least one.
 * *cost: of the piece; q->skip: the others. */
static int64_t fit_parts(struct queue *q, int64_t task, double share, double *cost)
{
    const struct sched_task *t = &q->tasks[task];
    const struct left *l = &q->left[task];
    int64_t n = 0;
    *cost = t->cost;
    for (int64_t i = 0; i < l->n; i++) {
        double more = *cost + t->parts[l->parts[i]];
        q->skip[i] = n > 0 && corrected(q, task, more) > share;
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

/* Moves the parts that are not skipped into the hand. */
static void move_parts(struct queue *q, struct left *l, struct hand *h)
{
    int64_t kept = 0, moved = 0;
    for (int64_t i = 0; i < l->n; i++)
        if (q->skip[i])
            l->parts[kept++] = l->parts[i];
        else
            h->parts[moved++] = l->parts[i];
    l->n = kept;
    qsort(h->parts, (size_t)moved, sizeof *h->parts, ascending);
}

/* Number of parts for the hand. The task is cut when it is longer than its even share and a piece
 * saves enough of its time. */
static int64_t cut(struct queue *q, int64_t task, struct hand *h, double now)
{
    const struct sched_task *t = &q->tasks[task];
    struct left *l = &q->left[task];
    double whole = length_left(q, task), share = (1 + slack) * q->total / (double)q->n_groups;
    int64_t n = l->n, fitting;
    h->cost = l->cost;
    memset(q->skip, 0, (size_t)n * sizeof *q->skip);
    if (whole > share && n > 1) share = (1 + slack) * even_share(q, now);
    if (whole > share && n > 1) {
        double cost;
        fitting = fit_parts(q, task, share, &cost);
        if (corrected(q, task, cost) <= (1 - worth_cutting) * whole) {
            h->cost = cost;
            n = fitting;
        } else {
            memset(q->skip, 0, (size_t)n * sizeof *q->skip);
        }
    }
    move_parts(q, l, h);
    l->cost -= h->cost - t->cost;
    return n;
}

/* The group has it now. */
static void hold(struct queue *q, int64_t group, int64_t task, double now)
{
    struct hand *h = &q->hands[group];
    struct left *l = &q->left[task];
    int64_t files = q->tasks[task].files;
    h->busy = true;
    h->task = task;
    h->start = now;
    h->expected = corrected(q, task, h->cost);
    l->started = true;
    l->out++;
    q->pieces++;
    if (files > 0) q->reader[files - 1] = node_of(q, group);
}

bool queue_take(struct queue *q, int64_t group, double now, struct queue_piece *out)
{
    struct hand *h = &q->hands[group];
    if (q->n_heap == 0) return false;
    int64_t place = choose(q, node_of(q, group)), task = q->heap[place], n = 0;
    struct left *l = &q->left[task];
    double before = length_left(q, task);
    bool whole = !l->started;
    if (q->tasks[task].n_parts) {
        n = cut(q, task, h, now);
    } else {
        h->cost = l->cost;
        l->n = 0;
    }
    hold(q, group, task, now);
    q->total -= before;
    if (l->n == 0) {
        heap_remove(q, place);
    } else {
        q->total += length_left(q, task);
        sift_down(q, place);
    }
    *out = (struct queue_piece){.task = task,
                                .parts = h->parts,
                                .n_parts = n,
                                .whole = whole && l->n == 0,
                                .expected = h->expected};
    return true;
}

void queue_finish(struct queue *q, int64_t group, double now, bool dropped)
{
    struct hand *h = &q->hands[group];
    if (!h->busy) return;
    struct left *l = &q->left[h->task];
    struct measured *kind = &q->kinds[q->tasks[h->task].kind];
    h->busy = false;
    l->out--;
    l->dropped = l->dropped || dropped;
    if (l->n == 0 && l->out == 0 && !l->dropped) q->finished++;
    if (dropped) return;
    double taken = now - h->start;
    kind->planned += h->cost;
    kind->taken += taken;
    q->all.planned += h->cost;
    q->all.taken += taken;
    q->ends++;
    learn(q);
}

bool queue_empty(const struct queue *q)
{
    return q->n_heap == 0;
}

int64_t queue_finished(const struct queue *q)
{
    return q->finished;
}

int64_t queue_pieces(const struct queue *q)
{
    return q->pieces;
}
