#include "cli/run_stage.h"
#include "stage/await.h"
#include "stage/helper.h"
#include "stage/ledger.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct helper *helper; /* of this process; NULL: none */

static char user[64];

/* --- rank 0 --- */

/* True in rank 0, and in a process that no launcher has started. Slurm's variable is also set in a
 * job's script, where mpirun's counts. */
static bool is_rank_0(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return strcmp(getenv(names[i]), "0") == 0;
    return true;
}

void run_stage_before_mpi(void)
{
    struct err e = {0};
    if (is_rank_0() && helper_start(&helper, &e) != OK) log_trace("stage", "%s", e.text);
}

void run_stage_end(void)
{
    helper_end(helper);
    helper = NULL;
}

enum status run_stage_check(struct err *e)
{
    return helper_check(helper, e);
}

static void sleep_for(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds,
                               .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

/* Has one checkpoint staged; *there: it is. message: why not. */
static enum status stage_row(const struct sweep *s, int64_t model, int64_t row, const char *ledger,
                             bool *there, char message[512], struct err *e)
{
    enum status st = OK;
    const double pause = 0.1;
    json_t *job = NULL, *stage = NULL;
    TRY(plan_stage_row(s, model, row, ledger, user, true, &job, e));
    const json_t *item = json_array_get(json_object_get(job, "items"), 0);
    stage = json_pack("{s:s, s:[O]}", "folder", ledger, "paths", json_object_get(item, "path"));
    TRY(helper_give(helper, job, e));
    enum await_state state;
    while ((state = await_look(stage, message)) == AWAIT_WAITS) {
        TRY(helper_check(helper, e));
        sleep_for(pause);
    }
    *there = state == AWAIT_THERE;
done:
    json_decref(job);
    json_decref(stage);
    return st;
}

static enum status stage_any(const struct sweep *s, int64_t model, const char *ledger,
                             struct err *e)
{
    const struct model_entry *m = &s->models[model];
    char message[512] = "";
    bool there = false;
    log_info("%s: no checkpoint is known yet; staging one, from which the sweep is planned",
             m->name);
    for (int64_t row = 0; row < m->n_stored && !there; row++)
        PASS(stage_row(s, model, row, ledger, &there, message, e));
    NEED(there, ERR_IO, "%s: none of its checkpoints could be staged: %s", m->name, message);
    return OK;
}

enum status run_stage_begin(const struct sweep *s, const struct plan_part *part, struct err *e)
{
    enum status st = OK;
    char *ledger = NULL;
    int64_t model, before = -1;
    const double patience = 120;
    double there = 0;
    if (!plan_stages(s)) {
        run_stage_end();
        return OK;
    }
    ENSURE(helper, ERR_IO, "no process for staging; run under mpirun, srun, or alone");
    plan_stage_user("", part, user);
    TRY(ledger_folder(s->results, &ledger, e));
    for (;;) {
        TRY(plan_stage_lacks(s, ledger, &model, e));
        if (model < 0) break;
        if (model != before) {
            TRY(stage_any(s, model, ledger, e));
            before = model;
            there = clock_seconds();
            continue;
        }
        /* The folder has its name a moment before its size and shape are noted. */
        ENSURE(clock_seconds() - there < patience, ERR_IO,
               "%s: the checkpoint that is there has no config.json", s->models[model].name);
        TRY(helper_check(helper, e));
        sleep_for(0.05);
    }
done:
    free(ledger);
    return st;
}

enum status run_stage_give(const struct plan *p, struct plan_visits *v, const int64_t *ranks,
                           const struct plan_part *part, const struct results_view *view,
                           struct err *e)
{
    enum status st = OK;
    char *ledger = NULL;
    json_t *job = NULL;
    TRY(ledger_folder(p->sweep->results, &ledger, e));
    TRY(plan_stage_job(p, v, ranks, ledger, user, true, &job, e));
    TRY(plan_stage_others(p, part, view, job, e));
    TRY(helper_give(helper, job, e));
done:
    free(ledger);
    json_decref(job);
    return st;
}

void run_stage_end_visit(const struct plan_visit *v)
{
    if (helper && v->turn > 0) helper_end_visit(helper, v->turn - 1);
}

/* --- those who run visits --- */

enum status run_stage_await(const json_t *stage, MPI_Comm group, struct sched_port *port,
                            double left, double *waited, char refusal[512], struct err *e)
{
    const double start = clock_seconds(), longest = 0.5;
    double pause = 0.02;
    int rank;
    *waited = 0;
    refusal[0] = '\0';
    if (!stage) return OK;
    MPI_Comm_rank(group, &rank);
    for (;;) {
        int state = await_look(stage, refusal), all;
        MPI_Allreduce(&state, &all, 1, MPI_INT, MPI_MIN, group);
        if (all == AWAIT_FAILED && !refusal[0])
            snprintf(refusal, 512, "a checkpoint of this visit could not be staged");
        if (all != AWAIT_WAITS) return OK;
        NEED(!sched_should_stop(port), ERR_STOPPED, "stopped while waiting for a checkpoint");
        sched_report(port, "waiting for files", left, *waited, false);
        sleep_for(pause);
        if (pause < longest) pause *= 1.5;
        *waited = clock_seconds() - start;
    }
}
