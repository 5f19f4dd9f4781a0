#include "train/train_all.h"
#include "records/lock.h"
#include "train/known_runs.h"
#include "train/train_check.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/patience.h"
#include <unistd.h>

/* --- tokens --- */

static enum status prepare(const struct train_job *job, int64_t i, struct err *e)
{
    AUTO_FREE char *path = NULL;
    int fd;
    int64_t size;
    const struct recipe *r = &job->runs->recipes[i];
    struct train_source *s = &job->sources[i];
    if (i > 0 && train_same_data(r, r - 1)) {
        *s = s[-1];
        return OK;
    }
    PASS(train_tokenizer(r, s, e));
    PASS(corpus_prepare(&r->data, r->tokenizer, r->output, &path, s->hash, e));
    NEED(strlen(path) < sizeof s->path, ERR_USAGE,
         "%.200s: a path of %zu bytes or more; give output a shorter one", path, sizeof s->path);
    snprintf(s->path, sizeof s->path, "%s", path);
    PASS(fsx_open(path, &fd, &size, e));
    close(fd);
    s->tokens = size / (int64_t)sizeof(int32_t);
    return OK;
}

/* Rank 0 makes what is not there. Collective. */
static enum status prepare_all(struct train_job *job, int rank, struct err *e)
{
    const int64_t n = job->runs->n_recipes;
    enum status st = mem_zero(&job->sources, n, sizeof *job->sources, "sources of tokens", e);
    for (int64_t i = 0; st == OK && rank == 0 && i < n; i++) st = prepare(job, i, e);
    PASS(err_agree(job->world, st, e));
    return bulk_bcast(job->world, 0, job->sources, n * (int64_t)sizeof *job->sources, e);
}

/* --- which run is next --- */

/* Whether it can begin now: nobody else trains it. *why: as of train_readiness. */
static enum status look(const struct runs *all, int64_t i, enum readiness *out, char *why,
                        size_t size, struct err *e)
{
    char *steps = NULL;
    struct run_left left;
    PASS(train_readiness(all, i, out, &left, why, size, e));
    PASS(run_path(&all->runs[i], &steps, e, "steps.csv"));
    if (*out == READY && lock_look(steps).held) *out = WAITS;
    free(steps);
    return OK;
}

struct choice {
    const struct train_job *job;
    bool *failed; // (n) by this group
    int64_t run;  /* -1: none now, -2: none any more */
    struct run_files *files;
    json_t *config;
};

/* Takes a run for this group, *taken: it has it. */
static enum status take(struct choice *c, int64_t i, bool *taken, struct err *e)
{
    const struct run *r = &c->job->runs->runs[i];
    json_t *settings = NULL;
    struct run_ending end;
    struct err why = {0};
    enum status st = train_settings_check(c->job, i, &why);
    if (st == OK) st = train_settings(c->job, r, &c->config, &settings, &why);
    if (st == OK) st = run_files_open(r, settings, &c->files, &why);
    json_decref(settings);
    if (st == OK) st = run_ending_read(r, &end, &why); /* another may have ended it meanwhile */
    *taken = st == OK && end.end == RUN_OPEN;
    if (*taken) return OK;
    run_files_close(c->files);
    json_decref(c->config);
    c->files = NULL;
    c->config = NULL;
    if (st == OK || st == ERR_LOCKED) return OK;
    if (st != ERR_USAGE && st != ERR_FORMAT && st != ERR_SHAPE) RAISE(st, "%s", why.text);
    c->failed[i] = true;
    log_error("%s: %s", r->name, why.text);
    return OK;
}

static enum status choose(struct choice *c, struct err *e)
{
    const struct runs *all = c->job->runs;
    bool taken = false;
    c->run = -2;
    for (int64_t i = 0; !taken && i < all->n; i++) {
        enum readiness state = NEVER;
        struct err why = {0};
        char never[520] = "";
        if (!c->job->wanted[i] || c->failed[i]) continue;
        const enum status st = look(all, i, &state, never, sizeof never, &why);
        if (st != OK && st != ERR_FORMAT) RAISE(st, "%s", why.text);
        if (st == ERR_FORMAT) log_error("%s: %s", all->runs[i].name, why.text);
        const int64_t parent = all->runs[i].parent;
        const bool lost = state == WAITS && parent >= 0 && c->failed[parent];
        if (lost) train_say_never(&all->runs[i], false, never, sizeof never);
        if (never[0]) log_error("%s: %s", all->runs[i].name, never);
        if (state == NEVER || lost) c->failed[i] = true;
        if (state == WAITS && !c->failed[i]) c->run = -1;
        if (state != READY) continue;
        PASS(take(c, i, &taken, e));
        if (taken)
            c->run = i;
        else if (!c->failed[i])
            c->run = -1;
    }
    return OK;
}

/* Runs whose settings cannot be trained, or are not those that they began with, fail before any is
 * trained. */
static enum status check_all(const struct train_job *job, bool *failed, struct err *e)
{
    CLEANUP(faults_free) struct faults f = {0}, kept = {0};
    for (int64_t i = 0; i < job->runs->n; i++)
        if (job->wanted[i]) PASS(train_check_run(job, i, &f, &failed[i], e));
    for (int64_t i = 0; i < job->runs->n; i++)
        if (job->wanted[i] && !failed[i]) {
            /* What of a run that is there will not be as its file says; and what a process that
             * was killed behind its end has not removed. */
            enum readiness state;
            struct run_left left;
            char why[520];
            if (train_readiness(job->runs, i, &state, &left, why, sizeof why, NULL) != OK)
                continue; /* choose tells */
            PASS(train_check_kept(job->runs, i, left.step, &kept, e));
            if (state == ENDED) PASS(run_states_tidy(job->runs, i, NULL, e));
        }
    PASS(faults_say(&kept, log_warn, e));
    return faults_say(&f, log_error, e);
}

/* --- a group --- */

/* The group's ranks wait without a core while its first one looks for a run. Collective. */
static enum status next_run(struct choice *c, MPI_Comm group, bool first, struct err *e)
{
    enum status st = OK;
    for (c->run = -1; first && st == OK && c->run == -1;) {
        st = choose(c, e);
        if (st == OK && c->run == -1 && c->job->must_stop())
            st = err_set(e, ERR_STOPPED, __FILE__, __LINE__, "stopped; start again to go on");
        if (c->run == -1) clock_sleep(0.2);
    }
    PASS(err_agree(group, st, e));
    MPI_Request request;
    MPI_Ibcast(&c->run, 1, MPI_INT64_T, 0, group, &request);
    patience_wait(&request);
    return OK;
}

static enum status work(struct train_job *job, MPI_Comm group, bool *failed, struct err *e)
{
    int rank;
    MPI_Comm_rank(group, &rank);
    struct choice c = {.job = job, .failed = failed};
    for (;;) {
        struct err why = {0};
        PASS(next_run(&c, group, rank == 0, e));
        if (c.run < 0) return OK;
        const enum status st = train_run(job, c.run, group, c.files, c.config, &why);
        json_decref(c.config);
        c.files = NULL;
        c.config = NULL;
        if (st == OK) continue;
        if (st != ERR_USAGE && st != ERR_FORMAT && st != ERR_SHAPE) RAISE(st, "%s", why.text);
        if (rank == 0) log_error("%s: %s", job->runs->runs[c.run].name, why.text);
        failed[c.run] = true;
    }
}

static enum status count(const struct train_job *job, const bool *failed, struct train_totals *out,
                         struct err *e)
{
    *out = (struct train_totals){0};
    for (int64_t i = 0; i < job->runs->n; i++) {
        struct run_ending end;
        if (!job->wanted[i]) continue;
        const enum status st = run_ending_read(&job->runs->runs[i], &end, e);
        if (st != OK && st != ERR_FORMAT) return st;
        if (st != OK) err_clear(e); /* choose has told */
        out->wanted++;
        out->done += end.end == RUN_DONE && !failed[i];
        out->diverged += end.end == RUN_DIVERGED;
    }
    return OK;
}

enum status train_all(struct train_job *job, struct train_totals *out, struct err *e)
{
    enum status st = OK;
    int rank, size;
    bool *failed = NULL;
    MPI_Comm group = MPI_COMM_NULL;
    MPI_Comm_rank(job->world, &rank);
    MPI_Comm_size(job->world, &size);
    TRY(prepare_all(job, rank, e));
    TRY(known_runs_take_all(job, e));
    st = mem_zero(&failed, job->runs->n, sizeof *failed, "runs", e);
    if (st == OK && rank == 0) st = check_all(job, failed, e);
    TRY(err_agree(job->world, st, e));
    TRY(bulk_bcast(job->world, 0, failed, job->runs->n * (int64_t)sizeof *failed, e));
    const int64_t groups = max64(size / train_group_size(job, size), 1);
    MPI_Comm_split(job->world, (int)((int64_t)rank * groups / size), rank, &group);
    st = work(job, group, failed, e);
    TRY(err_agree(job->world, st, e));
    st = count(job, failed, out, e);
    TRY(err_agree(job->world, st, e));
done:
    if (group != MPI_COMM_NULL) MPI_Comm_free(&group);
    free(failed);
    free(job->sources);
    job->sources = NULL;
    return st;
}
