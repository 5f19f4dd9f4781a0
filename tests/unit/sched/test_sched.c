/* NP: 1 2 3 6
 * Every job runs exactly once, results reach the master, failures end the run on all ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/link.h"
#include "sched/sched.h"
#include "util/agree.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { JOBS = 200, RESULTS_A_JOB = 3 };

static int world_rank, world_size;
static struct link *watched;

struct sink {
    int count[JOBS];
    int64_t results, ticks;
    int64_t fail_at; /* result at which accept fails; 0: never */
    bool signalled;  /* raise SIGUSR1 at the tenth result */
    int64_t told,
        reported; /* how often it was told how far the run is, and that a job is half done */
};

static enum status accept(void *context, const char *result, struct err *e)
{
    enum status st = OK;
    struct sink *s = context;
    s->count[atoi(result)]++;
    s->results++;
    if (s->signalled && s->results == 10) raise(SIGUSR1);
    ENSURE(s->results != s->fail_at, ERR_FULL, "disk full");
done:
    return st;
}

static enum status tick(void *context, struct err *e)
{
    (void)e;
    ((struct sink *)context)->ticks++;
    return OK;
}

static double watch(void *context, const struct sched_progress *p)
{
    struct sink *s = context;
    s->told++;
    assert_true(p->left >= 0 && p->n <= world_size);
    for (int64_t i = 0; i < p->n; i++) {
        assert_non_null(p->running[i].name);
        assert_true(p->running[i].seconds >= 0);
        assert_true(i == 0 || p->running[i].seconds <= p->running[i - 1].seconds);
        if (strcmp(p->running[i].what, "half done") == 0 && p->left > 0) s->reported++;
    }
    return 0.1;
}

/* Number of ranks that every job asks for; 1 to 5; 3 or 4. */
enum { MIXED = 0, LARGE = -1 };
static int64_t asked;

static int64_t ranks_wanted(int job)
{
    if (asked == LARGE) return 3 + job % 2;
    return asked == MIXED ? 1 + job % 5 : asked;
}

/* One result for each part. */
static enum status work(void *context, MPI_Comm group, const struct sched_batch *batch,
                        struct sched_port *port, struct err *e)
{
    enum status st = OK;
    const char *job = batch->text;
    int64_t results = batch->n_parts ? batch->n_parts : RESULTS_A_JOB;
    int sum = 0, one = 1, size;
    MPI_Comm_size(group, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, group); /* all ranks of the group are here */
    ENSURE(sum == size, ERR_MPI, "group of %d met %d", size, sum);
    int64_t wanted = ranks_wanted(atoi(job)), workers = world_size > 1 ? world_size - 1 : 1;
    if (wanted > workers) wanted = workers;
    /* Ranks left over when there are no smaller jobs enlarge a group: five ranks work together on
     * jobs of three or four. */
    ENSURE(size == wanted || (asked > 0 && size > wanted && size < 2 * wanted) ||
               (asked == LARGE && size == workers),
           ERR_MPI, "job %s wants %lld ranks and has %d", job, (long long)wanted, size);
    ENSURE(asked != LARGE || workers >= 6 || size == workers, ERR_MPI, "%lld of %lld ranks idle",
           (long long)(workers - size), (long long)workers);
    sched_report(port, "half done", 1, 0.5, true);
    if (sched_should_stop(port)) return ERR_STOPPED;
    ENSURE(context == NULL || strcmp(job, context) != 0, ERR_NUMERIC, "job %s broke", job);
    for (int64_t i = 0; i < results; i++) TRY(sched_send(port, job, e));
done:
    return st;
}

static struct sched_job *jobs_new(void)
{
    struct sched_job *jobs = calloc(JOBS, sizeof *jobs);
    for (int i = 0; i < JOBS; i++) {
        jobs[i].cost = i % 17;
        jobs[i].text = calloc(1, 16);
        snprintf(jobs[i].text, 16, "%d", i);
        jobs[i].name = jobs[i].text;
        jobs[i].files = i % 50;
        if (i % 2 == 0) continue; /* every second one has parts */
        jobs[i].n_parts = RESULTS_A_JOB;
        jobs[i].parts = calloc(RESULTS_A_JOB, sizeof *jobs[i].parts);
        jobs[i].parts[i % RESULTS_A_JOB] = 1000 * i;
        jobs[i].kind = i % 3;
    }
    return jobs;
}

static void jobs_free(struct sched_job *jobs)
{
    for (int i = 0; i < JOBS; i++) {
        free(jobs[i].text);
        free(jobs[i].parts);
    }
    free(jobs);
}

/* All ranks get the status and the outcome of rank 0. */
static enum status run_jobs(struct sched_job *jobs, int64_t n, const struct sched_work *w,
                            const struct sched_sink *sink, struct sched_outcome *outcome,
                            struct err *e)
{
    const struct sched_rescue rescue = {.link = watched};
    enum status st = sched_run(MPI_COMM_WORLD, jobs, n, w, sink, &rescue, outcome, e);
    st = err_agree(MPI_COMM_WORLD, st, e);
    MPI_Bcast(outcome, sizeof *outcome, MPI_BYTE, 0, MPI_COMM_WORLD);
    return st;
}

static enum status run(int64_t ranks_per_group, struct sink *s, char *broken,
                       struct sched_outcome *outcome, struct err *e)
{
    struct sched_job *jobs = jobs_new();
    struct sched_work w = {.run = work, .context = broken};
    struct sched_sink sink = {.accept = accept, .tick = tick, .progress = watch, .context = s};
    asked = ranks_per_group;
    for (int i = 0; i < JOBS; i++) jobs[i].ranks = ranks_wanted(i);
    enum status st = run_jobs(jobs, JOBS, &w, &sink, outcome, e);
    jobs_free(jobs);
    return st;
}

/* Groups of 1, 2 and 4 ranks, leftovers included, and of sizes mixed: each result once. */
static void every_job_runs_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {4, 2, 1, MIXED, LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t ranks = sizes[i];
        struct sink s = {0};
        struct sched_outcome outcome;
        struct err e = {0};
        assert_int_equal(run(ranks, &s, NULL, &outcome, &e), OK);
        assert_int_equal(outcome.end, SCHED_DONE);
        assert_int_equal(outcome.finished, JOBS);
        if (world_rank != 0) continue;
        assert_int_equal(s.results, JOBS * RESULTS_A_JOB);
        for (int k = 0; k < JOBS; k++) assert_int_equal(s.count[k], RESULTS_A_JOB);
        assert_true(s.ticks > 0);
        assert_true(s.told > 0);
    }
}

static void a_failing_sink_ends_the_run(void **state)
{
    (void)state;
    struct sink s = {.fail_at = 20};
    struct sched_outcome outcome;
    struct err e = {0};
    enum status st = run(1, &s, NULL, &outcome, &e);
    assert_int_equal(st, ERR_FULL);
    assert_non_null(strstr(e.text, "disk full"));
    if (world_rank == 0) assert_int_equal(s.results, 20);
}

static void a_broken_job_ends_the_run_with_its_text(void **state)
{
    (void)state;
    struct sink s = {0};
    struct sched_outcome outcome;
    struct err e = {0};
    char broken[] = "77";
    assert_int_equal(run(2, &s, broken, &outcome, &e), ERR_NUMERIC);
    assert_non_null(strstr(e.text, "job 77 broke"));
}

static enum status sleep_work(void *context, MPI_Comm group, const struct sched_batch *batch,
                              struct sched_port *port, struct err *e)
{
    (void)group;
    *(bool *)context = true;
    sched_report(port, "half done", 2, 0, true);
    sleep(2);
    return sched_send(port, batch->text, e);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* While one group works, the master and all other groups wait for it and for the end. */
static void waiting_costs_no_core(void **state)
{
    (void)state;
    bool worked = false;
    struct sink s = {0};
    struct sched_outcome outcome;
    struct err e = {0};
    char text[] = "0";
    struct sched_job job = {.text = text, .name = text, .cost = 1, .ranks = 2};
    struct sched_work w = {.run = sleep_work, .context = &worked};
    struct sched_sink sink = {.accept = accept, .tick = tick, .progress = watch, .context = &s};
    MPI_Barrier(MPI_COMM_WORLD);
    double start = cpu_seconds();
    assert_int_equal(run_jobs(&job, 1, &w, &sink, &outcome, &e), OK);
    double spent = cpu_seconds() - start;
    print_message("rank %d %s 2 s with %.3f s of CPU\n", world_rank, worked ? "slept" : "waited",
                  spent);
    assert_true(spent < 0.3);
    /* Meanwhile the master knows what the group does. */
    if (world_rank == 0 && world_size > 1) assert_true(s.reported > 5);
}

/* Last, because the signal's flag is never reset. */
static void usr1_drains(void **state)
{
    (void)state;
    struct sink s = {.signalled = true};
    struct sched_outcome outcome;
    struct err e = {0};
    sched_catch_signals();
    assert_int_equal(run(1, &s, NULL, &outcome, &e), OK);
    assert_int_equal(outcome.end, SCHED_DRAINED);
    assert_true(outcome.finished < JOBS);
    if (world_rank == 0) assert_true(s.results >= outcome.finished * RESULTS_A_JOB);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    struct err e = {0};
    if (link_open(MPI_COMM_WORLD, NULL, NULL, &watched, &e) != OK) return 1;
    if (world_size > 1 && !watched) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_runs_once),
        cmocka_unit_test(a_failing_sink_ends_the_run),
        cmocka_unit_test(a_broken_job_ends_the_run_with_its_text),
        cmocka_unit_test(waiting_costs_no_core),
        cmocka_unit_test(usr1_drains),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    link_bye(watched);
    MPI_Finalize();
    return failed;
}
