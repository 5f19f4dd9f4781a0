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

/* The folders of an output. */
struct folders {
    int n;
    struct dirent **all; // (n)
    char **parent;       // (n) the run that it branches from; NULL: none
};

/* The run's branches without a checkpoint. */
static enum status count_branches(const char *output, const struct folders *f, const char *run,
                                  int64_t *count, struct err *e)
{
    bool begun;
    *count = 0;
    for (int i = 0; i < f->n; i++) {
        if (!f->parent[i] || strcmp(f->parent[i], run) != 0) continue;
        PASS(has(output, f->all[i]->d_name, "trajectory.csv", &begun, e));
        *count += !begun;
    }
    return OK;
}

static enum status warn_of(const char *output, const struct folders *f, int at, struct err *e)
{
    bool begun, ended, seen;
    int64_t branches;
    char more[100] = "";
    const char *run = f->all[at]->d_name;
    PASS(has(output, run, "run.json", &begun, e));
    PASS(has(output, run, "end.json", &ended, e));
    PASS(has(output, run, "trajectory.csv", &seen, e));
    if (!begun || (f->parent[at] && !seen)) return OK; /* its run counts it */
    PASS(count_branches(output, f, run, &branches, e));
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
    struct folders f = {0};
    f.n = scandir(output, &f.all, NULL, alphasort);
    if (f.n <= 0) return OK;
    TRY(mem_zero(&f.parent, f.n, sizeof *f.parent, "runs", e));
    for (int i = 0; i < f.n; i++) TRY(parent_of(output, f.all[i]->d_name, &f.parent[i], e));
    for (int i = 0; i < f.n; i++)
        if (f.all[i]->d_name[0] != '.') TRY(warn_of(output, &f, i, e));
done:
    for (int i = 0; i < f.n; i++) {
        free(f.all[i]);
        if (f.parent) free(f.parent[i]);
    }
    free(f.all);
    free(f.parent);
    return st;
}
