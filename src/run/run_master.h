/* run_master: the work of rank 0 in `qtraj run`: plans, makes jobs, writes results to the journal
 * and rewrites the cube. */
#pragma once
#include "plan/plan.h"
#include "run/progress.h"
#include "run/run_compose.h"
#include "run/run_journal.h"
#include "run/run_lost_ranks.h"
#include "sched/link.h"
#include "sched/sched.h"
#include "util/limits.h"

/* Zero-initialise; free with run_master_free. What is asked for is set on every rank, the rest on
 * rank 0. */
struct run_master {
    const char *sweep_path;
    char *const *set; // (n_set) overrides of the sweep file's keys
    int64_t n_set;
    struct plan_choice choice;
    bool so_far;                       /* of the checkpoints that are there (run_read_sweep) */
    bool adopt;                        /* also results of another sweep (owner.h) */
    char **argv;                       /* the command, for processes that replace a lost rank */
    struct link *link;                 /* to the other ranks; NULL: nobody watches */
    char (*shares)[LIMITS_SHARE_TEXT]; // (ranks) cli_share_write of each
    bool single_process;               /* the only rank: master and worker */
    bool visiting;                     /* single_process and in a visit, which may use all memory */
    struct plan_rank worker;           /* minimum over the workers, and their number */
    struct cost_rates rates;           /* of a worker, measured */
    struct sweep sweep;
    struct plan plan;
    char *results; /* of the sweep, or of its part */
    struct run_journal out;
    struct run_compose compose;
    struct plan_visits visits;
    struct sched_job *jobs; // (visits.n)
    int64_t *losses;        // (visits.n) ranks lost in each, since something of it was done
    struct run_delivered delivered;
    json_t *stale; /* {key: true} of results of other weights that no visit has made again */
    bool unsynced, cube_stale;                 /* records not yet durable; not yet in the cube */
    double unsynced_since;                     /* clock_seconds */
    struct progress_count waiting[MEASURES_N]; /* records that are not durable yet */
    double cube_written, cube_seconds; /* clock_seconds of the last time, and how long it took */
    struct progress progress;
    double progress_due; /* clock_seconds of its next line */
    json_t *running;     /* the visits that status tells of, as they were written last */
    double epoch;        /* seconds since 1970 when clock_seconds was 0; 0: not yet known */
};
/* exit_code: that the run ends with, for the journal if it has no end record yet. */
void run_master_free(struct run_master *m, int exit_code);

/* The sweep; so_far: of the checkpoints that are there (plan_read_so_far). ERR_USAGE also: none. */
MUST_USE enum status run_read_sweep(const char *path, char *const *set, int64_t n, bool so_far,
                                    struct sweep *out, struct err *e);

/* Before the jobs run (run_prepare.c): reads the sweep, takes the lock, opens the journal and
 * makes the jobs for missing cells. Needs what is asked for, m->worker and m->rates; argv is for
 * the provenance. ERR_USAGE, ERR_IO, ERR_LOCKED and others: the sweep, its inputs, the results'
 * folder.
 */
MUST_USE enum status run_master_prepare(struct run_master *m, int argc, char **argv, struct err *e);

/* *out = what is finished: a part also looks at what the sweep's other journals hold. Errors of
 * results_view_of_journal. */
MUST_USE enum status run_master_view(const struct run_master *m, struct results_view **out,
                                     struct err *e);

/* *text (the caller frees) = a visit of the plan for the way to another rank. ERR_NOMEM. */
MUST_USE enum status run_master_job(const struct plan_visit *v, char **text, struct err *e);

/* Starts the clocks and prints what there is to do. */
void run_master_start(struct run_master *m);

/* While jobs run: appends a record to the journal of m, a struct run_master. */
MUST_USE enum status run_master_take(void *m, const json_t *record, struct err *e);
/* What takes the results of the run: its context is to be set to m. Errors of journal and cube. */
extern const struct sched_sink run_master_sink;
/* Hook of struct sched_rescue: records the loss; after the third of a visit its cells fail. */
MUST_USE enum status run_master_lose(void *m, struct sched_loss *loss, struct err *e);

/* Afterwards: the last record and cube, and one line per kind of result. *code: the exit code. */
MUST_USE enum status run_master_finish(struct run_master *m, const struct sched_outcome *outcome,
                                       int *code, struct err *e);
