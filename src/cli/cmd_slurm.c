/* qtraj slurm: the commands that submit a sweep to Slurm as arrays of parts, and then its merge. */
#include "cli/args.h"
#include "cli/cli.h"
#include "records/part_files.h"
#include "records/slurm.h"
#include "run/plan_report.h"
#include "run/run_journal.h"
#include "run/slurm_checks.h"
#include "run/slurm_parts.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include "util/shell_words.h"
#include "util/span.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    const char *path, *time, *rate, *partition, *account, *memory, *report;
    struct arg_list set;
    int64_t nodes, cores;
    struct plan_choice choice; /* which visits are to be done */
    bool submit, anyway;
};

/* What the commands name. */
struct paths {
    char self[PATH_MAX], sweep[PATH_MAX], here[PATH_MAX], *results;
    char *folder;          /* of the results, which the commands make */
    char *scripts;         /* folder */
    char *rate_file;       /* of the partition (slurm_rate_known) */
    char report[PATH_MAX]; /* the program that writes it; "": none is asked for */
};

/* --- where --- */

/* The folder of the scripts: of the sources, if the binary is in their build folder, or as it is
 * installed. */
static enum status find_scripts(const char *self, char **out, struct err *e)
{
    static const char *const places[] = {"../../slurm", "../share/qtraj/slurm"};
    enum status st = OK;
    char *folder = NULL, *script = NULL;
    TRY(fsx_parent(self, &folder, e));
    for (size_t i = 0; !*out && i < sizeof places / sizeof *places; i++) {
        char resolved[PATH_MAX];
        free(script);
        script = NULL;
        TRY(mem_format(&script, e, "%s/%s", folder, places[i]));
        if (!realpath(script, resolved)) continue;
        free(script);
        script = NULL;
        TRY(mem_format(&script, e, "%s/trajectory.sbatch", resolved));
        if (fsx_is_file(script)) TRY(mem_string(out, resolved, e));
    }
    ENSURE(*out, ERR_IO,
           "slurm/trajectory.sbatch is neither in %s/../../slurm nor in "
           "%s/../share/qtraj/slurm: keep the binary in its build folder, or install it",
           folder, folder);
done:
    free(folder);
    free(script);
    return st;
}

static enum status find_paths(const struct arguments *a, const struct sweep *s, struct paths *p,
                              struct err *e)
{
    const ssize_t n = readlink("/proc/self/exe", p->self, sizeof p->self - 1);
    NEED(n > 0, ERR_IO, "/proc/self/exe: %s", strerror(errno));
    p->self[n] = '\0';
    NEED(realpath(a->path, p->sweep), ERR_IO, "%s: %s", a->path, strerror(errno));
    NEED(realpath(".", p->here), ERR_IO, "the current folder: %s", strerror(errno));
    PASS(fsx_resolve(s->results, &p->results, e));
    PASS(fsx_parent(p->results, &p->folder, e));
    PASS(find_scripts(p->self, &p->scripts, e));
    if (!a->report) return OK;
    char *file;
    PASS(mem_format(&file, e, "%s/../analysis/report.py", p->scripts));
    const bool found = realpath(file, p->report) != NULL;
    free(file);
    NEED(found, ERR_IO, "--report: there is no analysis/report.py beside %s", p->scripts);
    return OK;
}

/* What nodes there are: as the flags say, else as Slurm does. */
static enum status find_nodes(const struct arguments *a, struct slurm_nodes *at, struct err *e)
{
    char *end;
    *at = (struct slurm_nodes){.nodes = a->nodes, .cores = a->cores, .most = slurm_array_most()};
    if (at->most == 0) at->most = 1000;
    NEED(at->nodes >= 1 && at->nodes <= 1000000, ERR_USAGE,
         "--nodes %lld: expected at least 1 node", (long long)at->nodes);
    PASS(span_parse(a->time, &at->time, e));
    NEED(at->time >= 60, ERR_USAGE, "--time %s: expected at least a minute", a->time);
    if (a->memory) {
        const double gib = strtod(a->memory, &end);
        NEED(end != a->memory && gib > 0 && gib < 1e6 && (!*end || strcmp(end, "G") == 0),
             ERR_USAGE, "--node-memory %s: expected GiB, such as 256 or 256G", a->memory);
        at->memory = (int64_t)(gib * (1 << 30));
    }
    if (at->cores == 0 || at->memory == 0) {
        int64_t cores, memory;
        NEED(slurm_smallest_node(a->partition, &cores, &memory), ERR_USAGE,
             "sinfo does not say what nodes there are: give --node-cores and --node-memory");
        if (at->cores == 0) at->cores = cores;
        if (at->memory == 0) at->memory = memory;
    }
    NEED(at->cores >= 1, ERR_USAGE, "--node-cores %lld: expected at least 1", (long long)at->cores);
    return OK;
}

/* --- the commands --- */

static void put_parts(FILE *out, const struct slurm_parts *s, const struct slurm_nodes *at)
{
    char time[QUANTITY], longest[QUANTITY];
    quantity_time(s->seconds, time);
    fprintf(out,
            "# %lld part%s, %.4g node-hours, about %s on %lld node%s of %lld cores "
            "and %.4g GiB.\n",
            (long long)s->n, quantity_plural(s->n), s->hours, time, (long long)at->nodes,
            quantity_plural(at->nodes), (long long)at->cores, (double)at->memory / (1 << 30));
    for (int64_t i = 0; i < s->n_arrays; i++) {
        const struct slurm_array *a = &s->arrays[i];
        quantity_time(a->longest, longest);
        fprintf(out, "# %lld element%s on %lld node%s each: %.4g node-hours, the longest %s\n",
                (long long)a->elements, quantity_plural(a->elements), (long long)a->nodes,
                quantity_plural(a->nodes), a->hours, longest);
    }
}

/* The variables of the jobs and the function that submits one; n: parts. */
static void put_head(FILE *out, int64_t n, const struct arguments *given, const struct paths *p)
{
    shell_put(out, "set -u\ncd ", p->here /* what paths are relative to */, " || exit\nmkdir -p ",
              p->folder, " || exit\nexport SWEEP=", p->sweep, " QTRAJ=", p->self,
              " RESULTS=", p->results, " RATE_FILE=", p->rate_file, NULL);
    fprintf(out, " PARTS=%lld", (long long)n);
    if (given->report)
        shell_put(out, " REPORT=", given->report, " REPORT_PY=", p->report,
                  /* one for all jobs, whatever is first on their PATH */
                  "\nexport PYTHON; PYTHON=$(", p->scripts, "/python.sh) || exit", NULL);
    putc('\n', out);
    fputs("jobs=\nsubmit() { local id; id=$(${SBATCH:-sbatch} --parsable --export=ALL \"$@\") || "
          "exit; "
          "jobs=$jobs${id:+:${id%%;*}}; [ -z \"$id\" ] || echo \"job $id\"; }\n",
          out);
}

/* "1-5,9": the elements with so many nodes. */
static void put_elements(FILE *out, const struct slurm_parts *s, int64_t nodes)
{
    const char *between = "";
    for (int64_t k = 0; k < s->n; k++) {
        int64_t last = k;
        if (s->parts[k].visits == 0 || s->parts[k].nodes != nodes) continue;
        while (last + 1 < s->n && s->parts[last + 1].visits && s->parts[last + 1].nodes == nodes)
            last++;
        fprintf(out, "%s%lld", between, (long long)k + 1);
        if (last > k) fprintf(out, "-%lld", (long long)last + 1);
        between = ",";
        k = last;
    }
}

static void put_site(FILE *out, const struct arguments *a)
{
    if (a->partition) shell_put(out, " --partition=", a->partition, NULL);
    if (a->account) shell_put(out, " --account=", a->account, NULL);
}

static void put_script(FILE *out, const struct paths *p, const char *name)
{
    char *script = NULL;
    if (mem_format(&script, NULL, "%s/%s.sbatch", p->scripts, name) == OK)
        shell_put_word(out, script);
    free(script);
}

static void put_array(FILE *out, const struct slurm_parts *s, const struct slurm_array *a,
                      const struct slurm_nodes *at, const struct arguments *given,
                      const struct paths *p)
{
    char time[SPAN];
    span_slurm(at->time, time);
    fputs("submit --array=", out);
    put_elements(out, s, a->nodes);
    fprintf(out, "%%%lld --nodes=%lld --ntasks-per-node=%lld --cpus-per-task=%lld --time=%s",
            (long long)a->at_once, (long long)a->nodes, (long long)a->workers,
            (long long)(at->cores / a->workers), time);
    put_site(out, given);
    putc(' ', out);
    fputs("--output=qtraj-%A_%a.out ", out);
    put_script(out, p, a->nodes > 1 ? "large" : "trajectory");
    if (a->nodes > 1) fprintf(out, " --set run.ranks_per_group=%lld", (long long)a->nodes);
    if (given->choice.retry_failed) fputs(" --retry failed", out);
    for (int64_t i = 0; i < given->set.n; i++) shell_put(out, " --set ", given->set.items[i], NULL);
    putc('\n', out);
}

/* The arrays, and the merge after them. */
static void put_jobs(FILE *out, const struct arguments *a, const struct slurm_parts *s,
                     const struct slurm_nodes *at, const struct paths *p)
{
    for (int64_t i = 0; i < s->n_arrays; i++) put_array(out, s, &s->arrays[i], at, a, p);
    fputs("submit ${jobs:+--dependency=afterany$jobs}", out);
    put_site(out, a);
    putc(' ', out);
    put_script(out, p, "merge");
}

/* The job that measures the rate and then does what this command was asked. */
static void put_measurement(FILE *out, const struct call *c, const struct arguments *a,
                            const struct paths *p)
{
    fputs("# the rate of a node is not known: this job measures it, and submits the others\nsubmit",
          out);
    put_site(out, a);
    putc(' ', out);
    put_script(out, p, "measure");
    for (int i = 1; i < c->argc; i++) {
        if (strcmp(c->argv[i], "--submit") == 0) continue;
        shell_put(out, " ", c->argv[i], NULL);
    }
}

/* The commands, on stdout or to a shell. s: NULL while there is no rate. */
static enum status put_commands(const struct call *c, const struct arguments *a,
                                const struct slurm_parts *s, const struct slurm_nodes *at,
                                const struct paths *p, struct err *e)
{
    FILE *out = a->submit ? popen("bash -s", "w") : stdout;
    NEED(out, ERR_IO, "bash cannot be started: %s", strerror(errno));
    fputs("#!/bin/bash\n", out);
    if (s) put_parts(out, s, at);
    put_head(out, s ? s->n : 0, a, p);
    if (s)
        put_jobs(out, a, s, at, p);
    else
        put_measurement(out, c, a, p);
    fputs("\n[ -z \"$jobs\" ] || printf 'follow: %q status %q\\nstop: scancel%s\\n' \"$QTRAJ\" "
          "\"$SWEEP\" "
          "\"${jobs//:/ }\"\n",
          out);
    if (a->submit) NEED(pclose(out) == 0, ERR_IO, "a job is not submitted, see above");
    return OK;
}

/* What a sweep has: visits that are to be done, and failed results. */
struct left {
    int64_t visits, failed;
};

/* Everything that is wrong with the sweep and its jobs. nodes: what is wrong with theirs; "":
 * nothing. */
static enum status find_faults(const struct arguments *a, struct plan *p,
                               const struct slurm_nodes *at, const char *nodes,
                               struct plan_faults *f, struct left *left, struct err *e)
{
    enum status st = OK;
    struct inventory all = {0};
    const int64_t memory = p->sweep->run.memory;
    struct results_view *view = NULL;
    struct plan_report report = {0};
    TRY(slurm_check_folders(p, a->report, f, e));
    if (!f->all.n) TRY(parts_view(p->sweep->results, VIEW_STATES, &view, e));
    TRY(plan_take(p, view, e));
    TRY(plan_warn(p, f, e));
    TRY(plan_report_make(p, view, max64(at->cores, 1), memory ? memory : slurm_memory(at),
                         &a->choice, &report, e));
    TRY(plan_report_faults(&report, true, f, e));
    TRY(plan_inventory(p, view, &all, e));
    *left = (struct left){report.remaining.n,
                          inventory_count(&all, 0, INT64_MAX).by_state[STATE_FAILED]};
    if (nodes[0]) TRY(plan_faults_add(f, p, e, "%s", nodes));
done:
    inventory_close(&all);
    results_view_close(view);
    plan_report_free(&report);
    return st;
}

/* Whether Slurm takes the jobs of this partition, account and time, and that of the merge. */
static enum status ask_slurm(const struct arguments *a, const struct plan *p,
                             const struct slurm_nodes *at, const struct paths *paths,
                             struct plan_faults *f, struct err *e)
{
    enum status st = OK;
    char time[SPAN], why[512], *script = NULL;
    span_slurm(at->time, time);
    TRY(mem_format(&script, e, "%s/merge.sbatch", paths->scripts));
    if (!slurm_accepts(time, a->partition, a->account, script, why, sizeof why) ||
        !slurm_accepts("01:00:00", a->partition, a->account, script, why, sizeof why))
        TRY(plan_faults_add(f, p, e, "Slurm refuses such jobs: %s", why));
done:
    free(script);
    return st;
}

/* The Python of the merge job, which is that of here. */
static enum status check_python(const struct arguments *a, const struct plan *p,
                                const struct paths *paths, struct plan_faults *f, struct err *e)
{
    enum status st = OK;
    char why[900], *script = NULL;
    if (!a->report) return OK;
    TRY(mem_format(&script, e, "%s/python.sh", paths->scripts));
    if (!slurm_python_found(script, why, sizeof why))
        TRY(plan_faults_add(f, p, e, "--report: %s", why));
done:
    free(script);
    return st;
}

/* Parts with their rate, or the job that measures it. */
static enum status put_sweep(const struct call *c, const struct arguments *a, struct plan *plan,
                             struct slurm_nodes *at, const struct paths *paths, const char *rate,
                             struct err *e)
{
    struct slurm_parts parts = {0};
    if (!rate) {
        log_info("the rate of a node%s%s is not known (--rate): a short job measures it first",
                 a->partition ? " of " : "", a->partition ? a->partition : "");
        return put_commands(c, a, NULL, at, paths, e);
    }
    at->recorded = a->submit;
    PASS(slurm_parts_make(plan, rate, at, &parts, e));
    if (parts.too_long)
        log_warn("a visit takes longer than --time on all nodes; its elements are requeued until "
                 "it is done");
    const enum status st = put_commands(c, a, &parts, at, paths, e);
    slurm_parts_free(&parts);
    return st;
}

/* Says that no job has anything to do. */
static void say_nothing_to_do(struct call *c, const struct sweep *s, const struct left *left)
{
    if (left->failed == 0) {
        log_info("nothing to do: %s has all results", s->results);
        return;
    }
    log_warn("nothing to do: %s: %lld failed (qtraj status says why); --retry failed computes them "
             "again",
             s->results, (long long)left->failed);
    c->code = EXIT_CELLS_FAILED;
}

static enum status check_and_put(struct call *c, const struct arguments *a, struct err *e)
{
    enum status st = OK;
    struct sweep sweep = {0};
    struct plan plan = {0};
    struct slurm_nodes at;
    struct plan_faults faults = {0};
    struct err nodes = {0};
    struct paths paths = {0};
    char *rate = NULL;
    struct left left = {0};
    TRY(sweep_read(a->path, (const char *const *)a->set.items, a->set.n, &sweep, e));
    TRY(plan_make(&sweep, true, &plan, e));
    TRY(find_paths(a, &sweep, &paths, e));
    const bool known = find_nodes(a, &at, &nodes) == OK;
    TRY(find_faults(a, &plan, &at, nodes.text, &faults, &left, e));
    TRY(check_python(a, &plan, &paths, &faults, e));
    if (a->submit && known) TRY(ask_slurm(a, &plan, &at, &paths, &faults, e));
    plan_faults_log(&faults);
    ENSURE((a->anyway && known) || !faults.all.n, ERR_USAGE,
           "%s: %lld fault%s, see above; --anyway %s nevertheless",
           a->submit ? "nothing is submitted" : "there is nothing to submit",
           (long long)faults.all.n, quantity_plural(faults.all.n),
           a->submit ? "submits" : "prints how to submit");
    if (left.visits == 0 && !faults.all.n && fsx_is_file(sweep.results)) {
        say_nothing_to_do(c, &sweep, &left);
        goto done;
    }
    if (a->submit) TRY(run_journal_folder(sweep.results, e));
    TRY(slurm_rate_known(paths.results, a->partition, &paths.rate_file, &rate, e));
    TRY(put_sweep(c, a, &plan, &at, &paths, a->rate ? a->rate : rate, e));
done:
    free(rate);
    free(paths.results);
    free(paths.folder);
    free(paths.scripts);
    free(paths.rate_file);
    err_clear(&nodes);
    plan_faults_free(&faults);
    plan_free(&plan);
    sweep_free(&sweep);
    return st;
}

static enum status run(struct call *c, struct err *e)
{
    enum status st = OK;
    struct arguments a = {.nodes = 4, .time = "24:00:00"};
    static const char *const retried[] = {"failed", NULL};
    struct arg_choice retry = {.words = retried};
    const struct arg table[] = {
        {"--set", ARG_LIST, &a.set, "KEY=VALUE", "override a key of the sweep file"},
        {"--nodes", ARG_INTEGER, &a.nodes, "N", "nodes that may be in use at once (default 4)"},
        {"--time", ARG_TEXT, &a.time, "TIME",
         "walltime of an element: 24:00:00, 1-12:00:00, 8h (default 24 hours)"},
        {"--rate", ARG_TEXT, &a.rate, "GFLOPS",
         "sgemm's rate of a whole node, instead of what a job has measured"},
        {"--node-cores", ARG_INTEGER, &a.cores, "N", "cores of a node; sinfo is asked by default"},
        {"--node-memory", ARG_TEXT, &a.memory, "GIB", "its memory, likewise"},
        {"--partition", ARG_TEXT, &a.partition, "NAME", "partition of Slurm"},
        {"--account", ARG_TEXT, &a.account, "NAME", "account of Slurm"},
        {"--report", ARG_TEXT, &a.report, "FOLDER",
         "after the merge, write figures and a page there (needs Python with the modules)"},
        {"--retry", ARG_CHOICE, &retry, "failed",
         "compute failed cells again even if no input file has changed"},
        {"--submit", ARG_SWITCH, &a.submit, NULL, "submit the jobs instead of printing how"},
        {"--anyway", ARG_SWITCH, &a.anyway, NULL, "although something is wrong as seen from here"},
    };
    const struct args args = {ARGS(table)};
    TRY(args_parse(&args, c, &a.path, 1, e));
    a.choice.retry_failed = retry.word != NULL;
    if (!c->help) TRY(check_and_put(c, &a, e));
done:
    arg_list_free(&a.set);
    return st;
}

const struct command cmd_slurm = {
    .name = "slurm",
    .arguments = "SWEEP.yaml [--nodes N] [--time T] [--rate GFLOPS] [--submit] ...",
    .doc = "print, or submit, Slurm jobs that compute a sweep in parts and merge them",
    .without_mpi = true, /* whose variables in the environment would reach the jobs' mpirun */
    .run = run,
};
