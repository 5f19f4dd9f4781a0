#include "train/train_all.h"
#include "records/lock.h"
#include "tokenizer/tokenizer.h"
#include "train/run_files.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/clock.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/patience.h"
#include <stdlib.h>
#include <string.h>

/* --- tokens --- */

static bool same_data(const struct recipe *a, const struct recipe *b)
{
    json_t *x = options_to_json(&corpus_options_table, &a->data),
           *y = options_to_json(&corpus_options_table, &b->data);
    const bool same = json_equal(x, y) && strcmp(a->tokenizer, b->tokenizer) == 0;
    json_decref(x);
    json_decref(y);
    return same;
}

enum status train_tokenizer(const struct recipe *r, struct train_source *s, struct err *e)
{
    enum status st = OK;
    struct tokenizer *t = NULL;
    TRY(tokenizer_open(r->tokenizer, &t, e));
    s->vocab = tokenizer_n_ids(t);
    s->eos = r->data.separator ? tokenizer_find(t, r->data.separator) : -1;
    if (s->eos < 0 && tokenizer_eos(t, &s->eos, NULL) != OK) s->eos = -1;
done:
    tokenizer_close(t);
    return st;
}

static enum status prepare(const struct train_job *job, int64_t i, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    const struct recipe *r = &job->runs->recipes[i];
    struct train_source *s = &job->sources[i];
    if (i > 0 && same_data(r, r - 1)) {
        *s = s[-1];
        return OK;
    }
    TRY(train_tokenizer(r, s, e));
    TRY(corpus_prepare(&r->data, r->tokenizer, r->output, &path, s->hash, e));
    ENSURE(strlen(path) < sizeof s->path, ERR_USAGE,
           "%.200s: a path of %zu bytes or more; give output a shorter one", path, sizeof s->path);
    snprintf(s->path, sizeof s->path, "%s", path);
done:
    free(path);
    return st;
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

enum readiness { READY, WAITS, ENDED, NEVER };

/* Why a branch cannot begin: its run has ended before that step, or passed it without keeping the
 * state. */
static void tell_never(const struct runs *all, int64_t i, bool passed)
{
    const struct run *r = &all->runs[i];
    const long long first = r->first;
    if (!passed)
        log_error("%s: step %lld of %s, from which it branches, is not there", r->name, first,
                  r->left);
    else
        log_error(
            "%s: %s has passed step %lld, from which it branches, and no state of it was kept: "
            "move the folder of %s away to train it again to the same weights, and the branch "
            "with it; checkpoints.states keeps states for branches to come",
            r->name, r->left, first, r->left);
}

/* Whether a run can begin from a state of its parent. */
static enum status look_parent(const struct runs *all, int64_t i, enum readiness *out,
                               struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    struct err none = {0};
    const struct run *r = &all->runs[i], *p = &all->runs[r->parent];
    struct run_ending parent;
    int64_t latest;
    /* before the state that it begins from, which comes first */
    const bool open = run_ending_read(p, &parent, &none) == OK && parent.end == RUN_OPEN;
    TRY(run_state_latest(p, &latest, e));
    TRY(run_state_path(p, r->first, &path, e));
    if (fsx_is_file(path)) goto done;
    const bool passed = latest > r->first || (!open && parent.step >= r->first);
    *out = open && !passed ? WAITS : NEVER;
    if (*out == NEVER) tell_never(all, i, passed);
done:
    free(path);
    return st;
}

/* Whether it can begin: it has not ended, and its state or that which it begins from is there. */
static enum status look(const struct runs *all, int64_t i, enum readiness *out, struct err *e)
{
    enum status st = OK;
    char *steps = NULL;
    const struct run *r = &all->runs[i];
    struct run_ending own;
    int64_t latest;
    *out = READY;
    TRY(run_ending_read(r, &own, e));
    if (own.end != RUN_OPEN) *out = ENDED;
    if (own.end != RUN_OPEN) goto done;
    TRY(run_state_latest(r, &latest, e));
    if (r->parent >= 0 && latest < 0) TRY(look_parent(all, i, out, e));
    TRY(run_path(r, &steps, e, "steps.csv"));
    if (*out == READY && lock_look(steps).held) *out = WAITS;
done:
    free(steps);
    return st;
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
    enum status st = train_settings(c->job, r, &c->config, &settings, &why);
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
        if (!c->job->wanted[i] || c->failed[i]) continue;
        const enum status st = look(all, i, &state, &why);
        if (st != OK && st != ERR_FORMAT) RAISE(st, "%s", why.text);
        if (st == ERR_FORMAT) log_error("%s: %s", all->runs[i].name, why.text);
        const int64_t parent = all->runs[i].parent;
        const bool lost = state == WAITS && parent >= 0 && c->failed[parent];
        if (lost) tell_never(all, i, false);
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

/* Runs that have begun, or ended, with other settings than they have now fail before any is
 * trained. */
static enum status check_all(const struct train_job *job, bool *failed, struct err *e)
{
    for (int64_t i = 0; i < job->runs->n; i++) {
        json_t *config = NULL, *settings = NULL;
        struct err why = {0};
        bool there;
        if (!job->wanted[i]) continue;
        enum status st = train_settings(job, &job->runs->runs[i], &config, &settings, &why);
        if (st == OK) st = run_settings_check(&job->runs->runs[i], settings, &there, &why);
        json_decref(config);
        json_decref(settings);
        if (st == OK) continue;
        if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
        failed[i] = true;
        log_error("%s: %s", job->runs->runs[i].name, why.text);
        err_clear(&why);
    }
    return OK;
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

/* Ranks that train one run together. */
static int64_t group_size(const struct train_job *job, int64_t ranks)
{
    int64_t roots = 0;
    const int64_t given = job->runs->n > 0 ? job->runs->recipes[0].run.ranks : 0;
    for (int64_t i = 0; i < job->runs->n; i++)
        roots += job->wanted[i] && job->runs->runs[i].parent < 0;
    return given ? min64(given, ranks) : max64(ranks / max64(roots, 1), 1);
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
    st = mem_zero(&failed, job->runs->n, sizeof *failed, "runs", e);
    if (st == OK && rank == 0) st = check_all(job, failed, e);
    TRY(err_agree(job->world, st, e));
    TRY(bulk_bcast(job->world, 0, failed, job->runs->n * (int64_t)sizeof *failed, e));
    const int64_t groups = max64(size / group_size(job, size), 1);
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
