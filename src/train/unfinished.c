#include "train/unfinished.h"
#include "train/known_runs.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include <stdio.h>

static enum status has(const char *output, const char *run, const char *file, bool *out,
                       struct err *e)
{
    AUTO_FREE char *path = NULL;
    PASS(mem_format(&path, e, "%s/%s/%s", output, run, file));
    *out = fsx_is_file(path);
    return OK;
}

/* The run's branches without a checkpoint. */
static enum status count_branches(const char *output, json_t *k, const char *run, int64_t *count,
                                  struct err *e)
{
    const char *branch;
    json_t *settings;
    bool begun;
    *count = 0;
    json_object_foreach(k, branch, settings) {
        if (strcmp(json_text(settings, "parent", ""), run) != 0) continue;
        PASS(has(output, branch, "trajectory.csv", &begun, e));
        *count += !begun;
    }
    return OK;
}

static enum status warn_of(const char *output, json_t *k, const char *run, struct err *e)
{
    bool ended, seen;
    int64_t branches;
    char more[100] = "";
    PASS(has(output, run, "end.json", &ended, e));
    PASS(has(output, run, "trajectory.csv", &seen, e));
    if (json_text(json_object_get(k, run), "parent", NULL) && !seen)
        return OK; /* its run counts it */
    PASS(count_branches(output, k, run, &branches, e));
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
    json_auto_t *k = NULL;
    json_t *settings;
    const char *run;
    PASS(known_runs_read(output, &k, e));
    json_object_foreach(k, run, settings) {
        PASS(warn_of(output, k, run, e));
    }
    return OK;
}
