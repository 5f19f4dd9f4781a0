/* qtraj train: trains the models of a runs file. */
#include "cli/args.h"
#include "cli/cli.h"
#include "run/plan_report.h"
#include "run/run_until.h"
#include "sched/sched.h"
#include "train/train_all.h"
#include "train/train_plan.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/comm.h"
#include "util/log.h"
#include "util/mem.h"
#include <fnmatch.h>
#include <math.h>
#include <sys/time.h>

static double ends = INFINITY; /* clock_seconds */

static bool must_stop(void)
{
    return sched_must_end() || clock_seconds() >= ends;
}

/* Runs with one of these names, and those that they branch from; no pattern: all. */
static enum status choose(const struct runs *r, const struct texts *only, bool **wanted,
                          struct err *e)
{
    PASS(mem_zero(wanted, r->n, sizeof **wanted, "runs", e));
    for (int64_t k = 0; k < only->n; k++) {
        bool found = false;
        for (int64_t i = 0; i < r->n; i++) {
            if (fnmatch(only->text[k], r->runs[i].name, 0) != 0) continue;
            found = true;
            for (int64_t at = i; at >= 0; at = r->runs[at].parent) (*wanted)[at] = true;
        }
        NEED(found, ERR_USAGE, "--only %s: no run has such a name; the first is %s", only->text[k],
             r->runs[0].name);
    }
    for (int64_t i = 0; only->n == 0 && i < r->n; i++) (*wanted)[i] = true;
    return OK;
}

static enum status limit_time(const char *until, struct err *e)
{
    double when;
    struct timeval now;
    PASS(run_until_find(until, &when, e));
    gettimeofday(&now, NULL);
    const double left = when - (double)now.tv_sec,
                 reserve = isfinite(left) ? fmin(60, left / 50) : 0;
    ends = clock_seconds() + left - reserve; /* the last state needs a while */
    return OK;
}

/* The sweep behind the training, by the same ranks. Collective on world. */
static enum status sweep(struct call *c, char *path, char *until, struct err *e)
{
    char name[] = "run", flag[] = "--until";
    char *argv[] = {c->argv[-1], name, path, flag, until};
    struct call run = *c;
    const int code = c->code;
    run.command = &cmd_run;
    run.argc = until ? 4 : 2;
    run.argv = argv + 1;
    PASS(cmd_run.run(&run, e));
    c->detached = run.detached;
    c->later = run.later;
    c->code = run.code ? run.code : code;
    return OK;
}

static enum status train(struct call *c, struct runs *r, const bool *wanted, char *until,
                         struct err *e)
{
    struct train_totals t;
    struct train_job job = {.runs = r,
                            .wanted = wanted,
                            .must_stop = must_stop,
                            .memory = cli_memory() / 2,
                            .world = c->world};
    sched_catch_signals();
    mem_keep_freed();
    PASS(train_all(&job, &t, e));
    if (t.done < t.wanted) c->code = EXIT_CELLS_FAILED;
    if (comm_rank(c->world) == 0)
        log_info("%s: %lld of %lld runs done, %lld diverged, %lld not trained",
                 r->recipes[0].output, (long long)t.done, (long long)t.wanted,
                 (long long)t.diverged, (long long)(t.wanted - t.done - t.diverged));
    const bool all = t.wanted == r->n && t.done + t.diverged == t.wanted;
    return all && r->recipes[0].then ? sweep(c, r->recipes[0].then, until, e) : OK;
}

static enum status plan_runs(struct call *c, struct runs *r, const bool *wanted, const char *rate,
                             const char *simulate, struct err *e)
{
    static const int codes[] = {EXIT_DONE, EXIT_CELLS_FAILED, EXIT_BAD_INPUT};
    enum train_plan_verdict verdict;
    const struct train_plan_options o = {.wanted = wanted,
                                         .ranks = comm_size(c->world),
                                         .memory = rate ? 0 : cli_memory(),
                                         .rate = rate ? atof(rate) : 0,
                                         .simulate = simulate,
                                         .efficiency = plan_report_efficiency};
    PASS(train_plan_print(r, &o, &verdict, e));
    c->code = codes[verdict];
    return OK;
}

static enum status run(struct call *c, struct err *e)
{
    const char *path, *until = NULL, *rate = NULL, *simulate = NULL;
    bool plan = false;
    AUTO_FREE bool *wanted = NULL;
    CLEANUP(runs_free) struct runs runs = {0};
    CLEANUP(texts_free) struct texts set = {0}, only = {0};
    const struct arg table[] = {
        {"--set", ARG_LIST, &set, "KEY=VALUE", "override a key of the runs file"},
        {"--only", ARG_LIST, &only, "NAME",
         "only runs whose name matches, as in 'peak1e-3-*', and those that they branch from"},
        {"--until", ARG_TEXT, &until, "TIME",
         "when it must have ended, as of qtraj run; in a Slurm job, its end if that is earlier"},
        {"--plan", ARG_SWITCH, &plan, NULL,
         "only print steps, tokens, memory, disk and time of each run, and what would fail"},
        {"--rate", ARG_TEXT, &rate, "GFLOPS",
         "sgemm's rate of a rank elsewhere, instead of what is measured here"},
        {"--simulate", ARG_TEXT, &simulate, "RANKS[,RANKS...]",
         "how long so many ranks take, branches waiting for their runs"},
    };
    static const struct arg_with with[] = {{"--rate", "--plan"}, {"--simulate", "--plan"}, {0}};
    const struct args args = {ARGS(table), .with = with};
    PASS(args_parse(&args, c, &path, 1, e));
    if (c->help) return OK;
    enum status st = runs_read(path, texts_list(&set), set.n, &runs, e);
    if (st == OK) st = choose(&runs, &only, &wanted, e);
    if (st == OK) st = limit_time(until, e);
    if (st == OK && plan && comm_rank(c->world) == 0)
        st = plan_runs(c, &runs, wanted, rate, simulate, e);
    PASS(err_agree(c->world, st, e));
    if (plan) return OK;
    return train(c, &runs, wanted, (char *)(uintptr_t)until, e);
}

const struct command cmd_train = {
    .name = "train",
    .arguments =
        "RUNS.yaml [--only NAME] [--set KEY=VALUE] [--until TIME] [--plan [--rate GFLOPS] ...]",
    .doc = "train models by a file of runs, into checkpoints that a sweep reads",
    .all_ranks = true,
    .run = run,
};
