#include "train/train_plan.h"
#include "cube/text_table.h"
#include "math/rates.h"
#include "model/sizes.h"
#include "train/train_check.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <math.h>
#include <omp.h>

/* --- simulation --- */

/* When the run can begin; infinite until its parent has begun, and once it has begun itself. */
static double ready(const struct runs *all, int64_t i, const double *seconds, const double *begun)
{
    const struct run *r = &all->runs[i];
    if (isfinite(begun[i])) return INFINITY;
    if (r->parent < 0) return 0;
    const struct run *p = &all->runs[r->parent];
    const double part = (double)(r->first - p->first) / (double)(p->last - p->first);
    return begun[r->parent] + part * seconds[r->parent];
}

enum status train_simulate(const struct runs *all, const bool *wanted, const double *seconds,
                           int64_t groups, double *out, struct err *e)
{
    AUTO_FREE double *free_at = NULL, *begun = NULL; // (groups), (all->n)
    int64_t left = 0;
    *out = 0;
    PASS(mem_zero(&free_at, groups, sizeof *free_at, "groups of ranks", e));
    PASS(mem_alloc(&begun, all->n, sizeof *begun, "runs", e));
    for (int64_t i = 0; i < all->n; i++) {
        begun[i] = INFINITY;
        left += wanted[i];
    }
    for (; left > 0; left--) {
        int64_t group = 0, run = -1;
        for (int64_t g = 1; g < groups; g++)
            if (free_at[g] < free_at[group]) group = g;
        double when = INFINITY; /* of the run that can begin first, if none can now */
        for (int64_t i = 0; i < all->n && when > free_at[group]; i++) {
            const double at = wanted[i] ? ready(all, i, seconds, begun) : INFINITY;
            if (at >= when) continue;
            when = at;
            run = i;
        }
        begun[run] = fmax(when, free_at[group]);
        free_at[group] = begun[run] + seconds[run];
        *out = fmax(*out, free_at[group]);
    }
    return OK;
}

/* --- plan --- */

/* A part of sgemm's rate that steps have reached on models of 1 to 30 million parameters. */
static const double efficiency = 0.5;

struct line {
    struct model_sizes sizes;
    bool done;
    int64_t memory, activations, disk, checkpoints;
    double steps, tokens, flop;
};

/* Of a step: three times the products of a forward pass, those of attention's halves included, and
 * the blocks' forward pass once more for recomputation. */
static double flop_of(const struct model_sizes *s, const struct run *r)
{
    const double tokens = (double)run_step_tokens(r), length = (double)r->recipe->batch.length;
    const double head = (double)(s->shape.vocab * s->shape.hidden);
    const double blocks =
        (double)(s->linears * s->shape.layers) +
        length / 2 * 2 * (double)(s->shape.heads * s->shape.head_dim) * (double)s->shape.layers;
    return 2 * tokens * (4 * blocks + 3 * head);
}

/* Steps of the run at which branches begin whose states it keeps until then. */
static int64_t branch_points(const struct runs *all, const struct run *r, int64_t step)
{
    int64_t n = 0;
    for (const struct run *b = r + 1; b < all->runs + all->n; b++) {
        bool counted = b->parent != r - all->runs || b->first <= step ||
                       (r->recipe->checkpoints.states && run_has_checkpoint(r, b->first));
        for (const struct run *a = r + 1; !counted && a < b; a++)
            counted = a->parent == b->parent && a->first == b->first;
        n += !counted;
    }
    return n;
}

/* What is left of a run. */
static enum status look(const struct runs *all, const struct run *r, const struct run_left *left,
                        const json_t *config, struct line *l, struct err *e)
{
    const struct recipe *recipe = r->recipe;
    const struct hvp_extent extent = {
        .tokens = min64(recipe->batch.micro, recipe->batch.sequences) * recipe->batch.length,
        .sequences = recipe->batch.micro,
        .longest = recipe->batch.length,
        .threads = omp_get_max_threads(),
        .subset = HVP_ALL,
        .products = (enum products)recipe->run.products};
    struct hvp_bytes bytes;
    PASS(model_sizes_read(config, "model", &l->sizes, e));
    const int64_t n = l->sizes.shape.parameters, each = recipe->checkpoints.dtype ? 2 : 4;
    const int moments = optimizers[recipe->optimizer.kind]->moments;
    hvp_bytes_of(&l->sizes.spec, &extent, &bytes);
    l->activations = bytes.gradient;
    l->memory = trainer_bytes(n, moments, 1) + bytes.gradient;
    l->done = left->end != RUN_OPEN;
    l->checkpoints = run_checkpoints(r, r->first);
    if (l->done) return OK;
    const int64_t to_write = run_checkpoints(r, left->step);
    const int64_t states =
        1 + (recipe->checkpoints.states ? to_write : 0) + branch_points(all, r, left->step);
    l->disk = to_write * n * each + (r->parent < 0 && left->step == 0 ? 4 * n : 0) +
              4 * n * (1 + moments) * states;
    l->steps = (double)(r->last - left->step);
    l->tokens = l->steps * (double)run_step_tokens(r);
    l->flop = l->steps * flop_of(&l->sizes, r);
    return OK;
}

static void add_row(struct table *t, const struct run *r, const struct run_left *left,
                    const struct line *l, double seconds)
{
    char steps[64], tokens[QUANTITY], n[QUANTITY], memory[QUANTITY], disk[QUANTITY], time[QUANTITY];
    const char *const end = left->end == RUN_DIVERGED ? "diverged" : "done";
    snprintf(steps, sizeof steps, "%lld to %lld", (long long)left->step + 1, (long long)r->last);
    quantity_count(l->tokens, tokens);
    quantity_count((double)l->sizes.shape.parameters, n);
    quantity_prefix((double)l->memory, memory);
    quantity_prefix((double)l->disk, disk);
    quantity_time(seconds, time);
    const char *const cells[] = {r->name, l->done ? end : steps, l->done ? end : tokens, n, NULL,
                                 memory,  l->done ? end : disk,  l->done ? end : time};
    table_add_texts(t, cells);
    table_set(t, 4, "%lld", (long long)l->checkpoints);
}

/* What all runs take that are left. */
struct sum {
    double tokens, disk, seconds;
    int64_t left, failing, ended;
};

struct planning {
    struct train_job job;
    const struct train_plan_options *options;
    double rate;           /* GFLOP/s of a rank */
    double *seconds;       // (runs) of what is left of each on one rank
    struct run_left *left; // (runs)
    struct faults faults;
    struct table table;
    struct sum sum;
};

static enum status check_memory(struct planning *p, int64_t i, const struct line *l, struct err *e)
{
    const struct run *r = &p->job.runs->runs[i];
    char need[QUANTITY], has[QUANTITY], line[200];
    const int64_t most = p->options->memory, given = r->recipe->run.ranks;
    /* Of those that train a run together at most, beside each other. */
    const int64_t ranks = given ? min64(given, p->options->ranks) : p->options->ranks;
    const int64_t least =
        trainer_bytes(l->sizes.shape.parameters, optimizers[r->recipe->optimizer.kind]->moments,
                      (int)ranks) +
        l->activations;
    if (!most || l->done || least <= most) return OK;
    quantity_prefix((double)least, need);
    quantity_prefix((double)most, has);
    p->left[i].failing = true;
    snprintf(line, sizeof line,
             "needs %sB of memory, where a rank has %sB: start fewer ranks on a node, or make "
             "batch.micro smaller",
             need, has);
    return faults_add(&p->faults, "run", r->name, line, e);
}

/* The row of a run. What is wrong with its settings, the check has told. */
static enum status add_run(struct planning *p, int64_t i, struct err *e)
{
    const struct run *r = &p->job.runs->runs[i];
    json_auto_t *config = NULL, *settings = NULL;
    struct line l = {0};
    struct err why = {0};
    enum status st = train_settings(&p->job, r, &config, &settings, &why);
    if (st == OK) st = look(p->job.runs, r, &p->left[i], config, &l, &why);
    if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
    err_clear(&why);
    if (st == OK) {
        const double seconds = l.flop / (1e9 * p->rate * efficiency);
        add_row(&p->table, r, &p->left[i], &l, seconds);
        p->sum.tokens += l.tokens;
        p->sum.disk += (double)l.disk;
        p->sum.seconds += seconds;
        p->seconds[i] = seconds;
        PASS(check_memory(p, i, &l, e));
    }
    p->sum.ended += p->left[i].end != RUN_OPEN;
    p->sum.left += p->left[i].end == RUN_OPEN;
    p->sum.failing += p->left[i].failing && p->left[i].end == RUN_OPEN;
    return OK;
}

static enum status check_disk(struct planning *p, struct err *e)
{
    const char *output = p->job.runs->recipes[0].output;
    const int64_t there = folder_free_bytes(output);
    char need[QUANTITY], has[QUANTITY], line[1200];
    if (there < 0 || p->sum.disk <= (double)there) return OK;
    quantity_prefix(p->sum.disk, need);
    quantity_prefix((double)there, has);
    snprintf(line, sizeof line, "output: %s: %sB are to be written, and %sB are free there", output,
             need, has);
    return faults_add(&p->faults, "run", "", line, e);
}

static enum status print_all(const struct planning *p, struct err *e)
{
    char count[QUANTITY], bytes[QUANTITY], time[QUANTITY], rate[QUANTITY];
    const struct sum *s = &p->sum;
    const int64_t ranks = p->options->ranks;
    PASS(table_print(&p->table, table_page_width(stdout), stdout, e));
    quantity_count(s->tokens, count);
    quantity_prefix(s->disk, bytes);
    quantity_time(s->seconds / (double)ranks, time);
    quantity_plain(p->rate, 3, rate);
    printf("%s: %s tokens, %sB on disk, about %s with %lld rank%s of %s GFLOP/s\n",
           s->ended ? "left" : "all", count, bytes, time, (long long)ranks, quantity_plural(ranks),
           rate);
    PASS(faults_say(&p->faults, log_warn, e));
    if (s->failing)
        log_warn("%lld of %lld run%s left would fail", (long long)s->failing, (long long)s->left,
                 quantity_plural(s->left));
    return OK;
}

/* A line for each number of ranks. */
static enum status print_simulated(const struct planning *p, struct err *e)
{
    const struct runs *runs = p->job.runs;
    AUTO_FREE double *seconds = NULL;
    double all;
    char time[QUANTITY], *end;
    PASS(mem_alloc(&seconds, runs->n, sizeof *seconds, "a simulation", e));
    for (const char *at = p->options->simulate; *at; at = *end == ',' ? end + 1 : end) {
        const long ranks = strtol(at, &end, 10);
        NEED(end != at && (*end == ',' || *end == '\0') && ranks >= 1 && ranks <= 1000000,
             ERR_USAGE, "--simulate %s: expected numbers of ranks from 1 to 1000000, as in 1,16",
             p->options->simulate);
        const int64_t group = train_group_size(&p->job, ranks);
        const double speed = (double)group * p->options->efficiency(group);
        for (int64_t i = 0; i < runs->n; i++) seconds[i] = p->seconds[i] / speed;
        PASS(train_simulate(runs, p->job.wanted, seconds, ranks / group, &all, e));
        quantity_time(all, time);
        printf("simulated: %ld rank%s, %lld to a run: %s\n", ranks, quantity_plural(ranks),
               (long long)group, time);
    }
    return OK;
}

static enum status find_rate(struct planning *p, struct err *e)
{
    struct linalg_rates measured;
    p->rate = p->options->rate;
    if (p->rate > 0) return OK;
    PASS(linalg_rates_measure(0.2, &measured, e));
    p->rate = 1e-9 * measured.sgemm;
    return OK;
}

enum status train_plan_print(struct runs *runs, const struct train_plan_options *o,
                             enum train_plan_verdict *out, struct err *e)
{
    static const char *const heads[] = {"run",         "steps",  "tokens", "parameters",
                                        "checkpoints", "memory", "disk",   "time of a rank"};
    enum status st = OK;
    struct planning p = {.job = {.runs = runs, .wanted = o->wanted},
                         .options = o,
                         .table = {.columns = 8, .left = 1, .align_left = {true}}};
    TRY(mem_zero(&p.job.sources, runs->n_recipes, sizeof *p.job.sources, "a plan", e));
    TRY(mem_zero(&p.left, runs->n, sizeof *p.left, "a plan", e));
    TRY(mem_zero(&p.seconds, runs->n, sizeof *p.seconds, "a plan", e));
    table_add_texts(&p.table, heads);
    TRY(find_rate(&p, e));
    TRY(train_check_all(&p.job, p.left, &p.faults, e));
    for (int64_t i = 0; i < runs->n; i++)
        if (o->wanted[i]) TRY(add_run(&p, i, e));
    TRY(check_disk(&p, e));
    TRY(print_all(&p, e));
    if (o->simulate) TRY(print_simulated(&p, e));
    *out = !p.faults.n                                 ? TRAIN_PLAN_GOOD
           : p.sum.left && p.sum.failing == p.sum.left ? TRAIN_PLAN_ALL_FAIL
                                                       : TRAIN_PLAN_SOME_FAIL;
done:
    table_free(&p.table);
    faults_free(&p.faults);
    free(p.left);
    free(p.seconds);
    free(p.job.sources);
    return st;
}
