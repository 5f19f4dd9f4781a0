#include "train/known_runs.h"
#include "train/run_files.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>

/* A run.json that cannot be read is null. */
static enum status add_settings(json_t *known, const char *output, const char *folder,
                                struct err *e)
{
    AUTO_FREE char *path = NULL;
    json_t *one = NULL;
    PASS(mem_format(&path, e, "%s/%s/run.json", output, folder));
    const bool read = fsx_is_file(path) && run_settings_read(path, &one, NULL) == OK;
    if (fsx_is_file(path)) json_object_set_new(known, folder, read ? one : json_null());
    return json_whole(e);
}

enum status known_runs_read(const char *output, json_t **out, struct err *e)
{
    struct dirent **folders = NULL;
    const int n = scandir(output, &folders, NULL, alphasort);
    enum status st = OK;
    *out = json_object();
    for (int i = 0; i < n; i++) {
        const char *folder = folders[i]->d_name;
        if (st == OK && folder[0] != '.') st = add_settings(*out, output, folder, e);
        free(folders[i]);
    }
    free(folders);
    if (st != OK) json_decref(*out);
    if (st != OK) *out = NULL;
    return st;
}

static enum status rename_run(struct runs *all, int64_t run, const char *name, struct err *e)
{
    char *own;
    struct run *r = &all->runs[run];
    if (strcmp(r->name, name) == 0) return OK;
    PASS(mem_string(&own, name, e));
    free(r->name);
    r->name = own;
    for (int64_t i = run + 1; i < all->n; i++)
        if (all->runs[i].parent == run) all->runs[i].left = own;
    return run_state_latest(r, &r->others, e);
}

static bool is_run(const struct runs *all, const char *name)
{
    for (int64_t i = 0; i < all->n; i++)
        if (strcmp(all->runs[i].name, name) == 0) return true;
    return false;
}

enum status known_run_take(struct train_job *job, json_t *known, int64_t run, struct err *e)
{
    const struct run *r = &job->runs->runs[run];
    struct err why = {0};
    json_auto_t *config = NULL, *settings = NULL;
    json_t *one;
    const char *name, *found = NULL;
    bool alike;
    if (json_object_size(known) == 0 || json_object_get(known, r->name)) return OK;
    if (strcmp(r->recipe->output, job->runs->recipes[0].output) != 0) return OK;
    /* what is wrong with the settings, the check tells */
    if (train_settings(job, r, &config, &settings, &why) != OK) err_clear(&why);
    json_object_foreach(known, name, one) {
        if (!found && json_equal(one, settings) && !is_run(job->runs, name)) found = name;
    }
    if (!found) return OK;
    struct run taken = *r;
    taken.name = (char *)(uintptr_t)found;
    PASS(run_has_type(&taken, &alike, e));
    if (!alike) return OK;
    struct run_ending end;
    const bool read = run_ending_read(&taken, &end, NULL) == OK;
    const char *const how[] = {"has begun", "is done", "has diverged"};
    log_info("%s: the settings of %s, which %s: that folder is used", r->name, taken.name,
             how[read ? end.end : RUN_OPEN]);
    return rename_run(job->runs, run, found, e);
}

/* names (n) = those of wanted runs. */
static enum status take_all(struct train_job *job, char (*names)[NAME_MAX + 1], struct err *e)
{
    json_auto_t *known = NULL;
    PASS(known_runs_read(job->runs->recipes[0].output, &known, e));
    for (int64_t i = 0; i < job->runs->n; i++) {
        if (!job->wanted[i]) continue;
        PASS(known_run_take(job, known, i, e));
        snprintf(names[i], sizeof names[i], "%s", job->runs->runs[i].name);
    }
    return OK;
}

enum status known_runs_take_all(struct train_job *job, struct err *e)
{
    int rank;
    AUTO_FREE char(*names)[NAME_MAX + 1] = NULL;
    const int64_t n = job->runs->n;
    MPI_Comm_rank(job->world, &rank);
    enum status st = mem_zero(&names, n, sizeof *names, "names of runs", e);
    if (st == OK && rank == 0) st = take_all(job, names, e);
    PASS(err_agree(job->world, st, e));
    PASS(bulk_bcast(job->world, 0, names, n * (int64_t)sizeof *names, e));
    for (int64_t i = 0; st == OK && rank > 0 && i < n; i++)
        if (names[i][0]) st = rename_run(job->runs, i, names[i], e);
    return err_agree(job->world, st, e);
}

/* --- what they have yet to leave --- */

enum status unfinished_warn(const char *output, struct err *e)
{
    json_auto_t *known = NULL;
    json_t *settings, *others;
    const char *run, *other;
    PASS(known_runs_read(output, &known, e));
    json_object_foreach(known, run, settings) {
        const bool ended = fsx_has("%s/%s/end.json", output, run);
        const bool seen = fsx_has("%s/%s/trajectory.csv", output, run);
        int64_t branches = 0; /* without a checkpoint */
        char more[100] = "";
        if (json_text(settings, "parent", NULL) && !seen) continue; /* its run counts it */
        json_object_foreach(known, other, others)
            if (strcmp(json_text(others, "parent", ""), run) == 0)
                branches += !fsx_has("%s/%s/trajectory.csv", output, other);
        if (branches > 0)
            snprintf(more, sizeof more, "%lld branch%s no checkpoint yet", (long long)branches,
                     branches == 1 ? " of it has" : "es of it have");
        if (!ended || branches > 0)
            log_warn("%s: %s%s%s", run,
                     ended  ? ""
                     : seen ? "not finished"
                            : "no checkpoint yet",
                     !ended && branches > 0 ? "; " : "", more);
    }
    return OK;
}
