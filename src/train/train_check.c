#include "train/train_check.h"
#include "train/known_runs.h"
#include "train/run_files.h"
#include "util/fsx.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"

/* More tokens of a text are not counted before training: some seconds. */
enum { MOST_COUNTED = 1 << 24 };
#define AGAIN "move the run's folder out of the output to train it again to the same weights"

/* --- whether a run can begin --- */

void train_say_never(const struct run *r, bool passed, char *why, size_t size)
{
    const long long first = r->first;
    if (!passed)
        snprintf(why, size, "step %lld of %s, from which it branches, is not there", first,
                 r->left);
    else
        snprintf(why, size,
                 "%s has passed step %lld, from which it branches, and no state of it was kept: "
                 "move the folder of %s out of the output to train it again to the same weights, "
                 "and the branch "
                 "with it; checkpoints.states keeps states for branches to come",
                 r->left, first, r->left);
}

/* Whether a run can begin from a state of its parent. */
static enum status look_parent(const struct runs *all, const struct run *r, enum readiness *out,
                               char *why, size_t size, struct err *e)
{
    AUTO_FREE char *path = NULL;
    const struct run *p = &all->runs[r->parent];
    struct run_ending parent;
    int64_t latest;
    /* before the state that it begins from, which comes first */
    const bool open = run_ending_read(p, &parent, NULL) == OK && parent.end == RUN_OPEN;
    PASS(run_state_latest(p, &latest, e));
    PASS(run_state_path(p, r->first, &path, e));
    if (fsx_is_file(path)) return OK;
    const bool passed = latest > r->first || (!open && parent.step >= r->first);
    *out = open && !passed ? WAITS : NEVER;
    if (*out == NEVER) train_say_never(r, passed, why, size);
    return OK;
}

enum status train_readiness(const struct runs *all, int64_t run, enum readiness *out,
                            struct run_left *left, char *why, size_t size, struct err *e)
{
    const struct run *r = &all->runs[run];
    struct run_ending own;
    int64_t latest;
    *out = READY;
    *left = (struct run_left){.step = r->first};
    PASS(run_ending_read(r, &own, e));
    left->end = own.end;
    left->step = own.end == RUN_OPEN ? r->first : own.step;
    if (own.end != RUN_OPEN) *out = ENDED;
    if (own.end != RUN_OPEN) return OK;
    PASS(run_state_latest(r, &latest, e));
    left->step = max64(latest, r->first);
    return r->parent >= 0 && latest < 0 ? look_parent(all, r, out, why, size, e) : OK;
}

/* --- what is wrong with a run --- */

static enum status note(struct faults *f, const struct run *r, const char *why, bool *failing,
                        struct err *e)
{
    *failing = true;
    return faults_add(f, "run", r->name, why, e);
}

enum status train_settings_check(const struct train_job *job, int64_t run, struct err *e)
{
    const struct run *runs = job->runs->runs;
    bool there;
    for (int64_t i = run; i >= 0; i = runs[i].parent) {
        json_auto_t *config = NULL, *settings = NULL;
        PASS(train_settings(job, &runs[i], &config, &settings, e));
        PASS(run_settings_check(&runs[i], settings, &there, e));
    }
    return OK;
}

enum status train_check_run(const struct train_job *job, int64_t run, struct faults *f,
                            bool *failing, struct err *e)
{
    const struct run *r = &job->runs->runs[run];
    const struct train_source *source = &job->sources[r->recipe - job->runs->recipes];
    struct err why = {0};
    int64_t held_out;
    enum status st = train_settings_check(job, run, &why);
    if (st == OK)
        st = corpus_divide(&r->recipe->data, source->tokens, r->recipe->batch.length, &held_out,
                           &why);
    const enum status told = st == OK || st == ERR_NOMEM ? OK : note(f, r, why.text, failing, e);
    if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
    err_clear(&why);
    return told;
}

/* Checkpoints at steps that the run, done up to `step`, has passed without one. One that was
 * removed since counts as made. */
static enum status note_passed(struct faults *f, const struct run *r, int64_t step, struct err *e)
{
    AUTO_FREE char *path = NULL, *rows = NULL;
    char row[40], why[300];
    int64_t n = 0, one = 0;
    PASS(run_path(r, &path, e, "trajectory.csv"));
    if (fsx_is_file(path)) PASS(fsx_read(path, 0, &rows, NULL, e));
    for (int64_t i = r->first + 1; i <= step; i++) {
        snprintf(row, sizeof row, "\nstep%06lld,", (long long)i);
        if (!run_has_checkpoint(r, i) || (rows && strstr(rows, row))) continue;
        if (n++ == 0) one = i;
    }
    if (n == 0) return OK;
    snprintf(why, sizeof why,
             "%lld checkpoint%s of step%s %lld%s asked for, but passed: " AGAIN
             ", with all of them",
             (long long)n, quantity_plural(n), quantity_plural(n), (long long)one,
             n == 1 ? " is" : " and later are");
    return faults_add(f, "run", r->name, why, e);
}

enum status train_check_kept(const struct runs *all, int64_t run, int64_t step, struct faults *f,
                             struct err *e)
{
    const struct run *r = &all->runs[run];
    char why[300];
    bool alike;
    int64_t n;
    PASS(note_passed(f, r, step, e));
    PASS(run_has_type(r, &alike, e));
    if (!alike) {
        snprintf(why, sizeof why,
                 "checkpoints that are there are not %s (checkpoints.dtype) and stay as they "
                 "are: " AGAIN,
                 run_type(r));
        PASS(faults_add(f, "run", r->name, why, e));
    }
    if (run_states_tidy(all, run, &n, NULL) != OK) n = 0; /* train_readiness tells */
    if (n < 2 /* a killed process may leave one */ || r->recipe->checkpoints.states) return OK;
    snprintf(why, sizeof why,
             "%lld states that checkpoints.states kept are removed when it is trained without that "
             "key",
             (long long)n);
    return faults_add(f, "run", r->name, why, e);
}

/* --- before anything is written --- */

/* The folders that a run writes. */
static enum status check_folders(const struct run *r, struct faults *f, bool *failing,
                                 struct err *e)
{
    AUTO_FREE char *state = NULL;
    char why[1024], line[1200];
    const char *const cache = r->recipe->data.cache;
    PASS(run_path(r, &state, e, "state"));
    const char *const folders[][2] = {{"output", state}, {"data.cache", cache}};
    for (int i = 0; i < 2; i++) {
        if (!folders[i][1] || folder_is_writable(folders[i][1], why, sizeof why)) continue;
        snprintf(line, sizeof line, "%s: %s", folders[i][0], why);
        PASS(note(f, r, line, failing, e));
    }
    return OK;
}

/* What is known of a recipe's text. */
struct look {
    const char *why; /* what is wrong with it; NULL: nothing */
    char *own;       /* of this recipe, not of the one before */
};

static enum status look_at_source(const struct recipe *r, bool begun, struct train_source *s,
                                  struct look *l, struct err *e)
{
    const int64_t enough = min64(corpus_least(&r->data, r->batch.length), MOST_COUNTED);
    struct err why = {0};
    enum status st = train_tokenizer(r, s, &why);
    if (st == OK)
        st = corpus_look(&r->data, r->tokenizer, r->output, enough, &s->tokens,
                         begun ? s->hash : NULL, &why);
    if (st == OK && s->tokens >= MOST_COUNTED) s->tokens = INT64_MAX;
    if (st == OK) return OK;
    if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
    st = mem_string(&l->own, why.text, e);
    l->why = l->own;
    err_clear(&why);
    return st;
}

static bool is_wanted(const struct train_job *job, const struct recipe *recipe)
{
    for (int64_t i = 0; i < job->runs->n; i++)
        if (job->runs->runs[i].recipe == recipe && job->wanted[i]) return true;
    return false;
}

/* Texts that recipes share are looked at once. begun: there are settings to compare, with the
 * digest of the text. */
static enum status look_at_sources(struct train_job *job, bool begun, struct look *looks,
                                   struct err *e)
{
    const struct recipe *before = NULL;
    for (int64_t i = 0; i < job->runs->n_recipes; i++) {
        const struct recipe *own = &job->runs->recipes[i];
        struct look *l = &looks[i];
        if (!is_wanted(job, own)) continue;
        const int64_t last = before ? before - job->runs->recipes : i;
        if (before && train_same_data(own, before) && own->batch.length == before->batch.length) {
            job->sources[i] = job->sources[last];
            l->why = looks[last].why;
        } else {
            PASS(look_at_source(own, begun, &job->sources[i], l, e));
        }
        before = own;
    }
    return OK;
}

/* One run; those before it have been looked at. */
static enum status check_run(const struct train_job *job, int64_t i, const struct look *l,
                             struct run_left *left, struct faults *f, struct err *e)
{
    const struct run *r = &job->runs->runs[i];
    enum readiness state = NEVER;
    struct err why = {0};
    char never[520] = "";
    bool failing = false;
    enum status st = train_readiness(job->runs, i, &state, &left[i], never, sizeof never, &why);
    if (st != OK && st != ERR_FORMAT) RAISE(st, "%s", why.text);
    if (st != OK) PASS(note(f, r, why.text, &failing, e));
    err_clear(&why);
    if (never[0]) PASS(note(f, r, never, &failing, e));
    PASS(train_check_kept(job->runs, i, left[i].step, f, e));
    if (state == WAITS && left[r->parent].failing) failing = true;
    if (state != ENDED) PASS(check_folders(r, f, &failing, e));
    if (l->why)
        PASS(note(f, r, l->why, &failing, e));
    else
        PASS(train_check_run(job, i, f, &failing, e));
    left[i].failing = failing;
    return OK;
}

enum status train_check_all(struct train_job *job, struct run_left *left, struct faults *f,
                            struct err *e)
{
    enum status st = OK;
    const struct runs *all = job->runs;
    struct look *looks = NULL;
    json_t *known = NULL;
    TRY(mem_zero(&looks, all->n_recipes, sizeof *looks, "runs", e));
    TRY(known_runs_read(all->recipes[0].output, &known, e));
    TRY(look_at_sources(job, json_object_size(known) > 0, looks, e));
    for (int64_t i = 0; i < all->n; i++) {
        const struct look *l = &looks[all->runs[i].recipe - all->recipes];
        if (job->wanted[i] && !l->why) TRY(known_run_take(job, known, i, e));
        if (job->wanted[i]) TRY(check_run(job, i, l, left, f, e));
    }
done:
    json_decref(known);
    for (int64_t i = 0; looks && i < all->n_recipes; i++) free(looks[i].own);
    free(looks);
    return st;
}
