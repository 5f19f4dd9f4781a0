/* qtraj slurm: the commands that submit a sweep to Slurm as arrays of parts, and then its merge. */
#include "cli/args.h"
#include "cli/cli.h"
#include "records/part_files.h"
#include "run/plan_report.h"
#include "run/run_journal.h"
#include "run/slurm_site.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/num.h"
#include "util/quantity.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

struct arguments {
    const char *path, *rate, *report;
    struct slurm_request of;
    struct texts set;
    struct plan_choice choice; /* which visits are to be done */
    bool submit, anyway;
};

/* What the commands name. */
struct paths {
    char self[PATH_MAX], sweep[PATH_MAX], here[PATH_MAX], *results;
    char *folder;          /* of the results, which the commands make */
    char *scripts;         /* folder */
    char *comment;         /* of the jobs */
    char *rate_file;       /* of the partition (slurm_rate_known) */
    char report[PATH_MAX]; /* the program that writes it; "": none is asked for */
};

static void paths_free(struct paths *p)
{
    free(p->results);
    free(p->folder);
    free(p->scripts);
    free(p->comment);
    free(p->rate_file);
}

/* A word for a shell, in single quotes. */
static void shell_put_word(FILE *out, const char *word)
{
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

/* Text as it is and words in turn, NULL after the last. */
static void shell_put(FILE *out, ...)
{
    va_list all;
    const char *text;
    va_start(all, out);
    for (bool word = false; (text = va_arg(all, const char *)) != NULL; word = !word)
        if (word)
            shell_put_word(out, text);
        else
            fputs(text, out);
    va_end(all);
}

/* --- where --- */

/* The folder of the scripts: of the sources, if the binary is in their build folder, or as it is
 * installed. */
static enum status find_scripts(const char *self, char **out, struct err *e)
{
    static const char *const places[] = {"../../slurm", "../share/qtraj/slurm"};
    AUTO_FREE char *folder = NULL, *script = NULL;
    PASS(fsx_parent(self, &folder, e));
    for (size_t i = 0; !*out && i < sizeof places / sizeof *places; i++) {
        char resolved[PATH_MAX];
        mem_drop(&script);
        PASS(mem_format(&script, e, "%s/%s", folder, places[i]));
        if (realpath(script, resolved) && fsx_has("%s/trajectory.sbatch", resolved))
            PASS(mem_string(out, resolved, e));
    }
    NEED(*out, ERR_IO,
         "slurm/trajectory.sbatch is neither in %s/../../slurm nor in "
         "%s/../share/qtraj/slurm: keep the binary in its build folder, or install it",
         folder, folder);
    return OK;
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
    PASS(slurm_comment(p->results, &p->comment, e));
    PASS(find_scripts(p->self, &p->scripts, e));
    if (!a->report) return OK;
    char *file;
    PASS(mem_format(&file, e, "%s/../analysis/report.py", p->scripts));
    const bool found = realpath(file, p->report) != NULL;
    free(file);
    NEED(found, ERR_IO, "--report: there is no analysis/report.py beside %s", p->scripts);
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

/* minutes: of jobs whose script says so; a shorter limit of the partition counts; 0: --time does.
 */
static void put_site(FILE *out, const struct arguments *a, const struct slurm_nodes *at,
                     double minutes)
{
    char time[SPAN];
    if (60 * minutes > at->limit) {
        span_slurm(at->limit, time);
        fprintf(out, " --time=%s", time);
    }
    if (a->of.partition) shell_put(out, " --partition=", a->of.partition, NULL);
    if (a->of.account) shell_put(out, " --account=", a->of.account, NULL);
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
    /* "1-5,9": the elements with so many nodes. */
    const char *between = "";
    for (int64_t k = 0; k < s->n; k++) {
        int64_t last = k;
        if (s->parts[k].visits == 0 || s->parts[k].nodes != a->nodes) continue;
        while (last + 1 < s->n && s->parts[last + 1].visits && s->parts[last + 1].nodes == a->nodes)
            last++;
        fprintf(out, "%s%lld", between, (long long)k + 1);
        if (last > k) fprintf(out, "-%lld", (long long)last + 1);
        between = ",";
        k = last;
    }
    fprintf(out, "%%%lld --nodes=%lld --ntasks-per-node=%lld --cpus-per-task=%lld --time=%s",
            (long long)a->at_once, (long long)a->nodes, (long long)a->workers,
            (long long)(at->cores / a->workers), time);
    put_site(out, given, at, 0);
    shell_put(out, " --comment=", p->comment, " --output=qtraj-%A_%a.out ", NULL);
    put_script(out, p, a->nodes > 1 ? "large" : "trajectory");
    if (a->nodes > 1) fprintf(out, " --set run.ranks_per_group=%lld", (long long)a->nodes);
    if (given->choice.retry_failed) fputs(" --retry failed", out);
    for (int64_t i = 0; i < given->set.n; i++) shell_put(out, " --set ", given->set.text[i], NULL);
    putc('\n', out);
}

/* Whether the results are others than the sweep file says. */
static bool own_results(const struct arguments *a)
{
    for (int64_t i = 0; i < a->set.n; i++)
        if (strncmp(a->set.text[i], "results=", 8) == 0) return true;
    return false;
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
    if (s) {
        /* The arrays, and the merge after them. */
        for (int64_t i = 0; i < s->n_arrays; i++) put_array(out, s, &s->arrays[i], at, a, p);
        fputs("submit ${jobs:+--dependency=afterany$jobs}", out);
        put_site(out, a, at, 60);
        putc(' ', out);
        put_script(out, p, "merge");
    } else {
        /* The job that measures the rate and then does what this command was asked. */
        fputs("# the rate of a node is not known: this job measures it, and submits the others\n"
              "submit",
              out);
        put_site(out, a, at, 15);
        shell_put(out, " --comment=", p->comment, " ", NULL);
        put_script(out, p, "measure");
        for (int i = 1; i < c->argc; i++) {
            if (strcmp(c->argv[i], "--submit") == 0) continue;
            shell_put(out, " ", c->argv[i], NULL);
        }
    }
    fputs("\n[ -z \"$jobs\" ] || printf 'follow: %q status %q\\nstop: scancel%s\\n' \"$QTRAJ\" "
          "\"",
          out);
    fputs(own_results(a) ? "$RESULTS" : "$SWEEP", out);
    fputs("\" \"${jobs//:/ }\"\n", out);
    if (a->submit) NEED(pclose(out) == 0, ERR_IO, "a job is not submitted, see above");
    return OK;
}

/* What a sweep has: visits that are to be done, and failed results. */
struct left {
    int64_t visits, failed;
    bool *which; // (visits of the plan) are to be done
};

static void left_free(struct left *l)
{
    free(l->which);
}

/* Everything that is wrong with the sweep. */
static enum status find_faults(const struct arguments *a, struct plan *p,
                               const struct slurm_nodes *at, struct plan_faults *f,
                               struct left *left, struct err *e)
{
    CLEANUP(plan_report_free) struct plan_report report = {0};
    const int64_t memory = p->sweep->run.memory;
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    CLEANUP(inventory_close) struct inventory all = {0};
    PASS(slurm_check_folders(p, a->report, f, e));
    if (!f->all.n) PASS(parts_view(p->sweep->results, VIEW_STATES, &view, e));
    PASS(plan_take(p, view, e));
    PASS(plan_warn(p, f, e));
    PASS(plan_report_make(p, view, max64(at->cores, 1), memory ? memory : slurm_memory(at),
                          &a->choice, &report, e));
    PASS(plan_report_faults(&report, true, f, e));
    PASS(plan_inventory(p, view, &all, e));
    left->visits = report.remaining.n;
    left->failed = inventory_count(&all, 0, INT64_MAX).by_state[STATE_FAILED];
    const int64_t visits = p->n_checkpoints + plan_more(p);
    PASS(mem_zero(&left->which, visits, sizeof *left->which, "visits", e));
    for (int64_t i = 0; i < left->visits; i++) left->which[report.remaining.visits[i].at] = true;
    return OK;
}

/* What is wrong with the jobs, for nodes that are known, and with the Python of the merge. */
static enum status check_jobs(const struct arguments *a, const struct plan *p,
                              const struct slurm_nodes *at, const struct paths *paths, bool known,
                              struct plan_faults *f, struct err *e)
{
    char why[900];
    AUTO_FREE char *merge = NULL, *python = NULL;
    PASS(mem_format(&merge, e, "%s/merge.sbatch", paths->scripts));
    PASS(mem_format(&python, e, "%s/python.sh", paths->scripts));
    if (known) PASS(slurm_site_check(&a->of, at, p, a->submit, merge, f, e));
    if (a->submit) PASS(slurm_check_jobs(p, paths->comment, f, e));
    if (a->report && !slurm_python_found(python, why, sizeof why))
        PASS(plan_faults_add(f, p, e, "--report: %s", why));
    return OK;
}

/* Parts with their rate, or the job that measures it. */
static enum status put_sweep(const struct call *c, const struct arguments *a, struct plan *plan,
                             struct slurm_nodes *at, const bool *which, const struct paths *paths,
                             const char *rate, struct err *e)
{
    CLEANUP(slurm_parts_free) struct slurm_parts parts = {0};
    if (!rate) {
        log_info("the rate of a node%s%s is not known (--rate): a short job measures it first",
                 a->of.partition ? " of " : "", a->of.partition ? a->of.partition : "");
        return put_commands(c, a, NULL, at, paths, e);
    }
    at->recorded = a->submit;
    PASS(slurm_parts_make(plan, rate, at, which, &parts, e));
    if (parts.too_long)
        log_warn("a visit takes longer than --time on all nodes; its elements are requeued until "
                 "it is done");
    return put_commands(c, a, &parts, at, paths, e);
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
    CLEANUP(sweep_free) struct sweep sweep = {0};
    CLEANUP(plan_free) struct plan plan = {0};
    struct slurm_nodes at;
    CLEANUP(plan_faults_free) struct plan_faults faults = {0};
    struct err nodes = {0};
    CLEANUP(paths_free) struct paths paths = {0};
    AUTO_FREE char *rate = NULL;
    CLEANUP(left_free) struct left left = {0};
    PASS(sweep_read(a->path, texts_list(&a->set), a->set.n, &sweep, e));
    PASS(plan_make(&sweep, true, &plan, e));
    PASS(find_paths(a, &sweep, &paths, e));
    const bool known = slurm_nodes_find(&a->of, &at, &nodes) == OK;
    PASS(find_faults(a, &plan, &at, &faults, &left, e));
    if (!known) PASS(plan_faults_add(&faults, &plan, e, "%s", nodes.text));
    PASS(check_jobs(a, &plan, &at, &paths, known, &faults, e));
    plan_faults_log(&faults);
    NEED((a->anyway && known) || !faults.all.n, ERR_USAGE, "%s: %lld fault%s, see above%s",
         a->submit ? "nothing is submitted" : "there is nothing to submit", (long long)faults.all.n,
         quantity_plural(faults.all.n),
         a->anyway   ? ""
         : a->submit ? "; --anyway submits nevertheless"
                     : "; --anyway prints how to submit nevertheless");
    if (left.visits == 0 && !faults.all.n && fsx_is_file(sweep.results)) {
        say_nothing_to_do(c, &sweep, &left);
        return OK;
    }
    if (a->submit) PASS(run_journal_folder(sweep.results, e));
    PASS(slurm_rate_known(paths.results, a->of.partition, &paths.rate_file, &rate, e));
    PASS(put_sweep(c, a, &plan, &at, left.which, &paths, a->rate ? a->rate : rate, e));
    return OK;
}

static enum status run(struct call *c, struct err *e)
{
    struct arguments a = {.of = {.nodes = 4, .time = "24:00:00"}};
    static const char *const retried[] = {"failed", NULL};
    struct arg_choice retry = {.words = retried};
    const struct arg table[] = {
        {"--set", ARG_LIST, &a.set, "KEY=VALUE", "override a key of the sweep file"},
        {"--nodes", ARG_INTEGER, &a.of.nodes, "N", "nodes that may be in use at once (default 4)"},
        {"--time", ARG_TEXT, &a.of.time, "TIME",
         "walltime of an element: 24:00:00, 1-12:00:00, 8h (default 24 hours)"},
        {"--rate", ARG_TEXT, &a.rate, "GFLOPS",
         "sgemm's rate of a whole node, instead of what a job has measured"},
        {"--node-cores", ARG_INTEGER, &a.of.cores, "N",
         "cores of a node; sinfo is asked by default"},
        {"--node-memory", ARG_TEXT, &a.of.memory, "GIB", "its memory, likewise"},
        {"--partition", ARG_TEXT, &a.of.partition, "NAME", "partition of Slurm"},
        {"--account", ARG_TEXT, &a.of.account, "NAME", "account of Slurm"},
        {"--report", ARG_TEXT, &a.report, "FOLDER",
         "after the merge, write figures and a page there (needs Python with the modules)"},
        {"--retry", ARG_CHOICE, &retry, "failed",
         "compute failed cells again even if no input file has changed"},
        {"--submit", ARG_SWITCH, &a.submit, NULL, "submit the jobs instead of printing how"},
        {"--anyway", ARG_SWITCH, &a.anyway, NULL, "although something is wrong as seen from here"},
    };
    const struct args args = {ARGS(table)};
    enum status st = args_parse(&args, c, &a.path, 1, e);
    a.choice.retry_failed = retry.word != NULL;
    if (st == OK && !c->help) st = check_and_put(c, &a, e);
    texts_free(&a.set);
    return st;
}

const struct command cmd_slurm = {
    .name = "slurm",
    .arguments = "SWEEP.yaml [--nodes N] [--time T] [--rate GFLOPS] [--submit] ...",
    .doc = "print, or submit, Slurm jobs that compute a sweep in parts and merge them",
    .without_mpi = true, /* whose variables in the environment would reach the jobs' mpirun */
    .run = run,
};
