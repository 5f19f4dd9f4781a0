#include "plan/plan_parts.h"
#include "records/part_files.h"
#include "util/fsx.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/temporary.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* --- the file of the recorded cut --- */

struct cut_file {
    char *folder, *name, *path;
    char start[32]; /* what the names of all cuts into n begin with */
};

static void cut_file_free(struct cut_file *f)
{
    free(f->folder);
    free(f->name);
    free(f->path);
}

static enum status cut_file_init(struct cut_file *f, const struct plan *p, int64_t n, struct err *e)
{
    enum { SHORT = 12 };
    char digest[HASH_HEX];
    /* The list of visits is the sweep's: models, checkpoints, those of measures. */
    char *text = NULL;
    hash_text("visits", digest);
    for (int64_t i = 0; i < p->n_checkpoints; i++) {
        const struct model_entry *m = &p->sweep->models[p->checkpoints[i].model];
        PASS(mem_format(&text, e, "%s %s\n%s", digest, m->name,
                        m->rows[p->checkpoints[i].row].checkpoint));
        hash_text(text, digest);
        free(text);
    }
    PASS(mem_format(&text, e, "%s %lld", digest, (long long)plan_more(p)));
    hash_text(text, digest);
    free(text);
    PASS(parts_folder(p->sweep->results, &f->folder, e));
    snprintf(f->start, sizeof f->start, "cut-of-%lld-", (long long)n);
    PASS(mem_format(&f->name, e, "%s%.*s.json", f->start, SHORT, digest));
    return mem_format(&f->path, e, "%s/%s", f->folder, f->name);
}

/* bounds as the file has them, if it is whole. */
static enum status read_bounds(const struct cut_file *f, int64_t n, int64_t *bounds, bool *shared,
                               struct err *e)
{
    json_auto_t *json = NULL;
    PASS(json_read_file(f->path, 0, &json, e));
    const json_t *list = json_object_get(json, "bounds");
    NEED(
        (int64_t)json_array_size(list) == n + 1 && json_integer_value(json_array_get(list, 0)) == 0,
        ERR_FORMAT, "%s: not a cut into %lld parts; remove it, if no part of this sweep is running",
        f->path, (long long)n);
    for (int64_t i = 0; i <= n; i++) {
        const int64_t bound = json_integer_value(json_array_get(list, (size_t)i));
        NEED(bound >= (i ? bounds[i - 1] : 0), ERR_FORMAT,
             "%s: bounds of parts that decrease; remove it, if no part of this sweep is running",
             f->path);
        bounds[i] = bound;
    }
    *shared = *shared || json_flag(json, "shared");
    return OK;
}

/* Whether parts of the same number were, or may have been, cut differently. */
static bool was_cut_before(const struct cut_file *f, int64_t n, bool journals)
{
    CLEANUP(parts_free) struct part_places parts = {0};
    bool found = false;
    CLEANUP(fsx_closedir) DIR *dir = opendir(f->folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        found = found || (strncmp(entry->d_name, f->start, strlen(f->start)) == 0 &&
                          strcmp(entry->d_name, f->name) != 0);
    if (journals && parts_list(f->folder, &parts, NULL) == OK)
        for (int64_t i = 0; i < parts.n; i++) found = found || parts.part[i].n == n;
    return found;
}

/* Writes the file, unless another process was faster. */
static enum status record(const struct cut_file *f, int64_t n, const int64_t *bounds, struct err *e)
{
    AUTO_FREE char *hidden = NULL, *text = NULL;
    CLEANUP(temporary_end_at) char *temporary = NULL;
    json_auto_t *list = json_array(), *json = NULL;
    for (int64_t i = 0; i <= n; i++)
        json_array_append_new(list, json_integer((json_int_t)bounds[i]));
    json = json_pack("{s:I, s:b, s:O}", "parts", (json_int_t)n, "shared",
                     was_cut_before(f, n, true), "bounds", list);
    NEED(json && (text = json_write_text(json, JSON_COMPACT)), ERR_NOMEM,
         "out of memory for a cut into parts");
    PASS(mem_format(&hidden, e, "%s/.%s", f->folder, f->name)); /* was_cut_before does not see it */
    PASS(fsx_make_parent(hidden, e));
    PASS(temporary_begin(hidden, &temporary, e));
    PASS(fsx_write_atomic(temporary, text, strlen(text), e));
    if (link(temporary, f->path) != 0 && errno != EEXIST)
        NEED(rename(temporary, f->path) == 0, fsx_errno_status(errno), "%s: %s", f->path,
             strerror(errno)); /* a file system without links */
    return OK;
}

enum status plan_cut_agree(const struct plan *p, int64_t n, bool recorded, int64_t *bounds,
                           bool *disjoint, struct err *e)
{
    CLEANUP(cut_file_free) struct cut_file f = {0};
    const int64_t visits = p->n_checkpoints + plan_more(p);
    bool shared = false;
    *disjoint = false;
    PASS(cut_file_init(&f, p, n, e));
    if (recorded && !fsx_is_file(f.path)) PASS(record(&f, n, bounds, e));
    if (!fsx_is_file(f.path)) return OK;
    PASS(read_bounds(&f, n, bounds, &shared, e));
    NEED(bounds[n] == visits, ERR_FORMAT,
         "%s: for %lld visits, but the sweep has %lld; remove it, if no part of this sweep is "
         "running",
         f.path, (long long)bounds[n], (long long)visits);
    *disjoint = !shared && !was_cut_before(&f, n, false);
    return OK;
}

/* --- the cut --- */

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
