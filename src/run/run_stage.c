#include "run/run_stage.h"
#include "stage/stager.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/thread.h"
#include <stdatomic.h>

/* Of rank 0. */
static struct stager *stager;
static pthread_t thread;
static bool runs;
static atomic_bool closing, failed;
static struct err failure;

/* --- before the plan --- */

/* *known = the row's checkpoint is there; else message says why it is not to be had. */
static enum status stage_row(const struct sweep *s, int64_t model, int64_t row,
                             const struct plan_part *part, bool uses, bool *known,
                             char message[512], struct err *e)
{
    enum status st = OK;
    enum claim claim;
    json_t *job = NULL, *visit = NULL;
    struct stager *own = NULL;
    TRY(plan_stage_row(s, model, row, part, uses, &job, e));
    visit = json_incref(json_array_get(json_object_get(job, "visits"), 0));
    TRY(stager_open(job, &own, e));
    do {
        ENSURE(!sched_must_end(), ERR_STOPPED, "stopped while a checkpoint is fetched");
        TRY(stager_step(own, e));
        clock_sleep(0.02);
    } while ((claim = stager_ask(visit, true, message)) == CLAIM_WAITS);
    *known = claim == CLAIM_LEASED;
done:
    stager_close(own);
    json_decref(visit);
    return st;
}

enum status run_stage_first(const struct sweep *s, const struct plan_part *part, bool uses,
                            struct err *e)
{
    for (int64_t i = 0; i < s->n_models; i++) {
        char message[512] = "";
        bool known;
        PASS(plan_stage_known(s, i, &known, e));
        for (int64_t row = 0; !known; row++) {
            NEED(row < s->models[i].n_stored, ERR_IO,
                 "%s: none of its checkpoints could be staged: %s", s->models[i].name, message);
            PASS(stage_row(s, i, row, part, uses, &known, message, e));
        }
    }
    return OK;
}

/* --- rank 0 --- */

static void *work(void *unused)
{
    enum status st = OK;
    while (!closing && st == OK) {
        st = stager_step(stager, &failure);
        clock_sleep(0.02);
    }
    failed = st != OK;
    return unused;
}

enum status run_stage_begin(const struct plan *p, struct plan_visits *v,
                            const struct plan_part *part, struct err *e)
{
    json_t *job = NULL;
    if (!plan_stages(p->sweep)) return OK;
    PASS(plan_stage_job(p, v, part, true, &job, e));
    PASS(stager_open(job, &stager, e));
    PASS(stager_step(stager, e));
    runs = thread_start(work, NULL, &thread);
    NEED(runs, ERR_NOMEM, "no thread for staging");
    return OK;
}

void run_stage_end(void)
{
    closing = true;
    if (runs) pthread_join(thread, NULL);
    if (failed) log_error("staging: %s", failure.text);
    stager_close(stager);
    stager = NULL;
}

enum status run_stage_check(struct err *e)
{
    NEED(!failed, failure.code, "%s", failure.text);
    return OK;
}

void run_stage_end_visit(int64_t visit)
{
    if (stager) stager_end_visit(stager, visit);
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
    for (int all = CLAIM_WAITS;;) {
        const int state = stager_ask(stage, rank == 0, refusal);
        MPI_Allreduce(&state, &all, 1, MPI_INT, MPI_MIN, group);
        *waited = clock_seconds() - start;
        if (all == CLAIM_NEVER && !refusal[0])
            snprintf(refusal, 512, "a checkpoint of this visit could not be staged");
        if (all != CLAIM_WAITS) break;
        NEED(!sched_should_stop(port), ERR_STOPPED, "stopped while waiting for a checkpoint");
        sched_report(port, "waiting for files", left, *waited, false);
        clock_sleep(pause);
        if (pause < longest) pause *= 1.5;
    }
    if (rank == 0) log_trace("stage", "%s: waited %.1f s", json_text(stage, "visit", ""), *waited);
    return OK;
}
