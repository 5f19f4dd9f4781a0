#include "run/slurm_parts.h"
#include "plan/plan_parts.h"
#include "run/plan_report.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>

/* Elements are planned to take at most this share of the walltime. */
static const double share_of_time = 0.8;
/* Less than this is not worth an element: starting, reading texts, writing the cube. */
static const double least_seconds = 600;
/* If time suffices, each node gets about so many elements one after the other. */
static const double elements_a_node = 4;
/* Memory of a node that is not the operating system's. */
static const double share_of_memory = 0.9;
/* Visits below this many seconds run on a few cores each. */
static const double short_visit = 600;
enum { FEW_CORES = 8 };

void slurm_parts_free(struct slurm_parts *s)
{
    free(s->parts);
    free(s->arrays);
    *s = (struct slurm_parts){0};
}

int64_t slurm_memory(const struct slurm_nodes *at)
{
    return (int64_t)(share_of_memory * (double)at->memory);
}

/* The visits of the sweep. */
struct visits {
    int64_t n;
    double *nominal; // (n) costs by which parts are cut
    double *seconds; // (n) on one node
    int64_t *nodes;  // (n) that a visit gets
    double total;
};

static void visits_free(struct visits *v)
{
    free(v->nominal);
    free(v->seconds);
    free(v->nodes);
}

/* Seconds of a visit on a group of nodes. */
static double on_nodes(double seconds, int64_t nodes)
{
    return seconds / ((double)nodes * plan_report_efficiency(nodes));
}

/* *out (n, the caller frees) = what the visits cost by the plan's rates. */
static enum status list_costs(const struct plan_visits *all, double **out, struct err *e)
{
    PASS(mem_zero(out, all->n, sizeof **out, "visits", e));
    for (int64_t i = 0; i < all->n; i++) (*out)[i] = plan_visit_seconds(&all->visits[i]);
    return OK;
}

/* A visit gets as many nodes as its memory needs, and so many that it ends in time. */
static enum status visits_open(struct plan *p, const char *rate, const struct slurm_nodes *at,
                               struct visits *v, struct err *e)
{
    CLEANUP(plan_visits_free) struct plan_visits all = {0};
    const int64_t memory = slurm_memory(at);
    const double most = share_of_time * at->time;
    PASS(plan_visits_make(p, NULL, &(struct plan_choice){0}, &all, e));
    v->n = all.n;
    PASS(list_costs(&all, &v->nominal, e));
    plan_visits_free(&all);
    PASS(plan_report_rates(p, rate, "a node", e));
    PASS(plan_report_fit(p, at->cores, memory, e));
    PASS(plan_visits_make(p, NULL, &(struct plan_choice){0}, &all, e));
    PASS(list_costs(&all, &v->seconds, e));
    for (int64_t i = 0; i < v->n; i++) v->total += v->seconds[i];
    const double limit = fmin(most, fmax(v->total / (double)at->nodes, least_seconds));
    PASS(mem_zero(&v->nodes, v->n, sizeof *v->nodes, "visits", e));
    for (int64_t i = 0; i < v->n; i++) {
        int64_t nodes;
        PASS(plan_report_ranks(p, all.visits[i].model, at->cores, memory, &nodes, e));
        while (nodes < at->each && on_nodes(v->seconds[i], nodes) > limit) nodes++;
        v->nodes[i] = min64(nodes, at->each);
    }
    return OK;
}

/* --- parts --- */

/* What the part has to do. todo NULL: all of its visits. */
static void count_visits(const struct visits *v, const bool *todo, struct slurm_part *part)
{
    part->nodes = 1;
    part->visits = 0;
    part->seconds = 0;
    for (int64_t i = part->first; i < part->end; i++)
        if (!todo || todo[i]) part->nodes = max64(part->nodes, v->nodes[i]), part->visits++;
    for (int64_t i = part->first; i < part->end; i++)
        if (!todo || todo[i]) part->seconds += on_nodes(v->seconds[i], part->nodes);
}

/* *good = whether each of n parts ends in time that has more than one visit. */
static enum status try_parts(const struct plan *p, const struct visits *v,
                             const struct slurm_nodes *at, int64_t n, bool last,
                             struct slurm_parts *s, bool *good, struct err *e)
{
    AUTO_FREE int64_t *bounds = NULL;
    bool disjoint;
    mem_drop(&s->parts);
    s->n = n;
    PASS(mem_zero(&s->parts, n, sizeof *s->parts, "parts", e));
    PASS(mem_zero(&bounds, n + 1, sizeof *bounds, "parts", e));
    PASS(plan_parts_cut(v->nominal, v->n, n, bounds, e));
    PASS(plan_cut_agree(p, n, last && at->recorded, bounds, &disjoint, e));
    *good = true;
    for (int64_t k = 0; k < n; k++) {
        struct slurm_part *part = &s->parts[k];
        *part = (struct slurm_part){.first = bounds[k], .end = bounds[k + 1]};
        count_visits(v, NULL, part);
        *good = *good && (part->visits < 2 || part->seconds <= share_of_time * at->time);
    }
    return OK;
}

/* As few parts as are good, but enough for all nodes. */
static enum status find_parts(const struct plan *p, const struct visits *v,
                              const struct slurm_nodes *at, const bool *todo, struct slurm_parts *s,
                              struct err *e)
{
    const double mean = v->total / (double)at->nodes / elements_a_node;
    const double most = share_of_time * at->time;
    const double wanted = mean < least_seconds ? least_seconds : mean < most ? mean : most;
    const int64_t limit = max64(1, min64(v->n, at->most));
    int64_t n = min64(limit, max64(1, (int64_t)ceil(v->total / wanted)));
    bool good;
    for (;;) {
        PASS(try_parts(p, v, at, n, false, s, &good, e));
        if (good || n == limit) break;
        n = min64(limit, n + max64(1, n / 20));
    }
    PASS(try_parts(p, v, at, n, true, s, &good, e));
    for (int64_t k = 0; k < s->n; k++) {
        count_visits(v, todo, &s->parts[k]);
        s->too_long = s->too_long || s->parts[k].seconds > at->time;
    }
    return OK;
}

/* --- arrays --- */

static struct slurm_array *array_of(struct slurm_parts *s, int64_t nodes)
{
    for (int64_t i = 0; i < s->n_arrays; i++)
        if (s->arrays[i].nodes == nodes) return &s->arrays[i];
    return NULL;
}

static int fewer_nodes(const void *a, const void *b)
{
    const struct slurm_array *x = a, *y = b;
    return (x->nodes > y->nodes) - (x->nodes < y->nodes);
}

static enum status make_arrays(struct slurm_parts *s, struct err *e)
{
    int64_t capacity = 0;
    for (int64_t k = 0; k < s->n; k++) {
        const struct slurm_part *part = &s->parts[k];
        if (part->visits == 0) continue;
        if (!array_of(s, part->nodes)) {
            PASS(mem_grow(&s->arrays, s->n_arrays, &capacity, sizeof *s->arrays, e));
            s->arrays[s->n_arrays++] = (struct slurm_array){.nodes = part->nodes, .workers = 1};
        }
        struct slurm_array *a = array_of(s, part->nodes);
        const double hours = part->seconds * (double)part->nodes / 3600;
        a->elements++;
        a->hours += hours;
        s->hours += hours;
        if (part->seconds > a->longest) a->longest = part->seconds;
    }
    if (s->n_arrays > 1) qsort(s->arrays, (size_t)s->n_arrays, sizeof *s->arrays, fewer_nodes);
    return OK;
}

enum status slurm_parts_make(struct plan *p, const char *rate, const struct slurm_nodes *at,
                             const bool *todo, struct slurm_parts *out, struct err *e)
{
    CLEANUP(visits_free) struct visits v = {0};
    CLEANUP(slurm_parts_free) struct slurm_parts s = {0};
    PASS(visits_open(p, rate, at, &v, e));
    PASS(find_parts(p, &v, at, todo, &s, e));
    PASS(make_arrays(&s, e));
    /* Divides the nodes over the arrays by their work, so that they end together. */
    int64_t left = at->nodes;
    for (int64_t i = s.n_arrays; i-- > 0;) {
        struct slurm_array *a = &s.arrays[i];
        const double nodes = (double)at->nodes * (s.hours > 0 ? a->hours / s.hours : 1);
        const int64_t wanted = i == 0 ? left : (int64_t)(nodes / (double)a->nodes + 0.5);
        a->at_once = min64(min64(a->elements, wanted), left / a->nodes);
        a->at_once = max64(1, a->at_once);
        left = max64(0, left - a->at_once * a->nodes);
        double seconds = 3600 * a->hours / (double)(a->at_once * a->nodes);
        if (seconds < a->longest) seconds = a->longest;
        if (seconds > s.seconds) s.seconds = seconds;
    }
    double longest = 0; /* of the visits on single nodes: short ones get many workers */
    for (int64_t i = 0; i < v.n; i++)
        if (v.nodes[i] == 1 && v.seconds[i] > longest) longest = v.seconds[i];
    struct slurm_array *single = array_of(&s, 1);
    if (single && longest < short_visit) single->workers = max64(1, at->cores / FEW_CORES);
    *out = s;
    s = (struct slurm_parts){0};
    return OK;
}
