/* The commands that read results: show, status, rebuild. */
#include "cli/args.h"
#include "cli/cli.h"
#include "config/sweep.h"
#include "cube/coming.h"
#include "cube/part_table.h"
#include "cube/results_report.h"
#include "records/rows.h"
#include "records/running.h"
#include "run/slurm_site.h"
#include "util/fsx.h"
#include "util/log.h"
#include "util/mem.h"
#include "util/quantity.h"
#include "util/words.h"
#include <sys/stat.h>
#include <time.h>

/* What users name a cube, a journal, a folder of parts, or the sweep file that names the results.
 */
struct place {
    char *cube, *journal;
    bool from_sweep;
    struct part_places
        parts;               /* of a folder, of the sweep, or of results that are not there (yet) */
    struct part_look *looks; // (parts.n)
};

static void place_free(struct place *p)
{
    free(p->cube);
    free(p->journal);
    for (int64_t i = 0; p->looks && i < p->parts.n; i++) part_look_free(&p->looks[i]);
    free(p->looks);
    parts_free(&p->parts);
}

static enum status find_place(const char *name, struct place *p, struct err *e)
{
    CLEANUP(sweep_free) struct sweep sweep = {0};
    AUTO_FREE char *folder = NULL;
    if (fsx_is_dir(name)) {
        /* The parts in a folder RESULTS.parts, or in any other. */
        const char ending[] = ".parts";
        size_t n = strlen(name);
        while (n > 1 && name[n - 1] == '/') n--;
        PASS(parts_list(name, &p->parts, e));
        NEED(p->parts.n > 0, ERR_USAGE,
             "%s: no parts in this folder; expected journals such as part-001-of-008.journal",
             name);
        const size_t m = sizeof ending - 1;
        const bool beside = n > m && strncmp(name + n - m, ending, m) == 0;
        PASS(mem_format(&p->cube, e, "%.*s", (int)(beside ? n - m : n), name));
        return journal_path(p->cube, &p->journal, e);
    }
    p->from_sweep = words_end(name, ".yaml") || words_end(name, ".yml");
    if (p->from_sweep) PASS(sweep_read(name, NULL, 0, &sweep, e));
    if (words_end(name, ".journal")) {
        /* its cube is NAME or NAME.h5: the one that is there */
        PASS(mem_format(&p->cube, e, "%.*s", (int)(strlen(name) - strlen(".journal")), name));
        if (!fsx_is_file(p->cube)) PASS(mem_append(&p->cube, e, ".h5"));
        PASS(mem_string(&p->journal, name, e));
    } else {
        PASS(mem_string(&p->cube, p->from_sweep ? sweep.results : name, e));
        PASS(journal_path(p->cube, &p->journal, e));
    }
    /* a cube that is there is what its name says; merged parts are in its journal */
    if (p->from_sweep || !fsx_is_file(name)) PASS(parts_folder(p->cube, &folder, e));
    if (folder && fsx_is_dir(folder)) PASS(parts_list(folder, &p->parts, e));
    return OK;
}

/* How a cube compares with its journal; not while a run goes on, which renews it. */
static enum status compare_cube(const struct place *p, struct report_about *about, struct err *e)
{
    struct journal_mark mark;
    about->cube = CUBE_NOT_COMPARED;
    if (!fsx_is_file(p->journal) || lock_look(p->journal).held) return OK;
    about->cube = CUBE_MISSING;
    if (!fsx_is_file(p->cube)) return OK;
    PASS(cube_mark(p->cube, &mark, e));
    static const enum cube_state states[] = {[JOURNAL_UNKNOWN] = CUBE_UNKNOWN,
                                             [JOURNAL_SAME] = CUBE_CURRENT,
                                             [JOURNAL_LONGER] = CUBE_OLDER,
                                             [JOURNAL_OTHER] = CUBE_OTHER};
    about->cube = states[journal_since(p->journal, &mark, &about->lacks)];
    return OK;
}

/* Says what a cube does not have of its journal. */
static void warn_of_cube(const struct place *p, const struct report_about *about)
{
    if (about->cube == CUBE_OLDER)
        log_warn("%s: older than its journal %s, of which it lacks the last %lld record%s; the "
                 "next run or qtraj rebuild renews it",
                 p->cube, p->journal, (long long)about->lacks, quantity_plural(about->lacks));
    if (about->cube == CUBE_OTHER)
        log_warn("%s: not made of what its journal %s holds now, which was cut, changed or "
                 "replaced; the next run or qtraj rebuild makes it again",
                 p->cube, p->journal);
}

/* Says that a sweep file was written after the newest plan of its results, which are shown. */
static void warn_of_sweep(const char *name, const struct results_view *v)
{
    struct stat file;
    struct tm planned = {0};
    const char *utc = json_text(v->plan, "utc", "");
    if (stat(name, &file) != 0 || !strptime(utc, "%Y-%m-%dT%H:%M:%SZ", &planned)) return;
    if (file.st_mtime > timegm(&planned))
        log_warn("%s: changed after its results were planned, %s; qtraj plan says what is left of "
                 "it now",
                 name, utc);
}

/* Whether parts of a merged cube are computed now. */
static enum status find_parts_run(const struct place *p, bool *run, struct err *e)
{
    CLEANUP(parts_free) struct part_places all = {0};
    if (p->parts.n) return OK;
    PASS(parts_of(p->cube, &all, e));
    for (int64_t i = 0; i < all.n; i++) *run = *run || lock_look(all.part[i].journal).held;
    return OK;
}

static const char *file_of(const char *name, const struct place *p)
{
    return p->from_sweep ? p->cube : name;
}

static bool is_there(const char *file)
{
    return fsx_is_file(file) || fsx_is_dir(file);
}

/* ids (n bytes) = of the Slurm jobs that compute these results, "": none. */
static enum status find_jobs(const struct place *p, char *ids, size_t n, struct err *e)
{
    AUTO_FREE char *comment = NULL;
    PASS(slurm_comment(p->cube, &comment, e));
    slurm_find_jobs(comment, ids, n);
    return OK;
}

/* Says which Slurm jobs will compute what is new. */
static enum status say_submitted(const char *name, const char *ids, bool json, struct err *e)
{
    if (json)
        return cli_print_json(json_pack("{s:{s:s, s:s}}", "run", "state", "submitted", "jobs", ids),
                              JSON_INDENT(1) | JSON_SORT_KEYS, e);
    printf("%s: submitted, no results yet; jobs that wait or run: %s (squeue says when they "
           "start)\n",
           name, ids);
    return OK;
}

/* The journal is the truth, also while a run goes on, and at the start of a run there is no cube
 * yet; a cube that was named is read where it need not be the newest. */
static enum status open_place(const char *name, struct place *p, bool newest,
                              enum view_content content, const char *metrics,
                              struct results_view **out, struct err *e)
{
    if (p->parts.n) {
        PASS(mem_zero(&p->looks, p->parts.n, sizeof *p->looks, "parts", e));
        PASS(parts_join(&p->parts, p->journal, content, p->looks, out, e));
        PASS(results_warn_of_stale(*out, e));
        if (p->from_sweep) warn_of_sweep(name, *out);
        return OK;
    }
    const char *file = file_of(name, p);
    const bool there = is_there(file), journal = fsx_is_file(p->journal);
    NEED(there || journal, ERR_IO,
         "%s: nothing has been run yet: there is no %s and no %s; start it with qtraj run", name,
         file, p->journal);
    PASS(results_view_open(journal && (newest || p->from_sweep || !there) ? p->journal : file,
                           content, metrics, out, e));
    PASS(results_warn_of_stale(*out, e));
    if (p->from_sweep) warn_of_sweep(name, *out);
    return OK;
}

/* The keys of --only that have a flag of their own: --model PATTERN is --only model=PATTERN. */
static const char *const shown_keys[] = {"model",     "checkpoint", "bits",
                                         "quantizer", "dataset",    "task"};
enum { SHOWN_KEYS = sizeof shown_keys / sizeof *shown_keys };

/* What show needs of records: rows have all numbers, tables the ones asked for. */
static const char *metrics_of(const struct show_options *o)
{
    if (o->csv || o->json) return NULL;
    const bool cells = !o->kind || strcmp(o->kind, measure_cell.name) == 0;
    return o->metric || !cells ? o->metric : show_default_metric;
}

static enum status run_show(struct call *c, struct err *e)
{
    const char *path, *patterns[SHOWN_KEYS] = {NULL};
    CLEANUP(texts_free) struct texts only = {0};
    struct show_options o = {0};
    struct arg_choice kind = {.words = recorded_names};
    CLEANUP(place_free) struct place place = {0};
    struct report_about about = {0};
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    const struct arg table[] = {
        {"--kind", ARG_CHOICE, &kind, "KIND",
         "other results than those of cells; an unknown one names all"},
        {"--metric", ARG_TEXT, &o.metric, "NAME[,NAME]",
         "which numbers; of tables of cells loss_relative, if nothing is said"},
        {"--only", ARG_LIST, &only, "KEY=PATTERN",
         "only results whose model, checkpoint, bits, quantizer, dataset, task or surface match"},
        {"--model", ARG_TEXT, &patterns[0], "PATTERN", "the same as --only model=PATTERN"},
        {"--checkpoint", ARG_TEXT, &patterns[1], "PATTERN", "--only checkpoint=PATTERN"},
        {"--bits", ARG_TEXT, &patterns[2], "PATTERN", "--only bits=PATTERN"},
        {"--quantizer", ARG_TEXT, &patterns[3], "PATTERN", "--only quantizer=PATTERN"},
        {"--dataset", ARG_TEXT, &patterns[4], "PATTERN", "--only dataset=PATTERN"},
        {"--task", ARG_TEXT, &patterns[5], "PATTERN", "--only task=PATTERN"},
        {"--csv", ARG_SWITCH, &o.csv, NULL, "a row a result (and dataset) with all its numbers"},
        {"--json", ARG_SWITCH, &o.json, NULL, "the same as JSON"},
    };
    const struct args args = {ARGS(table)};
    PASS(args_parse(&args, c, &path, 1, e));
    if (c->help) return OK;
    NEED(!o.csv || !o.json, ERR_USAGE, "--csv and --json: expected one of them");
    for (int i = 0; i < SHOWN_KEYS; i++) {
        AUTO_FREE char *text = NULL;
        if (!patterns[i]) continue;
        PASS(mem_format(&text, e, "%s=%s", shown_keys[i], patterns[i]));
        PASS(texts_append(&only, text, e));
    }
    o.kind = kind.word;
    o.only = texts_list(&only);
    o.n_only = only.n;
    PASS(find_place(path, &place, e));
    PASS(open_place(path, &place, false, VIEW_NUMBERS, metrics_of(&o), &view, e));
    PASS(compare_cube(&place, &about, e));
    warn_of_cube(&place, &about);
    if (!place.from_sweep && strcmp(path, place.journal) != 0 && lock_look(place.journal).held)
        log_info("a run goes on: what it has finished since this cube is in %s", place.journal);
    return report_show(view, &o, stdout, e);
}

const struct command cmd_show = {
    .name = "show",
    .arguments = "RESULTS [--metric NAME] [--only KEY=PATTERN] [--csv|--json] ...",
    .doc = "print results as tables, or as rows for machines",
    .run = run_show,
};

static enum status run_status(struct call *c, struct err *e)
{
    static const int codes[] = {[VERDICT_DONE] = EXIT_DONE,
                                [VERDICT_FAILED] = EXIT_CELLS_FAILED,
                                [VERDICT_OPEN] = EXIT_STOPPED};
    const char *path;
    bool json = false, exit_code = false;
    char jobs[512];
    CLEANUP(results_view_close_at) struct results_view *view = NULL;
    struct report_about about = {0};
    CLEANUP(place_free) struct place place = {0};
    json_auto_t *running = NULL, *coming = NULL;
    enum report_verdict verdict;
    const struct arg table[] = {{"--json", ARG_SWITCH, &json, NULL, "print JSON"},
                                {"--exit-code", ARG_SWITCH, &exit_code, NULL,
                                 "end with 0 if all is done, 1 if records failed, 3 if a run goes "
                                 "on, waits or was stopped"}};
    const struct args args = {ARGS(table)};
    PASS(args_parse(&args, c, &path, 1, e));
    if (c->help) return OK;
    PASS(find_place(path, &place, e));
    PASS(find_jobs(&place, jobs, sizeof jobs, e));
    if (jobs[0]) about.jobs = jobs;
    const bool begun =
        place.parts.n || is_there(file_of(path, &place)) || fsx_is_file(place.journal);
    if (about.jobs && !begun) {
        if (exit_code) c->code = EXIT_STOPPED;
        return say_submitted(path, jobs, json, e);
    }
    /* First the lock: a run that ends in between leaves a journal that says so. */
    about.holder = lock_look(place.journal);
    about.running = running = running_read(place.journal, &about.holder);
    PASS(open_place(path, &place, true, VIEW_STATES, NULL, &view, e));
    PASS(compare_cube(&place, &about, e));
    warn_of_cube(&place, &about);
    if (about.cube == CUBE_MISSING)
        log_warn("%s: not there, but its journal is; the next run or qtraj rebuild makes it",
                 place.cube);
    const struct part_table parts = {&place.parts, place.looks};
    if (place.parts.n) about.parts = &parts;
    PASS(find_parts_run(&place, &about.parts_run, e));
    about.coming = coming = coming_read(place.cube);
    PASS(report_status(view, &about, json, stdout, &verdict, e));
    if (exit_code) c->code = codes[verdict];
    return OK;
}

const struct command cmd_status = {
    .name = "status",
    .arguments = "RESULTS|SWEEP.yaml|FOLDER [--json] [--exit-code]",
    .doc = "count finished and failed cells, and say why they failed",
    .run = run_status,
};
