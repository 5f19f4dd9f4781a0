#include "train/known_runs.h"
#include "train/run_files.h"
#include "util/agree.h"
#include "util/bulk.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum status known_runs_read(const char *output, struct known_runs *out, struct err *e)
{
    enum status st = OK;
    char *path = NULL;
    DIR *dir = opendir(output);
    struct known_runs k = {.settings = json_object()};
    for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
        struct err why = {0};
        json_t *one;
        if (d->d_name[0] == '.') continue;
        free(path);
        TRY(mem_format(&path, e, "%s/%s/run.json", output, d->d_name));
        if (!fsx_is_file(path)) continue;
        const bool read = run_settings_read(path, &one, &why) == OK;
        err_clear(&why);
        if (read) json_object_set_new(k.settings, d->d_name, one);
    }
    TRY(json_whole(e));
    *out = k;
    k.settings = NULL;
done:
    known_runs_free(&k);
    if (dir) closedir(dir);
    free(path);
    return st;
}

void known_runs_free(struct known_runs *k)
{
    json_decref(k->settings);
    *k = (struct known_runs){0};
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

static void say_taken(const struct run *r, const struct run *taken)
{
    struct run_ending end;
    struct err none = {0};
    const bool read = run_ending_read(taken, &end, &none) == OK;
    const char *const how[] = {"has begun", "is done", "has diverged"};
    err_clear(&none);
    log_info("%s: the settings of %s, which %s: that folder is used", r->name, taken->name,
             how[read ? end.end : RUN_OPEN]);
}

static bool is_run(const struct runs *all, const char *name)
{
    for (int64_t i = 0; i < all->n; i++)
        if (strcmp(all->runs[i].name, name) == 0) return true;
    return false;
}

enum status known_run_take(struct train_job *job, const struct known_runs *k, int64_t run,
                           struct err *e)
{
    const struct run *r = &job->runs->runs[run];
    struct err why = {0};
    json_t *config = NULL, *settings = NULL, *one;
    const char *name, *found = NULL;
    bool alike;
    if (json_object_size(k->settings) == 0 || json_object_get(k->settings, r->name)) return OK;
    if (strcmp(r->recipe->output, job->runs->recipes[0].output) != 0) return OK;
    /* what is wrong with the settings, the check tells */
    if (train_settings(job, r, &config, &settings, &why) != OK) err_clear(&why);
    json_object_foreach(k->settings, name, one)
    {
        if (!found && json_equal(one, settings) && !is_run(job->runs, name)) found = name;
    }
    json_decref(config);
    json_decref(settings);
    if (!found) return OK;
    struct run taken = *r;
    taken.name = (char *)(uintptr_t)found;
    PASS(run_has_type(&taken, &alike, e));
    if (!alike) return OK;
    say_taken(r, &taken);
    return rename_run(job->runs, run, found, e);
}

/* names (n) = those of wanted runs. */
static enum status take_all(struct train_job *job, char (*names)[NAME_MAX + 1], struct err *e)
{
    struct known_runs k = {0};
    enum status st = known_runs_read(job->runs->recipes[0].output, &k, e);
    for (int64_t i = 0; st == OK && i < job->runs->n; i++) {
        if (!job->wanted[i]) continue;
        st = known_run_take(job, &k, i, e);
        snprintf(names[i], sizeof names[i], "%s", job->runs->runs[i].name);
    }
    known_runs_free(&k);
    return st;
}

enum status known_runs_take_all(struct train_job *job, struct err *e)
{
    int rank;
    char(*names)[NAME_MAX + 1] = NULL;
    const int64_t n = job->runs->n;
    MPI_Comm_rank(job->world, &rank);
    enum status st = mem_zero(&names, n, sizeof *names, "names of runs", e);
    if (st == OK && rank == 0) st = take_all(job, names, e);
    TRY(err_agree(job->world, st, e));
    TRY(bulk_bcast(job->world, 0, names, n * (int64_t)sizeof *names, e));
    for (int64_t i = 0; st == OK && rank > 0 && i < n; i++)
        if (names[i][0]) st = rename_run(job->runs, i, names[i], e);
    TRY(err_agree(job->world, st, e));
done:
    free(names);
    return st;
}
