#include "run/slurm_checks.h"
#include "memory/states.h"
#include "run/owner.h"
#include "run/run_journal.h"
#include "util/folder.h"
#include "util/fsx.h"
#include "util/mem.h"
#include <unistd.h>

static enum status check_folder(const struct plan *p, const char *key, const char *path,
                                struct plan_faults *f, struct err *e)
{
    char why[1000];
    if (folder_is_writable(path, why, sizeof why)) return OK;
    return plan_faults_add(f, p, e, "%s: %s: %s", key, path, why);
}

enum status run_check_results(struct plan *p, struct plan_faults *f, struct err *e)
{
    char *folder;
    struct err why = {0};
    const char *results = p->results;
    const int64_t before = f->all.n;
    if (fsx_is_dir(results))
        return plan_faults_add(f, p, e, "results: %s is a folder; expected a file's name", results);
    enum status st = sweep_check_results(p->sweep, &why);
    if (st != OK) {
        st = plan_faults_add(f, p, e, "%s", why.text);
        err_clear(&why);
        return st;
    }
    PASS(fsx_parent(results, &folder, e));
    st = check_folder(p, "results", folder, f, e);
    free(folder);
    if (st != OK || f->all.n != before) return st;
    st = run_journal_check(results, &why);
    if (st == OK) st = owner_check(p, results, &why);
    if (st == OK) st = owner_check_weights(p, &why);
    if (st == OK) return OK;
    if (st == ERR_NOMEM) RAISE(st, "%s", why.text);
    st = plan_faults_add(f, p, e, "%s", why.text);
    return st;
}

static enum status check_scratch(const struct plan *p, struct plan_faults *f, struct err *e)
{
    char *folder = NULL;
    int64_t room;
    struct err why = {0};
    enum status st = scratch_find(p->sweep->run.scratch, 1, &folder, &room, &why);
    free(folder);
    if (st == OK || !p->sweep->run.scratch) return OK;
    return plan_faults_add(f, p, e, "%s (if only nodes have it: --anyway)", why.text);
}

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    bool found = false;
    if (strchr(program, '/')) return access(program, X_OK) == 0;
    for (const char *at = path ? path : ""; *at && !found;) {
        const size_t n = strcspn(at, ":");
        char *file = NULL;
        if (mem_format(&file, NULL, "%.*s/%s", (int)n, at, program) != OK) return false;
        found = access(file, X_OK) == 0;
        free(file);
        at += n + (at[n] == ':');
    }
    return found;
}

static enum status check_stage(const struct plan *p, const struct model_entry *m,
                               struct plan_faults *f, struct err *e)
{
    AUTO_FREE char *program = NULL;
    if (!m->stage || !p->sweep->run.stage_commands) return OK;
    PASS(mem_format(&program, e, "%.*s", (int)strcspn(m->stage, "\n"), m->stage));
    const bool there = on_path(program);
    return there ? OK
                 : plan_faults_add(f, p, e, "%s: stage: %s: no such program", m->name, program);
}

enum status slurm_check_folders(struct plan *p, const char *report, struct plan_faults *f,
                                struct err *e)
{
    const struct sweep *s = p->sweep;
    const char *states = s->run.checkpoints;
    PASS(run_check_results(p, f, e));
    if (report) PASS(check_folder(p, "--report", report, f, e));
    if (states && strcmp(states, "off") != 0)
        PASS(check_folder(p, "run.checkpoints", states, f, e));
    PASS(check_scratch(p, f, e));
    for (int64_t i = 0; i < s->n_models; i++) PASS(check_stage(p, &s->models[i], f, e));
    return OK;
}

enum status slurm_rate_known(const char *results, const char *partition, char **file, char **rate,
                             struct err *e)
{
    AUTO_FREE char *folder = NULL;
    char text[64];
    PASS(fsx_parent(results, &folder, e));
    PASS(mem_format(file, e, "%s/qtraj-rate-%s.txt", folder, partition ? partition : "default"));
    if (fsx_text(*file, text, sizeof text)) {
        text[strcspn(text, "\n")] = '\0';
        if (strtod(text, NULL) > 0) PASS(mem_string(rate, text, e));
    }
    return OK;
}
