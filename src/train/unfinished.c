#include "train/unfinished.h"
#include "util/fsx.h"
#include "util/json.h"
#include "util/log.h"
#include "util/mem.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status has(const char *output, const char *run, const char *file, bool *out,
                       struct err *e)
{
    char *path;
    PASS(mem_format(&path, e, "%s/%s/%s", output, run, file));
    *out = fsx_is_file(path);
    free(path);
    return OK;
}

/* *out (the caller frees) = the run that it branches from; NULL: none. */
static enum status parent_of(const char *output, const char *run, char **out, struct err *e)
{
    enum status st = OK;
    struct err none = {0};
    json_t *settings = NULL;
    char *path;
    PASS(mem_format(&path, e, "%s/%s/run.json", output, run));
    if (json_read_file(path, 1 << 20, &settings, &none) != OK) err_clear(&none);
    const char *parent = json_text(settings, "parent", NULL);
    if (parent) st = mem_string(out, parent, e);
    json_decref(settings);
    free(path);
    return st;
}

/* The run's branches without a checkpoint. */
static enum status count_branches(const char *output, struct dirent *const *all, int n,
                                  const char *run, int64_t *count, struct err *e)
{
    *count = 0;
    for (int i = 0; i < n; i++) {
        char *parent = NULL;
        bool begun;
        PASS(parent_of(output, all[i]->d_name, &parent, e));
        const bool own = parent && strcmp(parent, run) == 0;
        free(parent);
        if (own) PASS(has(output, all[i]->d_name, "trajectory.csv", &begun, e));
        *count += own && !begun;
    }
    return OK;
}

static enum status warn_of(const char *output, struct dirent *const *all, int n, const char *run,
                           struct err *e)
{
    bool begun, ended, seen;
    int64_t branches;
    char more[100] = "", *parent = NULL;
    PASS(has(output, run, "run.json", &begun, e));
    PASS(has(output, run, "end.json", &ended, e));
    PASS(has(output, run, "trajectory.csv", &seen, e));
    if (!begun) return OK;
    PASS(parent_of(output, run, &parent, e));
    const bool branch = parent != NULL;
    free(parent);
    if (branch && !seen) return OK; /* its run counts it */
    PASS(count_branches(output, all, n, run, &branches, e));
    if (branches > 0)
        snprintf(more, sizeof more, "%lld branch%s no checkpoint yet", (long long)branches,
                 branches == 1 ? " of it has" : "es of it have");
    if (!ended || branches > 0)
        log_warn("%s: %s%s%s", run,
                 ended  ? ""
                 : seen ? "not finished"
                        : "no checkpoint yet",
                 !ended && branches > 0 ? "; " : "", more);
    return OK;
}

enum status unfinished_warn(const char *output, struct err *e)
{
    enum status st = OK;
    struct dirent **all = NULL;
    const int n = scandir(output, &all, NULL, alphasort);
    for (int i = 0; i < n; i++)
        if (all[i]->d_name[0] != '.') TRY(warn_of(output, all, n, all[i]->d_name, e));
done:
    for (int i = 0; i < n; i++) free(all[i]);
    free(all);
    return st;
}
