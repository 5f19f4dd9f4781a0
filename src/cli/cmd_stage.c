/* qtraj stage: fetches the checkpoints that a sweep still needs, ahead of the runs that use them.
 */
#include "cli/run_arguments.h"
#include "plan/plan_parts.h"
#include "run/run_stage.h"
#include "stage/stager.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/quantity.h"

struct stage {
    struct run_arguments arguments;
    bool no_wait;
    struct sweep sweep;
    struct plan plan;
    struct plan_visits visits;
};

/* Fetches until nothing is left; *code as the command's. */
static enum status fetch_all(const struct stage *t, json_t *job, int *code, struct err *e)
{
    enum status st = OK;
    struct stager *s = NULL;
    struct stager_counts n;
    bool told = false;
    TRY(stager_open(job, &s, e));
    do {
        TRY(stager_step(s, e));
        n = stager_count(s);
        if (n.full && !told)
            log_info("run.stage_space is used up after %lld of %lld checkpoints; waiting for runs "
                     "to remove those that they need no longer",
                     (long long)n.there, (long long)n.items);
        told = told || n.full;
        clock_sleep(0.05);
    } while (n.left > 0 && !(n.full && t->no_wait) && !sched_must_end());
    *code = sched_must_end() ? EXIT_STOPPED : n.failed ? EXIT_CELLS_FAILED : EXIT_DONE;
    log_info("%s: %lld of %lld checkpoint%s staged, %lld failed%s", t->sweep.results,
             (long long)n.there, (long long)n.items, quantity_plural(n.items), (long long)n.failed,
             sched_must_end() ? "; stopped"
             : n.full         ? "; no space for more"
                              : "");
done:
    stager_close(s);
    return st;
}

/* The visits that are still to be run, as far as the sweep's journals tell. */
static enum status find_visits(struct stage *t, struct err *e)
{
    enum status st = OK;
    struct plan_choice *choice = &t->arguments.choice;
    struct results_view *view = NULL;
    TRY(plan_make(&t->sweep, false, &t->plan, e));
    TRY(plan_choice_match(&t->plan, choice, e));
    TRY(plan_part_find(&t->plan, true, &choice->part, e));
    TRY(run_arguments_view(&t->sweep, &choice->part, &view, e));
    TRY(plan_visits_make(&t->plan, view, choice, &t->visits, e));
done:
    results_view_close(view);
    return st;
}

static enum status run(struct call *c, struct err *e)
{
    enum status st = OK;
    struct stage t = {0};
    const struct plan_part *part = &t.arguments.choice.part;
    json_t *job = NULL;
    const struct arg more[] = {
        {"--no-wait", ARG_SWITCH, &t.no_wait, NULL,
         "end when run.stage_space is used up, instead of waiting for runs to remove checkpoints"},
    };
    TRY(run_arguments(&t.arguments, c, more, 1, e));
    if (c->help) goto done;
    TRY(sweep_read(t.arguments.path, (const char *const *)t.arguments.set.items, t.arguments.set.n,
                   &t.sweep, e));
    ENSURE(plan_stages(&t.sweep), ERR_USAGE,
           "%s: no model has a `stage`, there is nothing to fetch", t.arguments.path);
    sched_catch_signals();
    TRY(run_stage_first(&t.sweep, part, false, e));
    TRY(find_visits(&t, e));
    TRY(plan_stage_job(&t.plan, &t.visits, part, false, &job, e));
    TRY(fetch_all(&t, job, &c->code, e));
done:
    plan_visits_free(&t.visits);
    plan_free(&t.plan);
    sweep_free(&t.sweep);
    run_arguments_free(&t.arguments);
    return st;
}

const struct command cmd_stage = {
    .name = "stage",
    .arguments = "SWEEP.yaml [--part K/N] [--only KEY=PATTERN] [--no-wait] ...",
    .doc = "fetch the checkpoints of a sweep ahead of its runs, as `stage` of its models says",
    .without_mpi = true,
    .run = run,
};
