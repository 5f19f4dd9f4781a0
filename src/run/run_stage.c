#include "run/run_stage.h"
#include "stage/stager.h"
#include "util/clock.h"
#include "util/comm.h"
#include "util/log.h"
#include "util/thread.h"
#include <stdatomic.h>

/* Of rank 0. */
static struct stager *stager;
static pthread_t thread;
static bool runs;
static atomic_bool closing, failed;
static struct err failure;

/* --- rank 0 --- */

static void *work(void *unused)
{
    enum status st = OK;
    while (!closing && st == OK) {
        st = stager_step(stager, NULL, &failure);
        clock_sleep(0.2);
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
    PASS(stager_step(stager, NULL, e));
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

void run_stage_end_visit(void *unused, int64_t visit)
{
    (void)unused;
    if (stager) stager_end_visit(stager, visit);
}

/* --- those who run visits --- */

enum status run_stage_await(const json_t *stage, MPI_Comm group, struct sched_port *port,
                            double left, double *waited, char refusal[512], struct err *e)
{
    const double start = clock_seconds();
    const int rank = comm_rank(group);
    *waited = 0;
    refusal[0] = '\0';
    if (!stage) return OK;
    for (int all = CLAIM_WAITS;;) {
        const int state = stager_ask(stage, rank == 0, refusal);
        MPI_Allreduce(&state, &all, 1, MPI_INT, MPI_MIN, group);
        *waited = clock_seconds() - start;
        if (all == CLAIM_NEVER && !refusal[0])
            snprintf(refusal, 512, "a checkpoint of this visit could not be staged");
        if (all != CLAIM_WAITS) break;
        NEED(!sched_should_stop(port), ERR_STOPPED, "stopped while waiting for a checkpoint");
        sched_report(port, "waiting for files", left, *waited, false);
        clock_sleep(0.2);
    }
    if (rank == 0) log_trace("stage", "%s: waited %.1f s", json_text(stage, "visit", ""), *waited);
    return OK;
}
