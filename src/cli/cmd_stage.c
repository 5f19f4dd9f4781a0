/* qtraj stage: fetches the checkpoints that a sweep still needs, ahead of the runs that use them.
 */
#include "cli/run_arguments.h"
#include "plan/plan_parts.h"
#include "run/run_master.h"
#include "sched/sched.h"
#include "stage/stager.h"
#include "util/clock.h"
#include "util/log.h"

static enum status run(struct call *c, struct err *e)
{
    CLEANUP(run_arguments_free) struct run_arguments a = {0};
    struct plan_choice *choice = &a.choice;
    CLEANUP(sweep_free) struct sweep sweep = {0};
    CLEANUP(plan_free) struct plan plan = {0};
    CLEANUP(plan_visits_free) struct plan_visits visits = {0};
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    CLEANUP(stager_close_at) struct stager *s = NULL;
    struct stager_counts n;
    json_t *job = NULL;
    bool no_wait = false;
    const struct arg more = {
        "--no-wait", ARG_SWITCH, &no_wait, NULL,
        "end when run.stage_space is used up, instead of waiting for runs to remove checkpoints"};
    PASS(run_arguments(&a, c, &more, 1, e));
    if (c->help) return OK;
    PASS(run_read_sweep(a.path, a.set.text, a.set.n, a.so_far, &sweep, e));
    NEED(plan_stages(&sweep), ERR_USAGE, "%s: no `stage`, so there is nothing to fetch", a.path);
    sched_catch_signals();
    PASS(plan_make(&sweep, false, &plan, e));
    PASS(plan_choice_match(&plan, choice, e));
    PASS(plan_part_find(&plan, true, &choice->part, e));
    PASS(run_arguments_view(&sweep, &choice->part, &view, e));
    PASS(plan_former(&plan, view, e));
    PASS(plan_visits_make(&plan, view, choice, &visits, e));
    PASS(plan_stage_job(&plan, &visits, &choice->part, false, &job, e));
    PASS(stager_open(job, &s, e));
    do {
        PASS(stager_step(s, &n, e));
        clock_sleep(0.2);
    } while (n.left > 0 && !(n.full && no_wait) && !sched_must_end());
    c->code = sched_must_end() ? EXIT_STOPPED : n.failed ? EXIT_CELLS_FAILED : EXIT_DONE;
    log_info("%lld of %lld checkpoints staged, %lld failed%s", (long long)n.there,
             (long long)n.items, (long long)n.failed,
             sched_must_end() ? "; stopped"
             : n.full         ? "; no space for more"
                              : "");
    return OK;
}

const struct command cmd_stage = {
    .name = "stage",
    .arguments = "SWEEP.yaml [--part K/N] [--only KEY=PATTERN] [--no-wait] ...",
    .doc = "fetch the checkpoints of a sweep ahead of its runs, as `stage` of its models says",
    .without_mpi = true,
    .run = run,
};
