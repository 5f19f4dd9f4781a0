#include "plan/plan_parts.h"
#include "util/mem.h"
#include "util/num.h"
#include <math.h>
#include <stdio.h>

enum status plan_part_parse(const char *text, struct plan_part *part, struct err *e)
{
    long long k, n;
    int used = 0;
    NEED(sscanf(text, "%lld/%lld%n", &k, &n, &used) == 2 && text[used] == '\0' && k >= 1 &&
             n >= k && n <= PLAN_PARTS_MOST,
         ERR_USAGE, "--part %s: expected K/N, part K of N, such as 3/8, with N up to %d", text,
         PLAN_PARTS_MOST);
    *part = (struct plan_part){.k = k, .n = n};
    return OK;
}

/* --- the cut --- */

/* Costs in whole microseconds, so that sums do not depend on their order. */
struct cut {
    int64_t n;
    int64_t *cost;  // (n)
    int64_t *until; // (n) the first visit that a part from here does not take within the bound
    int64_t *need;  // (n + 1) how many parts the visits from here take within the bound
};

static void cut_close(struct cut *c)
{
    free(c->cost);
    free(c->until);
    free(c->need);
}

/* Sets until and need for parts of at most `bound`, which no visit exceeds. */
static void fill_parts(struct cut *c, int64_t bound)
{
    int64_t sum = 0, end = c->n;
    c->need[c->n] = 0;
    for (int64_t i = c->n - 1; i >= 0; i--) {
        sum += c->cost[i];
        while (sum > bound) sum -= c->cost[--end];
        c->until[i] = end;
        c->need[i] = 1 + c->need[end];
    }
}

/* The smallest bound within which n parts hold all visits; c is filled for it. */
static void find_bound(struct cut *c, int64_t n)
{
    int64_t low = 0, high = 0;
    for (int64_t i = 0; i < c->n; i++) {
        high += c->cost[i];
        low = max64(low, c->cost[i]);
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        fill_parts(c, middle);
        if (c->need[0] <= n)
            high = middle;
        else
            low = middle + 1;
    }
    fill_parts(c, low);
}

/* The end of a part that begins at `from`, `parts` before the end of the plan, whose rest costs
 * `rest`: near an equal share, with enough visits that the rest fits into the other parts, and one
 * visit left for each of those. */
static int64_t find_end(const struct cut *c, int64_t from, int64_t parts, int64_t rest)
{
    const int64_t most = min64(c->until[from], max64(from + 1, c->n - (parts - 1)));
    const double share = (double)rest / (double)parts;
    double sum = 0;
    int64_t end = from;
    for (; end < most; end++) {
        const bool fits = end > from && c->need[end] <= parts - 1;
        if (fits && sum + (double)c->cost[end] / 2 > share) break;
        sum += (double)c->cost[end];
    }
    return end;
}

enum status plan_parts_cut(const double *costs, int64_t n_visits, int64_t n, int64_t *bounds,
                           struct err *e)
{
    CLEANUP(cut_close) struct cut c = {0};
    int64_t rest = 0;
    const double most = 1e15;
    c.n = n_visits;
    PASS(mem_zero(&c.cost, n_visits, sizeof *c.cost, "costs", e));
    PASS(mem_zero(&c.until, n_visits, sizeof *c.until, "costs", e));
    PASS(mem_zero(&c.need, n_visits + 1, sizeof *c.need, "costs", e));
    for (int64_t i = 0; i < n_visits; i++) c.cost[i] = 1 + (int64_t)fmin(1e6 * costs[i], most);
    if (n_visits) find_bound(&c, n);
    for (int64_t i = 0; i < n_visits; i++) rest += c.cost[i];
    bounds[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        bounds[i + 1] = bounds[i];
        if (bounds[i] < n_visits) bounds[i + 1] = find_end(&c, bounds[i], n - i, rest);
        for (int64_t j = bounds[i]; j < bounds[i + 1]; j++) rest -= c.cost[j];
    }
    return OK;
}

/* --- of a plan --- */

enum status plan_part_find(const struct plan *p, bool recorded, struct plan_part *part,
                           struct err *e)
{
    CLEANUP(plan_visits_free) struct plan_visits all = {0};
    AUTO_FREE double *costs = NULL;
    AUTO_FREE int64_t *bounds = NULL;
    bool disjoint = false;
    if (part->n == 0) return OK;
    PASS(plan_visits_make(p, NULL, &(struct plan_choice){0}, &all, e));
    PASS(mem_zero(&costs, all.n, sizeof *costs, "costs", e));
    PASS(mem_zero(&bounds, part->n + 1, sizeof *bounds, "parts", e));
    for (int64_t i = 0; i < all.n; i++) costs[i] = plan_visit_seconds(&all.visits[i]);
    PASS(plan_parts_cut(costs, all.n, part->n, bounds, e));
    PASS(plan_cut_agree(p, part->n, recorded, bounds, &disjoint, e));
    *part = (struct plan_part){.k = part->k,
                               .n = part->n,
                               .first = bounds[part->k - 1],
                               .end = bounds[part->k],
                               .disjoint = disjoint};
    for (int64_t j = part->first; j < part->end; j++) part->cost += costs[j];
    return OK;
}
